"""The checks of ``ptycho doctor`` on this machine."""
