"""The measurement: object → exit waves → far or near field → intensity (``forward``), and the steps back.

All TensorFlow, for simulation, networks, losses and solver alike, in complex numbers or in pairs of reals
(:mod:`~ptycho.physics.waves`). Imports the operators of ``ptycho.xla`` and the lengths of ``ptycho.config``.
"""

from ptycho.physics.fresnel import fresnel_field, propagate, transfer_of
from ptycho.physics.measurement import (
    at_detector,
    back_project,
    centre,
    crop_to,
    detect,
    expected_intensity,
    far_field,
    forward,
    from_far_field,
    illuminate,
    illuminated_waves,
    intensity,
    modulus_change,
    over_modes,
    pad_to,
    probe_of_each,
    root,
    scaled,
    shift_far_field,
    shift_ramp,
    shifted_probe,
    shifted_spectrum,
    split_positions,
    spread,
    through_slices,
    total_intensity,
    uncentre,
)
from ptycho.physics.patches import PROJECTIVE, SEPARABLE, WHOLE, PatchMover, extract_patches, place_patches
from ptycho.physics.waves import Pair, Waves, by_part, imag, of_parts, real
