"""The measurement: patches → exit wave → far field → diffraction amplitude, and the steps back.

All TensorFlow, for simulation, networks, losses and solver alike, in complex numbers or in pairs of reals
(:mod:`~ptycho.physics.waves`). Imports the operators of ``ptycho.xla`` alone.
"""

from ptycho.physics.measurement import (
    amplitude,
    back_project,
    centre,
    crop_to,
    detect,
    diffract,
    exit_waves,
    far_field,
    has_modes,
    illuminate,
    intensity,
    lit_waves,
    modulus_change,
    near_field,
    over_modes,
    pad_to,
    scaled,
    shift_ramp,
    shifted_probe,
    split_positions,
    total_light,
    uncentre,
)
from ptycho.physics.patches import PROJECTIVE, SEPARABLE, WHOLE, PatchMover, extract_patches, place_patches
from ptycho.physics.waves import Pair, Waves, by_part, imag, of_parts, real

__all__ = [
    "PROJECTIVE",
    "SEPARABLE",
    "WHOLE",
    "Pair",
    "PatchMover",
    "Waves",
    "amplitude",
    "back_project",
    "by_part",
    "centre",
    "crop_to",
    "detect",
    "diffract",
    "exit_waves",
    "extract_patches",
    "far_field",
    "has_modes",
    "illuminate",
    "imag",
    "intensity",
    "lit_waves",
    "modulus_change",
    "near_field",
    "of_parts",
    "over_modes",
    "pad_to",
    "place_patches",
    "real",
    "scaled",
    "shift_ramp",
    "shifted_probe",
    "split_positions",
    "total_light",
    "uncentre",
]
