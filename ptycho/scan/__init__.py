"""A scan: positions, groups of them, the probe, the patterns, and the dataset that holds them all.

NumPy alone. Imports ``ptycho.files`` and ``ptycho.config``.
"""
