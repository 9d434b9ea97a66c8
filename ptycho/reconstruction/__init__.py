"""From a trained network to objects: inference in batches, stitching of regions; the solver.

Imports ``ptycho.scan``, ``ptycho.physics`` and what lies below them.
"""
