"""What ``ptycho doctor`` looks at on this machine."""
