"""Studies: many cells, each measured once and kept, and a report of them (``python -m benchmarks.study``)."""
