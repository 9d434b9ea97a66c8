"""What ``ptycho doctor`` looks at: the machine, the packages, what is optional, and the speed."""
