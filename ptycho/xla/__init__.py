"""Translation and windows of images as operators that XLA compiles; nothing else of ``ptycho`` is imported.

The physics moves patches with ``hat_weights``, ``resample`` and ``resample_adjoint``, or copies them at whole
pixels with ``cut_windows`` and ``add_windows``; ``translate`` shifts an image. Operators that crop, resize
and warp are an optional part, ``ptycho_images`` in ``extras/images``; see ``docs/xla.md``.
"""

from ptycho.xla.resample import add_windows, cut_windows, hat_weights, resample, resample_adjoint, translate

__all__ = ["add_windows", "cut_windows", "hat_weights", "resample", "resample_adjoint", "translate"]
