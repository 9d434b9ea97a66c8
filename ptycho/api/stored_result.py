"""A result in a file: NPZ, or HDF5 that is also a product of ptychodus; read back without unpickling.

=============================== ==================================================================
``object``, ``mask``            ``(M, M)`` complex64, bool
``illuminated``                 ``(M, M)`` bool
``slices``                      ``(L, M, M)`` complex64, of a thick object
``probe``, ``positions``,       the beam; ``background`` if there is one
``flux``                        ``opr_modes``, ``opr_weights`` of a probe that varies
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
from ptycho.files.text import parse_json
from ptycho.readers.archive import Archive
from ptycho.readers.places import open_archive
from ptycho.readers.raw_scan import ReadOptions
from ptycho.scan.beam import Beam
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import ErrorMap

if TYPE_CHECKING:
    from ptycho.api.result import Result

SIGMAS = ("sigma_amplitude", "sigma_phase")
LENGTHS = ("energy_eV", "distance_m", "slice_thickness_m", "detector_side", "domain", "comments", "name")
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
        arrays = _Arrays(file)
        scores, about = arrays.json("scores"), {"slice_thickness_m": None} | arrays.json("about")
        values = _values(arrays, about)
    findings = {key: tuple(Finding(*row) for row in about[key]) for key in ("decisions", "findings")}
    texts = {"method": str(about["method"]), "warnings": tuple(map(str, about["warnings"]))}
    return {"scores": scores, **findings, **texts, **values}


def _values(arrays: _Arrays, about: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a result, and what they are of."""
    image, mask, illuminated = (
        arrays.need("object", "c"),
        arrays.need("mask", "b"),
        arrays.need("illuminated", "b"),
    )
    if image.ndim != 2 or not image.shape == mask.shape == illuminated.shape:
        raise ValueError("object, mask and illuminated must have one shape (M, M)")
    beam = Beam(
        arrays.need("probe", "c"),
        arrays.need("positions", "f"),
        arrays.need("flux", "f"),
        arrays.get("background", "f"),
        arrays.get("opr_modes", "c"),
        arrays.get("opr_weights", "c"),
    )
    if beam.probe.ndim != 3 or beam.positions.shape != (len(beam.flux), 2):
        raise ValueError("probe must have the shape (K, N, N), and positions (J, 2), as many as flux")
    amplitude, phase = (arrays.get(key, "f") for key in SIGMAS)
    facts = {key: about[key] for key in LENGTHS}
    facts |= {key: None if about[key] is None else tuple(about[key]) for key in PAIRS}
    exported = ExportedScan(
        beam.positions.astype(np.float64),
        beam.probe,
        object=image,
        errors=None if amplitude is None or phase is None else ErrorMap(amplitude[None], phase[None]),
        slices=arrays.get("slices", "c"),
        numbers=arrays.get("numbers", "iu"),
        opr_modes=beam.opr_modes,
        opr_weights=beam.opr_weights,
        **facts,
    )
    assessment = {key: arrays.need(f"assessment/{key}", "fiu") for key in about["assessment"]}
    return {
        "product": exported,
        "beam": beam,
        "mask": mask,
        "illuminated": illuminated,
        "assessment": assessment,
    }


class _Arrays:
    """The arrays of a result in an open file.

    Raises:
        ConfigError: another file.
    """

    def __init__(self, file: Archive) -> None:
        self._file, self._folder = file, "" if file.kind == "NPZ" else f"{product.RESULT}/"
        if not (self._file.holds(f"{self._folder}about") and self._file.holds(f"{self._folder}scores")):
            raise ConfigError(f"{file.path}: {OTHER_FILE}")

    def get(self, key: str, kinds: str) -> np.ndarray | None:
        return self._file.load(f"{self._folder}{key}", kinds)

    def need(self, key: str, kinds: str) -> np.ndarray:
        array = self.get(key, kinds)
        if array is None:
            raise ValueError(f"lacks {key}")
        return array

    def json(self, key: str) -> dict[str, Any]:
        """An NPZ holds texts as arrays, HDF5 as texts."""
        in_npz = self._file.kind == "NPZ"
        text = str(self.need(key, "U")) if in_npz else self._file.text(f"{self._folder}{key}")
        values = parse_json(text or "null")
        if not isinstance(values, dict):
            raise ValueError(f"{key} is no section of JSON")
        return values


def _to_arrays(result: Result) -> dict[str, np.ndarray]:
    exported, errors = result.product, result.errors
    about = {key: getattr(exported, key) for key in (*LENGTHS, *PAIRS)} | {
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
    return arrays | {
        "scores": np.array(json.dumps(dict(result.scores))),
        "about": np.array(json.dumps(about)),
    }
