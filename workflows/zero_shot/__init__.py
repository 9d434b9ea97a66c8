"""A study of reconstruction without training: one network on scans of kinds that it has never seen."""
