"""A run's folder: the one place that knows its file names and hashes; networks read back from it."""
