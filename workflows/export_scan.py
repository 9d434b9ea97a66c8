"""A run's scan, with what was reconstructed from it, in the formats of other programs.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError, RunConfig, ScanRunConfig, ZonePlateProbe, check
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.from_dataset import from_dataset, from_measured
from ptycho.exports.table import FORMATS, check_output, format_of
from ptycho.files.npz import NpzError, read_all
from ptycho.preparation.dataset import measured_dataset
from ptycho.preparation.prepare import understand
from ptycho.progress import Progress
from ptycho.readers import load_dataset
from ptycho.readers.scans.raw_scan import wavelength_m
from ptycho.run import names
from ptycho.run.record import problem, read_record
from ptycho.run.stored_config import read_config
from ptycho.scan.probe import ZONE_PLATE_WINDOW_NM
from workflows.inspect_scan import opened

ROLES = ("test", "train", "val")
TRUTH = "gt"
BEST = ("refined", "pinn")
DETECTOR_PIXEL_M = 75e-6


@dataclass(frozen=True)
class ExportConfig:
    """The keys of ``conf/export.yaml``."""

    run: str | None = None
    output: str | None = None
    format: str | None = None
    source: str | None = None
    recon: str | None = None
    image: int = 0
    pixel_m: float | None = None
    energy_eV: float | None = None
    detector_pixel_m: float | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        check(bool(self.run), "run", self.run, "the folder of a run")
        check(bool(self.output), "output", self.output, "the path of the file to write")
        for key in ("pixel_m", "energy_eV", "detector_pixel_m"):
            value = getattr(self, key)
            check(value is None or 0 < value < np.inf, key, value, "a finite number > 0, or null")


def export(config: ExportConfig) -> list[str]:
    """Write the scan; what was written, a line each.

    Raises:
        ConfigError: one line with what is wrong with the run or the configuration.
        WriteError: the file cannot be written.
    """
    run, output = Path(str(config.run)), Path(str(config.output))
    kind = format_of(config.format, config.output)
    stored = read_config(run)
    if isinstance(stored, ScanRunConfig):
        read = [Path(name) for name in (stored.data.file, stored.data.patterns_file) if name]
        check_output(output, config.overwrite, read)
        scan = measured(run, stored, config)
    else:
        check_output(output, config.overwrite, [run / names.dataset(stored, role) for role in ROLES])
        scan = simulated(run, stored, config)
    scan = replace(scan, name=run.resolve().name)
    FORMATS[kind](output, scan)
    return written(output, scan)


def written(output: Path, scan: ExportedScan) -> list[str]:
    """What a file holds, in two lines."""
    count, N, _ = scan.shape
    pixel = "of unknown size" if scan.pixel_m is None else f"of {1e9 * scan.pixel_m[0]:.4g} nm"
    shape = "none" if scan.object is None else "{} × {} pixels".format(*scan.object.shape)
    return [
        f"{output}: {count} patterns of {N} × {N}, {scan.domain} ({scan.dtype})",
        f"  object: {shape}, {pixel}",
    ]


def measured(run: Path, stored: ScanRunConfig, config: ExportConfig) -> ExportedScan:
    """The scan of a measured run, its patterns read again from the measured file."""
    check(
        config.source in (None, "scan"),
        "source",
        config.source,
        "null or scan: the run is of a measured scan",
    )
    for key in ("pixel_m", "energy_eV", "detector_pixel_m"):
        value = getattr(config, key)
        check(value is None, key, value, "null: the run of a measured scan knows its units")
    name = config.recon or next((best for best in BEST if (run / names.recon(best)).exists()), BEST[-1])
    object_ = stored_object(run, name, 0)
    scan = understand(opened(stored.data), stored.data)
    scratch = Path(str(config.output)).parent
    scratch.mkdir(parents=True, exist_ok=True)
    with closing(Progress("reading", len(scan.frames))) as progress:
        data, _ = measured_dataset(scan, stored, scratch, progress.advance)
    if object_.shape != (data.object_size, data.object_size):
        raise ConfigError(
            f"{stored.data.file}: is another file than the run had: the object of {name} is {object_.shape}, "
            f"and the scan now needs {data.object_size} × {data.object_size}"
        )
    found = from_measured(scan, data, object_)
    return replace(found, comments=f"Object: {name} of the run {run.resolve().name}. {found.comments}")


def simulated(run: Path, stored: RunConfig, config: ExportConfig) -> ExportedScan:
    """A dataset of a grid-lines run, with the truth or what was reconstructed from it."""
    role, name = config.source or ROLES[0], config.recon or TRUTH
    check(role in ROLES, "source", role, f"one of {', '.join(ROLES)}: the run is simulated")
    check(name == TRUTH or role == "test", "recon", name, f"{TRUTH}: nothing was reconstructed from {role}")
    path = run / names.dataset(stored, role)
    _verify(run, names.dataset(stored, role))
    data = load_dataset(path)
    if data.objects is None:
        raise ConfigError(f"{path}: has no true object; choose recon=pinn")
    check(0 <= config.image < data.n_images, "image", config.image, f"from 0 to {data.n_images - 1}")
    object_ = data.objects[config.image] if name == TRUTH else stored_object(run, name, config.image)
    found = from_dataset(data, config.image, object_)
    comments = f"Simulated ({role}, image {config.image}). Object: {name}."
    return replace(found, comments=comments, **units(stored, config))


def units(stored: RunConfig, config: ExportConfig) -> dict[str, Any]:
    """Pixel, energy, distance and detector of a simulated scan, as far as its probe or the user tells them.

    ``z = dx·N·p/λ``, with the pitch p of ``detector_pixel_m``.
    """
    probe, pixel, energy = stored.probe, config.pixel_m, config.energy_eV
    if isinstance(probe, ZonePlateProbe):
        pixel = pixel or 1e-9 * (probe.pixel_size_nm or ZONE_PLATE_WINDOW_NM / stored.N)
        energy = energy or 1e3 * probe.energy_keV
    found: dict[str, Any] = {"energy_eV": energy, "pixel_m": None if pixel is None else (pixel, pixel)}
    if pixel is not None and energy is not None:
        pitch = config.detector_pixel_m or DETECTOR_PIXEL_M
        found |= {
            "distance_m": distance_m(pixel, energy, pitch, stored.N),
            "detector_pixel_m": (pitch, pitch),
        }
    return found


def distance_m(pixel_m: float, energy_eV: float, pitch_m: float, N: int) -> float:
    """``z = dx·N·p/λ``: where a detector of N pixels of pitch p gives object pixels of dx."""
    return pixel_m * N * pitch_m / wavelength_m(energy_eV)


def stored_object(run: Path, name: str, image: int) -> np.ndarray:
    """The object ``(M, M)`` that a run has stored as ``recons/<name>``.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    path = run / names.recon(name)
    if not path.is_file():
        held = sorted(each.parent.name for each in (run / names.RECONS).glob("*/recon.npz"))
        raise ConfigError(f"recon={name}: the run has {', '.join(held) or 'none'}")
    _verify(run, names.recon(name))
    try:
        objects = read_all(path, {"object": "cfiu"})["object"]
    except NpzError as error:
        raise ConfigError(f"{path}: {error}") from error
    if objects.ndim != 3 or not image < len(objects):
        raise ConfigError(
            f"{path}: object has shape {objects.shape}; must be (images, M, M) with image {image}"
        )
    return np.asarray(objects[image], np.complex64)


def _verify(run: Path, name: str) -> None:
    """Raise unless a file of the run is as the run wrote it."""
    found = problem(run, name, read_record(run))
    if found is not None:
        raise ConfigError(f"{run}: {found}")
