"""Image operators that compile under XLA where TensorFlow's own do not."""

from ptycho.xla.crop import choose_path, crop_and_resize
from ptycho.xla.layers import Translation
from ptycho.xla.resample import hat_weights, resample, resample_adjoint, translate
from ptycho.xla.warp import projective_warp

__all__ = [
    "Translation",
    "choose_path",
    "crop_and_resize",
    "hat_weights",
    "projective_warp",
    "resample",
    "resample_adjoint",
    "translate",
]
