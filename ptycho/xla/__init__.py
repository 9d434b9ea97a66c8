"""Image operators that compile under XLA where TensorFlow's own do not.

Here live the operators, what they share, and a Keras layer; nothing else of ``ptycho`` is imported. The
physics uses ``hat_weights``, ``resample`` and ``resample_adjoint``; ``translate`` is of the same family. The
rest (``crop_and_resize``, ``resize``, ``projective_warp``, the layer ``Translation``) is a product of its
own: see ``docs/xla.md``.
"""

from ptycho.xla.crop import choose_path, crop_and_resize
from ptycho.xla.layers import Translation
from ptycho.xla.resample import hat_weights, resample, resample_adjoint, translate
from ptycho.xla.resize import resize
from ptycho.xla.warp import projective_warp
from ptycho.xla.windows import add_windows, cut_windows

__all__ = [
    "Translation",
    "add_windows",
    "choose_path",
    "crop_and_resize",
    "cut_windows",
    "hat_weights",
    "projective_warp",
    "resample",
    "resample_adjoint",
    "resize",
    "translate",
]
