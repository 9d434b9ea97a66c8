"""A scan: positions, groups of them, the probe, the patterns, and the dataset that holds them all.

NumPy alone, but for :mod:`~ptycho.scan.batches`, which makes of a dataset what a network is given. Imports
``ptycho.physics``, ``ptycho.files`` and ``ptycho.config``.
"""
