"""What ``ptycho doctor`` and ``ptycho xla-report`` look at on this machine."""
