"""An iterative program of others as a competitor; it runs in a process of its own."""
