"""An iterative program of other authors, for comparison; it runs in a process of its own."""
