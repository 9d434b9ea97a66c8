"""A run's scan, with what was reconstructed from it, in the formats of other programs; without TensorFlow."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError, PretrainConfig, RunConfig, ScanRunConfig, check
from ptycho.config.own_code import allow
from ptycho.config.schema import Flag, Integer, Number, Text, Texts, key, settings
from ptycho.config.sections import ProbeConfig, ZonePlateProbe
from ptycho.config.waves import conjugate_pitch_m, wavelength_m
from ptycho.exports import FORMATS, SUFFIXES, format_of
from ptycho.exports.exported_scan import ExportedScan, from_dataset, from_measured
from ptycho.files.npz import read_all
from ptycho.files.reading import FileError, faults_of
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import interpret
from ptycho.preparation.start import decided_reading, find_product
from ptycho.progress import Progress
from ptycho.readers.table import open_raw
from ptycho.run import names
from ptycho.run.record import check_output, problem, read_record
from ptycho.run.stored_run import read_config
from ptycho.scan.beam import Beam
from ptycho.scan.dataset_file import load_dataset
from ptycho.scan.probe import ZONE_PLATE_WINDOW_NM

ROLES = ("test", "train", "val")
TRUTH = "gt"
DETECTOR_PIXEL_M = 75e-6


@settings()
class ExportConfig:
    """The keys of ``conf/export.yaml``."""

    run: Text | None = key(None, "folder of the run")
    output: Text | None = key(
        None,
        "file to write; null: outputs/export/<run>.<format>",
        min_length=1,
        allowed="the path of the file to write",
    )
    format: Text | None = key(
        None, "format: ptychodus | cxi | npz; null: by the ending of output (.h5, .cxi, .npz)"
    )
    source: Text | None = key(
        None, "dataset to export: test | train | val of a simulated run, null: test; scan of a measured one"
    )
    recon: Text | None = key(
        None, "object to export: solver | pinn | lsqml | gt; null: a measured run's product, else the truth"
    )
    image: Integer = key(0, "index of the image, of a simulated run")
    pixel_m: Number | None = key(None, "pixel size of the object, if the run has none", gt=0, unit="m")
    energy_eV: Number | None = key(None, "photon energy, if the run has none", gt=0, unit="eV")
    detector_pixel_m: Number | None = key(
        None, "detector pixel, if the run has none; null: 75 µm, with the distance that fits", gt=0, unit="m"
    )
    overwrite: Flag = key(False, "replace an existing file")
    trust: Texts = key((), "your own code that the run names, as my_module:name; nothing else is imported")

    def __post_init__(self) -> None:
        check(bool(self.run), "run", self.run, "the folder of a run")


def export(config: ExportConfig) -> list[str]:
    """Write the scan; what was written, a line each."""
    run, kind = Path(str(config.run)), format_of(config.format, config.output)
    suffix = next(end for end, name in SUFFIXES.items() if name == kind)
    output = Path(config.output or f"outputs/export/{run.resolve().name}{suffix}")
    config = replace(config, output=str(output))
    allow(config.trust)
    stored = read_config(run)
    if isinstance(stored, PretrainConfig):
        raise ConfigError(f"run={run}: was trained on simulated scans that are not kept; it holds no scan")
    check_output(output, config.overwrite, sources(run, stored))
    if isinstance(stored, ScanRunConfig):
        scan = export_measured(run, stored, config)
    else:
        scan = export_simulated(run, stored, config)
    scan = with_units(replace(scan, name=run.resolve().name), config)
    FORMATS[kind](output, scan)
    return describe_file(output, scan)


def sources(run: Path, stored: RunConfig | ScanRunConfig) -> list[Path]:
    """The files that an export may read."""
    files = [run / names.CONFIG, *run.rglob("recon.npz")]
    if isinstance(stored, RunConfig):
        return files + [run / names.dataset(stored.N, stored.gridsize, role) for role in ROLES]
    data = stored.data
    measured_files = (*data.file, data.patterns_file, data.positions_file, data.mask_file)
    return files + [Path(name) for name in measured_files if name]


def describe_file(output: Path, scan: ExportedScan) -> list[str]:
    """What a file holds, in two lines."""
    count, N, _ = scan.shape
    pixel = "of unknown size" if scan.pixel_m is None else f"of {1e9 * scan.pixel_m[0]:.4g} nm"
    shape = "none" if scan.object is None else "{} × {} pixels".format(*scan.object.shape)
    return [
        f"{output}: {count} patterns of {N} × {N}, {scan.domain} ({scan.dtype})",
        f"  object: {shape}, {pixel}",
    ]


def export_measured(run: Path, stored: ScanRunConfig, config: ExportConfig) -> ExportedScan:
    """A scan of a measured run, its patterns read again from the measured file."""
    source = config.source
    check(source in (None, "scan"), "source", source, "null or scan: the run is of a measured scan")
    file, product = stored.data.path, find_product(run)
    name = config.recon or ("" if product is None else product[0])
    if not name:
        raise ConfigError(f"run={run}: holds no reconstruction of {file}; resume it: resume={run}")
    object_ = read_object(run, name, 0)
    reading = decided_reading(run, stored.data)
    scan = interpret(open_raw(reading), reading)
    scratch = Path(str(config.output)).parent
    scratch.mkdir(parents=True, exist_ok=True)
    with closing(Progress("reading", len(scan.frames))) as progress:
        scan, data, _ = make_dataset(scan, stored, scratch, progress.advance)
    if object_.shape != (data.object_size, data.object_size):
        raise ConfigError(
            f"{file}: is another file than the run had: the object of {name} is {object_.shape}, "
            f"and the scan now needs {data.object_size} × {data.object_size}"
        )
    beam = None  # of a run that kept none
    with suppress(FileError):
        beam = Beam(**read_all(run / names.recon(name), {"probe": "c", "positions": "f"}))
    exported = from_measured(scan, data, object_, beam)
    return replace(exported, comments=f"Object: {name} of the run {run.resolve().name}. {exported.comments}")


def export_simulated(run: Path, stored: RunConfig, config: ExportConfig) -> ExportedScan:
    """A dataset of a grid-lines run, with the truth or what was reconstructed from it."""
    role, name = config.source or ROLES[0], config.recon or TRUTH
    check(role in ROLES, "source", role, f"one of {', '.join(ROLES)}: the run is simulated")
    check(name == TRUTH or role == "test", "recon", name, f"{TRUTH}: nothing was reconstructed from {role}")
    path = _verify(run, names.dataset(stored.N, stored.gridsize, role))
    data = load_dataset(path)
    check(0 <= config.image < data.n_images, "image", config.image, f"from 0 to {data.n_images - 1}")
    if name != TRUTH:
        object_ = read_object(run, name, config.image)
    elif data.objects is None:
        raise ConfigError(f"{path}: has no true object; choose recon=pinn")
    else:
        object_ = data.objects[config.image]
    exported = from_dataset(data, config.image, object_)
    comments = f"Simulated ({role}, image {config.image}). Object: {name}."
    return replace(exported, comments=comments, **plate_units(stored.probe_of(role), stored.N))


def plate_units(probe: ProbeConfig, N: int) -> dict[str, Any]:
    """Pixel and energy of a simulated scan, if its probe is that of a zone plate."""
    if not isinstance(probe, ZonePlateProbe):
        return {}
    pixel = 1e-9 * (probe.pixel_size_nm or ZONE_PLATE_WINDOW_NM / N)
    return {"pixel_m": (pixel, pixel), "energy_eV": 1e3 * probe.energy_keV}


def with_units(scan: ExportedScan, config: ExportConfig) -> ExportedScan:
    """Return the scan with the missing units that the user specifies: ``dx = λ z/(N p)``.

    Where only the distance and the detector's pitch are unknown, the latter is ``DETECTOR_PIXEL_M``.
    """
    for name in ("pixel_m", "energy_eV", "detector_pixel_m"):
        given, known = getattr(config, name), getattr(scan, name)
        check(given is None or known is None, name, given, f"null: the run knows it, {known}")
    energy, distance = scan.energy_eV or config.energy_eV, scan.distance_m
    pitch = scan.detector_pixel_m or _square(config.detector_pixel_m)
    derived = conjugate_pitch_m(energy, distance, pitch, scan.shape[1:])
    pixel = scan.pixel_m or _square(config.pixel_m) or derived
    if energy and pixel and not distance:
        pitch = pitch or (DETECTOR_PIXEL_M, DETECTOR_PIXEL_M)
        distance = distance_m(pixel[0], energy, pitch[0], scan.N)
    return replace(scan, pixel_m=pixel, energy_eV=energy, distance_m=distance, detector_pixel_m=pitch)


def _square(pitch: float | None) -> tuple[float, float] | None:
    return None if pitch is None else (pitch, pitch)


def distance_m(pixel_m: float, energy_eV: float, pitch_m: float, N: int) -> float:
    """``z = dx·N·p/λ``: where a detector of N pixels of pitch p gives object pixels of dx."""
    return pixel_m * N * pitch_m / wavelength_m(energy_eV)


def read_object(run: Path, name: str, image: int) -> np.ndarray:
    """The object ``(M, M)`` that a run has stored as ``recons/<name>``."""
    path = run / names.recon(name)
    if not path.is_file():
        held = sorted(file.parent.name for file in (run / names.RECONS).glob("*/recon.npz"))
        raise ConfigError(f"recon={name}: the run has {', '.join(held) or 'none'}")
    _verify(run, names.recon(name))
    with faults_of(path):
        objects = read_all(path, {"object": "cfiu"})["object"]
    if objects.ndim != 3 or not image < len(objects):
        raise ConfigError(
            f"{path}: object has shape {objects.shape}; must be (images, M, M) with image {image}"
        )
    return np.asarray(objects[image], np.complex64)


def _verify(run: Path, name: str) -> Path:
    """Return a file of the run, which must be as the run wrote it."""
    if fault := problem(run, name, read_record(run)):
        raise ConfigError(f"{run}: {fault}")
    return run / name
