"""A result in a file: NPZ, or HDF5 that is also a product of ptychodus; read back without unpickling.

=============================== ==================================================================
``object``, ``mask``            ``(M, M)`` complex64, bool
``illuminated``                 ``(M, M)`` bool
``slices``                      ``(L, M, M)`` complex64, of a thick object
``probe``, ``positions``,       the beam; ``background`` if there is one
``flux``                        ``opr_modes``, ``opr_weights`` of a probe that varies, and
                                ``point_spread`` of the detector
``sigma_amplitude``,            ``(M, M)``, if there is an error map
``sigma_phase``
``numbers``                     ``(J,)``, which patterns of the measured file they are, if it is known
``assessment/…``                arrays of ``assessment.npz`` of a run: ring correlation, misfit
``scores``, ``about``           JSON
=============================== ==================================================================

An HDF5 file has them in the group ``result``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.exports import product
from ptycho.exports.exported_scan import ExportedScan
from ptycho.files.atomic import write_atomically
from ptycho.files.npz import write_npz
from ptycho.files.reading import parse_json
from ptycho.readers.archive import Archive
from ptycho.readers.places import open_archive
from ptycho.readers.raw_scan import ReadOptions
from ptycho.scan.beam import Beam
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import ErrorMap

if TYPE_CHECKING:
    from ptycho.api.result import Result

SIGMAS = ("sigma_amplitude", "sigma_phase")
NEEDED = {"object": "c", "mask": "b", "illuminated": "b", "probe": "c", "positions": "f", "flux": "f"}
KINDS = NEEDED | {"background": "f", "opr_modes": "c", "opr_weights": "c", "slices": "c", "numbers": "iu"}
KINDS |= dict.fromkeys((*SIGMAS, "point_spread"), "f")
LENGTHS = ("energy_eV", "distance_m", "detector_side", "domain", "comments", "name")
PAIRS = ("pixel_m", "detector_pixel_m")
OTHER_FILE = (
    "was not written by Result.save of this version; ptycho.open_scan reads scans and products, np.load "
    "and h5py read arrays"
)


def save(path: Path, result: Result) -> None:
    """Write a result; what is there is replaced, whole or not at all.

    Raises:
        ConfigError: a name with another ending. OSError: the file cannot be written.
    """
    if path.suffix == ".npz":
        write_atomically(path, lambda file: write_npz(file, _to_arrays(result)))
    elif path.suffix == ".h5":
        product.write(path, result.product, _to_arrays(result))
    else:
        raise ConfigError(f"path={path}: must end in .h5 or .npz")


def load(path: Path) -> dict[str, Any]:
    """Return the arguments of the :class:`ptycho.Result` that a file holds.

    Raises:
        ConfigError: it is missing, damaged, or another file.
    """
    with open_archive(path, ReadOptions()) as file:
        folder = "" if file.kind == "NPZ" else f"{product.RESULT}/"
        scores, about = (_read_json(file, f"{folder}{key}") for key in ("scores", "about"))
        arrays = {key: file.read(f"{folder}{key}", kinds) for key, kinds in KINDS.items()}
        assessment = {key: file.read(f"{folder}assessment/{key}", "fiu") for key in about["assessment"]}
        needed = {key: arrays[key] for key in NEEDED} | assessment
        if lacking := [key for key, array in needed.items() if array is None]:
            raise ValueError(f"lacks {', '.join(lacking)}")
        return {"scores": scores, "assessment": assessment, **_arguments(arrays, about)}


def _read_json(file: Archive, key: str) -> dict[str, Any]:
    """A section of JSON; an NPZ holds texts as arrays, HDF5 as texts."""
    if not file.holds(key):
        raise ConfigError(f"{file.path}: {OTHER_FILE}")
    text = str(file.read(key, "U")) if file.kind == "NPZ" else file.text(key)
    values = parse_json(text or "null")
    if not isinstance(values, dict):
        raise ValueError(f"{key} is no section of JSON")
    return values


def _arguments(arrays: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    image, mask, illuminated = (arrays[key] for key in ("object", "mask", "illuminated"))
    if image.ndim != 2 or not image.shape == mask.shape == illuminated.shape:
        raise ValueError("object, mask and illuminated must have one shape (M, M)")
    beam = Beam(**{key: arrays[key] for key in Beam.__dataclass_fields__})
    if beam.probe.ndim != 3 or beam.positions.shape != (len(beam.flux), 2):
        raise ValueError("probe must have the shape (K, N, N), and positions (J, 2), as many as flux")
    if beam.point_spread is not None and beam.point_spread.shape != (2,):
        raise ValueError("point_spread must have the shape (2,)")
    amplitude, phase = (arrays[key] for key in SIGMAS)
    facts: dict[str, Any] = {key: about[key] for key in LENGTHS}
    facts |= {key: None if about[key] is None else tuple(about[key]) for key in PAIRS}
    exported = ExportedScan(
        beam.positions.astype(np.float64),
        beam.probe,
        object=image,
        errors=None if amplitude is None or phase is None else ErrorMap(amplitude[None], phase[None]),
        slices=arrays["slices"],
        numbers=arrays["numbers"],
        opr_modes=beam.opr_modes,
        opr_weights=beam.opr_weights,
        slice_thickness_m=about.get("slice_thickness_m"),
        **facts,
    )
    return {
        "method": str(about["method"]),
        "product": exported,
        "beam": beam,
        "mask": mask,
        "illuminated": illuminated,
        "warnings": tuple(map(str, about["warnings"])),
        **{key: tuple(Finding(*row) for row in about[key]) for key in ("decisions", "findings")},
    }


def _to_arrays(result: Result) -> dict[str, np.ndarray]:
    exported, errors = result.product, result.errors
    about = {key: getattr(exported, key) for key in (*LENGTHS, *PAIRS, "slice_thickness_m")} | {
        "comments": exported.blanked + exported.comments,
        "method": result.method,
        "warnings": list(result.warnings),
        "assessment": list(result.assessment),
    }
    for key in ("decisions", "findings"):
        about[key] = [[finding.what, finding.value, finding.why] for finding in getattr(result, key)]
    arrays = {"object": result.object, "mask": result.mask, "illuminated": result.illuminated}
    arrays |= result.beam.arrays()
    if errors is not None:
        arrays |= {key: sigma[0] for key, sigma in errors.arrays().items()}
    if exported.slices is not None:
        arrays["slices"] = exported.slices
    if exported.numbers is not None:
        arrays["numbers"] = exported.numbers
    arrays |= {f"assessment/{key}": array for key, array in result.assessment.items()}
    texts = {"scores": dict(result.scores), "about": about}
    return arrays | {key: np.array(json.dumps(values)) for key, values in texts.items()}
