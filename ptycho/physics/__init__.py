"""The measurement: patches → exit wave → far field → diffraction amplitude, and the steps back.

:mod:`~ptycho.physics.patches` and :mod:`~ptycho.physics.measurement` are TensorFlow, for simulation,
networks, losses and solver alike; :mod:`~ptycho.physics.windows` cuts and adds whole-pixel windows in NumPy.
Imports the operators of ``ptycho.xla`` alone.
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
    far_field_step,
    has_modes,
    illuminate,
    intensity,
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
from ptycho.physics.patches import PROJECTIVE, SEPARABLE, PatchMover, extract_patches, place_patches
from ptycho.physics.windows import add_windows, add_windows_to, cut_windows, inner_windows

__all__ = [
    "PROJECTIVE",
    "SEPARABLE",
    "PatchMover",
    "add_windows",
    "add_windows_to",
    "amplitude",
    "back_project",
    "centre",
    "crop_to",
    "cut_windows",
    "detect",
    "diffract",
    "exit_waves",
    "extract_patches",
    "far_field",
    "far_field_step",
    "has_modes",
    "illuminate",
    "inner_windows",
    "intensity",
    "modulus_change",
    "near_field",
    "over_modes",
    "pad_to",
    "place_patches",
    "scaled",
    "shift_ramp",
    "shifted_probe",
    "split_positions",
    "total_light",
    "uncentre",
]
