"""The training loop: steps, validation, history, checkpoints, and stopping on a signal.

It trains any model that has ``losses_of(batch, probe, normalisation)``. Imports ``ptycho.networks`` for its
weights, ``ptycho.scan`` for its data, and the packages below them.
"""
