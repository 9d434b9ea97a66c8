"""Image operators that compile under XLA where TensorFlow's own do not: see ``docs/xla.md``.

They crop, resize and warp with TensorFlow's definitions, and have gradients. ``translate``, which the physics
uses, is part of :mod:`ptycho.xla`, with what all of them share.
"""

from ptycho.xla import translate
from ptycho_images.crop import choose_path, crop_and_resize
from ptycho_images.layers import Translation
from ptycho_images.resize import resize
from ptycho_images.warp import projective_warp

__all__ = ["Translation", "choose_path", "crop_and_resize", "projective_warp", "resize", "translate"]
