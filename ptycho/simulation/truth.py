"""What is true of a simulated scan that is not as its file says, kept in the file where readers do not look.

HDF5 files have a group ``truth``, NPZ files keys ``truth_…``:

================ =================== ================================================================
``probe``        (K, N, N) complex64 the incoherent modes, √photons
``positions``    (J, 2) float64      (row, col) of the first sample of each patch, in pixels from the
                                     object's corner; its middle is N/2 further
``flux``         (J,) float64        flux of each pattern, one on average
``background``   number              counts per pixel and pattern that are not the sample's
``hot``          (N, N) bool         pixels that shine, which the file's mask does not know
``opr_modes``    (1, N, N) complex64 of a probe that drifts: what its first mode changes by over the scan,
``opr_weights``  (J, 1) float64      and when; the first mode in pattern j is ``P_0 + Σ_k w_jk V_k``
``object``       (M, M) complex64    in HDF5 a link to the file's object; in NPZ it is ``objectGuess``
================ =================== ================================================================

Patterns have the mean ``flux_j · Σ_k |F(P_k·O)|² + background``, as far as the object's pixels can show the
sample; a point spread and a saturation are in the file's comment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import NpzFile, read_all
from ptycho.files.reading import FileError
from ptycho.simulation.measured_like import MeasuredLike

GROUP, PREFIX = "truth", "truth_"
KINDS = {"probe": "c", "positions": "f", "flux": "f", "background": "f", "hot": "b"}
DRIFT = {"opr_modes": "c", "opr_weights": "f"}  # only where the probe drifts
OBJECT = "objectGuess"  # of an NPZ file


@dataclass(frozen=True, eq=False)
class Truth:
    """Truth of a simulated scan; see the module's text. ``object`` may be None where the file keeps it."""

    probe: np.ndarray
    positions: np.ndarray
    flux: np.ndarray
    background: float
    hot: np.ndarray
    object: np.ndarray | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is written, by name, from ``probe (K, N, N)`` to ``hot (N, N)``: all but the object."""
        named = {key: getattr(self, key) for key in (*KINDS, *DRIFT)}
        return {key: np.asarray(value) for key, value in named.items() if value is not None}

    def keyed(self) -> dict[str, np.ndarray]:
        """Return the NPZ form, with the object ``(M, M)``."""
        named = {PREFIX + key: value for key, value in self.arrays().items()}
        return named | {OBJECT: np.asarray(self.object)}


def truth_of(scan: MeasuredLike) -> Truth:
    """Return the truth of a scan that was simulated."""
    drift = None if scan.drift is None else (np.sqrt(scan.scale) * scan.drift[None]).astype(np.complex64)
    return Truth(
        probe=scan.photon_probe.reshape(-1, scan.N, scan.N).astype(np.complex64),
        positions=scan.positions,
        flux=np.ones(len(scan.positions)) if scan.flux is None else scan.flux,
        background=float(scan.background),
        hot=scan.hot,
        opr_modes=drift,
        opr_weights=None if drift is None else scan.times[:, None],
    )


def read_truth(path: str | Path) -> Truth:
    """Read the truth in a file that ``scripts/simulate_scan.py`` has written with imperfections.

    Raises:
        ConfigError: the file cannot be read, or holds no truth: it was measured, or simulated without
            imperfections, and then its own probe and positions are true.
    """
    try:
        values = _from_hdf5(path) if h5py.is_hdf5(path) else _from_npz(path)
    except (FileError, OSError, KeyError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(
            f"{path}: holds no truth of a scan simulated with imperfections ({why}); without them the file's "
            "own probe and positions are true"
        ) from error
    background = float(values.pop("background"))
    return Truth(background=background, **values)


def _from_hdf5(path: str | Path) -> dict[str, np.ndarray]:
    with h5py.File(path, "r") as file:
        drift = [key for key in DRIFT if f"{GROUP}/{key}" in file]
        return {key: file[f"{GROUP}/{key}"][()] for key in (*KINDS, *drift, "object")}


def _from_npz(path: str | Path) -> dict[str, np.ndarray]:
    with NpzFile(path) as file:
        kinds = KINDS | {key: kind for key, kind in DRIFT.items() if PREFIX + key in file.keys}
    read = read_all(path, {PREFIX + key: kind for key, kind in kinds.items()} | {OBJECT: "c"})
    return {key: read[PREFIX + key] for key in kinds} | {"object": read[OBJECT]}
