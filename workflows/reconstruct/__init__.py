"""From patterns to objects: grid lines, measured scans, inference with a trained network."""
