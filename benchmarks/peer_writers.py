"""Are files interpreted that other programs wrote with their own writers?

    python -m venv PEERS && PEERS/bin/pip install torch==2.13.0
    PEERS/bin/pip install -r benchmarks/peer_requirements.txt
    PEERS/bin/python benchmarks/peer_writers.py --write FOLDER      every installed program writes
    python benchmarks/peer_writers.py --read FOLDER                 in our environment: the table

One scan is simulated (60 patterns of 32 × 32, two probe modes, some dead pixels). Every program writes it in
its own signs and units. PtyLab only writes its own example, whose content is what its own reader returns.
Columns: the largest difference of the positions in object pixels, apart from a common shift, from the
simulation or from the positions that cdtools and PtyLab read themselves; whether patterns (at good pixels),
probe and good pixels are equal; energy, distance and pixel size of the detector as read; and the keys of
``data`` that had to be specified. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

ENERGY, DISTANCE, PITCH = 8800.0, 2.0, 75e-6  # eV, m, m
GEOMETRY = {"energy_eV": ENERGY, "distance_m": DISTANCE, "detector_pixel_m": PITCH}
N, POSITIONS = 32, 60
WAVELENGTH = 1.239841984e-6 / ENERGY
PIXEL = WAVELENGTH * DISTANCE / (N * PITCH)
CLOSE = 2e-3  # pixels; cdtools stores energy and distance in float32, PtyLab its positions


@dataclass(frozen=True, eq=False)
class Scan:
    """The scan: counts ``(J, N, N)``, positions (row, col) in pixels, probe modes, object, good pixels."""

    counts: np.ndarray
    positions: np.ndarray
    probe: np.ndarray
    object: np.ndarray
    good: np.ndarray

    @property
    def metres(self) -> np.ndarray:
        """Positions of the probe's centre relative to the object's, metres, (row, col), ``(J, 2)``."""
        return (self.positions + N / 2 - len(self.object) / 2) * PIXEL


@dataclass(frozen=True)
class Written:
    """A file, the reading options and keys it needs, and the values that its format cannot hold."""

    file: str
    read: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    truth: str = "truth.npz"


def simulated() -> Scan:
    """Return the simulated scan; this needs only NumPy and SciPy."""
    from ptycho.simulation.measured_like import ScanSettings, simulate_measured_like

    row, col = np.indices((N, N)) - N / 2
    spot = np.exp(-((row + 1) ** 2 + 1.5 * col**2) / 60 + 0.02j * (row**2 - 2 * row * col))
    settings = ScanSettings(N=N, n_positions=POSITIONS, nphotons=1e5, bad_pixels=9, oversampling=1)
    made = simulate_measured_like(settings, spot)
    counts = np.concatenate(list(made.counts(settings.rng("photons"))))
    modes = np.stack([made.photon_probe, 0.2 * made.photon_probe * col / N]).astype(np.complex64)
    return Scan(counts, made.positions, modes, made.object.astype(np.complex64), made.good)


def with_cdtools(folder: Path, scan: Scan) -> dict[str, Written]:
    """Write CXI; the detector of the second file is rotated by 90°."""
    from cdtools.datasets import Ptycho2DDataset
    from cdtools.tools.initializers import exit_wave_geometry
    from cdtools.tools.interactions import translations_to_pixel

    bases = {
        "upright": np.array([[0, -PITCH, 0], [-PITCH, 0, 0]]),
        "sideways": np.array([[PITCH, 0, 0], [0, -PITCH, 0]]),
    }
    found = {}
    for name, basis in bases.items():
        file = f"cdtools_{name}.cxi"
        moved = scan.metres @ (basis / PITCH)
        pixel = exit_wave_geometry(_tensor(basis.T), (N, N), WAVELENGTH, DISTANCE)
        truth = vars(scan) | {"positions": translations_to_pixel(pixel, _tensor(moved)).numpy()}
        np.savez(folder / f"cdtools_{name}.npz", **truth, **GEOMETRY)
        Ptycho2DDataset(
            moved,
            scan.counts.astype(np.float32),
            mask=_tensor(scan.good),
            wavelength=WAVELENGTH,
            detector_geometry={"distance": DISTANCE, "basis": basis.T},
        ).to_cxi(folder / file)
        found[f"cdtools CXI, detector {name}"] = Written(file, lacks=("probe",), truth=f"cdtools_{name}.npz")
    return found


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.as_tensor(array)


def with_ptylab(folder: Path, scan: Scan) -> dict[str, Written]:
    """Write the example of the package, the only measurement that it writes."""
    from PtyLab.ExperimentalData.ExperimentalData import ExperimentalData
    from PtyLab.io.generateSimulationData import generate_simu_hdf5

    np.random.seed(0)  # noqa: NPY002 - it draws from the global generator
    generate_simu_hdf5(folder / "ptylab.hdf5")
    stored = ExperimentalData(str(folder / "ptylab.hdf5"))
    pixel = stored.wavelength * stored.zo / (stored.ptychogram.shape[-1] * stored.dxd)
    np.savez(
        folder / "ptylab_truth.npz",
        counts=stored.ptychogram,
        positions=stored.encoder / pixel,
        energy_eV=1.239841984e-6 / stored.wavelength,
        distance_m=stored.zo,
        detector_pixel_m=stored.dxd,
    )
    written = Written("ptylab.hdf5", lacks=("probe", "good"), truth="ptylab_truth.npz")
    return {"PtyLab HDF5 (its example)": written}


def with_ptychodus(folder: Path, scan: Scan) -> dict[str, Written]:
    """Write products, files of patterns, and both exports of training data."""
    from ptychodus.api import io
    from ptychodus.api.assemble import AssembledDiffractionData
    from ptychodus.api.reconstruct import ReconstructInput
    from ptychodus.plugins.cxi_file import CXIDiffractionFileWriter, CXIProductFileIO
    from ptychodus.plugins.npz_diffraction_file import NPZDiffractionFileIO
    from ptychodus.plugins.npz_product_file import NPZProductFileIO

    geometry, product, dataset = _ptychodus(scan)
    indexes, bad = np.arange(len(scan.counts)), ~scan.good
    io.save_product(folder / "product.h5", product)
    io.save_diffraction_data(
        folder / "diffraction.h5", AssembledDiffractionData(indexes, scan.counts, geometry, bad)
    )
    NPZProductFileIO().write(folder / "product.npz", product)
    NPZDiffractionFileIO().write(folder / "diffraction.npz", dataset)
    CXIProductFileIO().write(folder / "product.cxi", product)
    CXIDiffractionFileWriter().write(folder / "diffraction.cxi", dataset)
    both = ReconstructInput(scan.counts, bad, product)
    io.save_ptychopinn_training_data(folder / "ptychopinn.npz", both)
    io.save_training_data(folder / "training.h5", both)
    lengths = ("energy_eV", "distance_m", "detector_pixel_m")
    return {
        "ptychodus HDF5 product + patterns": Written("product.h5", {"patterns_file": "diffraction.h5"}),
        "ptychodus HDF5 patterns + product": Written("diffraction.h5", {"positions_file": "product.h5"}),
        "ptychodus NPZ product + patterns": Written("product.npz", {"patterns_file": "diffraction.npz"}),
        "ptychodus NPZ patterns + HDF5 product": Written("diffraction.npz", {"positions_file": "product.h5"}),
        "ptychodus CXI patterns + product": Written("diffraction.cxi", {"positions_file": "product.cxi"}),
        "ptychodus CXI patterns + HDF5 product": Written("diffraction.cxi", {"positions_file": "product.h5"}),
        "ptychodus for PtychoPINN, NPZ": Written("ptychopinn.npz", lacks=lengths),
        "ptychodus training data, HDF5": Written("training.h5"),
    }


def _ptychodus(scan: Scan) -> tuple[Any, Any, Any]:
    """Return detector pixel size, product, and data set of patterns as values of ptychodus."""
    from ptychodus.api.diffraction import (
        DiffractionDatasetLayoutNode,
        DiffractionMetadata,
        SimpleDiffractionArray,
        SimpleDiffractionDataset,
    )
    from ptychodus.api.geometry import ImageExtent, PixelGeometry
    from ptychodus.api.object import Object, ObjectCenter
    from ptychodus.api.probe import ProbeSequence
    from ptychodus.api.probe_positions import ProbePosition, ProbePositionSequence
    from ptychodus.api.product import Product, ProductMetadata

    pixel, pitch = PixelGeometry(PIXEL, PIXEL), PixelGeometry(PITCH, PITCH)
    brightest = float(scan.counts.sum(axis=(1, 2)).max())
    points = [ProbePosition(i, col, row) for i, (row, col) in enumerate(scan.metres)]
    product = Product(
        ProductMetadata("a scan", "", DISTANCE, ENERGY, brightest, 1.0, 0.0, 0.0),
        ProbePositionSequence(points),
        ProbeSequence(scan.probe, None, pixel),
        Object(scan.object, pixel, ObjectCenter(0.0, 0.0)),
        [],
    )
    metadata = DiffractionMetadata(
        [len(scan.counts)],
        scan.counts.dtype,
        ImageExtent(N, N),
        detector_distance_m=DISTANCE,
        detector_pixel_geometry=pitch,
        photon_energy_eV=ENERGY,
    )
    array = SimpleDiffractionArray("a scan", np.arange(len(scan.counts)), scan.counts)
    layout = DiffractionDatasetLayoutNode.create_root()
    return pitch, product, SimpleDiffractionDataset(metadata, layout, [array], ~scan.good)


PEERS: dict[str, Callable[[Path, Scan], dict[str, Written]]] = {
    "cdtools-py": with_cdtools,
    "ptylab": with_ptylab,
    "ptychodus": with_ptychodus,
}


def write(folder: Path) -> None:
    """Write the files of all installed packages, and ``written.json``, which lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    scan = simulated()
    np.savez(folder / "truth.npz", **vars(scan), **GEOMETRY)
    listed: dict[str, Any] = {}
    for package, writer in PEERS.items():
        try:
            number = version(package)
        except PackageNotFoundError:
            listed[package] = None
            continue
        listed[f"{package} {number}"] = {name: vars(file) for name, file in writer(folder, scan).items()}
    (folder / "written.json").write_text(json.dumps(listed, indent=1))


