"""The training loop: steps, validation, history, checkpoints, and stopping on a signal.

It trains any model that offers ``losses_of(batch, probe, normalisation)``. Imports ``ptycho.networks`` for
its weights, ``ptycho.scan`` for its batches, and what lies below them.
"""
