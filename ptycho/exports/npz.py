"""The NPZ of the published PtychoPINN program (hoidn/PtychoPINN, its data contract).

``diff3d`` (J, N, N) are **amplitudes** √n, float32, zero frequency at N//2; ``xcoords``, ``ycoords`` column
and row of the patch's middle, in pixels from the object's corner; ``truth_…`` that of a simulated scan. There
is no place for a mask: pixels that were not measured hold zero, and ``_metadata`` says how many.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from ptycho.exports.exported_scan import ExportedScan
from ptycho.files.atomic import write_atomically
from ptycho.files.npz import write_npz
from ptycho.simulation.truth import PREFIX

CONTRACT = {"scale_contract_version": "legacy_v1", "measurement_domain": "normalized_amplitude"}


def write(path: Path, scan: ExportedScan) -> None:
    """Write an NPZ file; memory holds one block of patterns. ConfigError: the scan has none."""
    write_atomically(path, lambda file: _fill(file, scan))


def _fill(file: IO[bytes], scan: ExportedScan) -> None:
    rows, cols = scan.from_corner.T
    strongest = int(np.argmax(np.sum(np.abs(scan.probe) ** 2, axis=(1, 2))))
    arrays = {
        "xcoords": cols,
        "ycoords": rows,
        "probeGuess": scan.probe[strongest].astype(np.complex64),
        "scan_index": np.zeros(len(scan.positions), np.int64),
        "_metadata": np.array(json.dumps(_metadata(scan), ensure_ascii=False)),
    }
    arrays |= {key: np.array(text) for key, text in CONTRACT.items()}
    if scan.object is not None:
        arrays["objectGuess"] = scan.object.astype(np.complex64)
    if scan.truth is not None:
        arrays |= {PREFIX + key: array for key, array in scan.truth.arrays().items()}
    write_npz(file, {"diff3d": scan.stored_amplitudes} | arrays)


def _metadata(scan: ExportedScan) -> dict[str, Any]:
    return {
        "name": scan.name,
        "comments": (scan.blanked + scan.comments).strip(),
        "diff3d": f"square roots of {scan.domain}; zero frequency at sample (N//2, N//2)",
        "coords": "of the patch's middle in pixels from the corner of objectGuess: x is the column, y the "
        "row; of the probe, increasing with the object's index",
        "probeGuess": f"√photons; the strongest of {len(scan.probe)} incoherent modes",
        "pixel_m": scan.pixel_m,
        "energy_eV": scan.energy_eV,
        "distance_m": scan.distance_m,
        "detector_pixel_m": scan.detector_pixel_m,
    }