def compared(folder: Path, file: Written) -> tuple[dict[str, str], bool]:
    """Return the cells of a row, and whether every value is equal to the one written."""
    from ptycho.config.data import DataConfig
    from ptycho.preparation.prepare import interpret
    from ptycho.readers.raw_scan import ReadOptions
    from ptycho.readers.table import open_scan

    beside = {key: str(folder / name) if key.endswith("_file") else name for key, name in file.read.items()}
    raw = open_scan(folder / file.file, ReadOptions(**beside))
    truth = np.load(folder / file.truth)
    config = DataConfig(file=str(folder / file.file), hot_pixels=False, **file.data)
    scan = interpret(raw, config)
    wanted = truth["positions"] - truth["positions"].min(axis=0) + 1
    off = float(np.abs(scan.positions - wanted).max()) if scan.positions.shape == wanted.shape else np.inf
    good = truth["good"] if "good" in truth else np.ones(truth["counts"].shape[1:], bool)
    read = raw.patterns.read(slice(0, len(truth["counts"])))
    checks = {"patterns": np.array_equal(read[:, good], truth["counts"][:, good])}
    if "probe" not in file.lacks:
        modes = scan.probe
        same = modes is not None and modes.shape == truth["probe"].shape
        checks["probe"] = bool(same and np.allclose(modes, truth["probe"], rtol=1e-5, atol=1e-5))
    if "good" not in file.lacks:
        checks["good"] = raw.good is not None and np.array_equal(raw.good, good)
    cells = {"read as": raw.format, "position error, px": f"{off:.1e}"}
    words = {True: "equal", False: "DIFFER", None: "–"}
    cells |= {key: words[checks.get(key)] for key in INSPECTED}
    for key, unit in LENGTHS.items():
        value = np.max(getattr(raw, key)) if getattr(raw, key) is not None else None
        cells[key] = "–" if value is None else f"{value:.6g} {unit}"
        expected = float(truth[key])
        if key not in file.lacks and key not in file.data:
            checks[key] = value is not None and bool(np.isclose(value, expected, rtol=1e-5))
            cells[key] += "" if checks[key] else " (DIFFERS)"
    cells["specified"] = ", ".join([*file.read, *file.data])
    return cells, off <= CLOSE and all(checks.values())


