"""Align a scan with its detector: initial probe, orientation, affine map, position jumps."""
