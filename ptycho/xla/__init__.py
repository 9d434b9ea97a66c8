"""Image operators that compile under XLA where TensorFlow's own do not."""

from ptycho.xla.resample import hat_weights, resample, resample_adjoint, translate

__all__ = ["hat_weights", "resample", "resample_adjoint", "translate"]