INSPECTED = ("patterns", "probe", "good")
LENGTHS = {"energy_eV": "eV", "distance_m": "m", "detector_pixel_m": "m"}
COLUMNS = ("read as", "position error, px", *INSPECTED, *LENGTHS, "specified")


def read(folder: Path) -> int:
    """Read the files of a folder, print the table, and return the exit code."""
    from benchmarks.tables import markdown
    from ptycho.config import ConfigError

    rows, wrong = [], 0
    for package, files in json.loads((folder / "written.json").read_text()).items():
        if files is None:
            rows.append({"file": package, **dict.fromkeys(COLUMNS, ""), "read as": "not installed"})
        for name, described in (files or {}).items():
            try:
                cells, fine = compared(folder, Written(**described))
            except ConfigError as error:
                cells, fine = dict.fromkeys(COLUMNS, "") | {"read as": f"REFUSED: {error}"}, False
            rows.append({"file": f"{name} ({package})", **cells})
            wrong += not fine
    print(markdown(rows))
    print(f"\n{wrong} of {len(rows)} are not interpreted" if wrong else f"\nall {len(rows)} are interpreted")
    return 1 if wrong else 0


def main() -> int:
    from benchmarks import parser

    options_of = parser(__doc__)
    step = options_of.add_mutually_exclusive_group(required=True)
    step.add_argument("--write", type=Path, metavar="FOLDER", help="write (in the environment PEERS)")
    step.add_argument("--read", type=Path, metavar="FOLDER", help="read (in our environment)")
    args = options_of.parse_args()
    if args.write is not None:
        write(args.write)
        return 0
    return read(args.read)


if __name__ == "__main__":
    raise SystemExit(main())
