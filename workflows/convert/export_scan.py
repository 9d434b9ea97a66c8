"""A run's scan, with what was reconstructed from it, in the formats of other programs; without TensorFlow."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError, ScanRunConfig, check
from ptycho.config.data import DataConfig
from ptycho.config.own_code import allow
from ptycho.config.schema import Flag, Text, Texts, key, settings
from ptycho.exports import FORMATS, SUFFIXES, format_of
from ptycho.exports.exported_scan import ExportedScan, from_measured
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


@settings()
class ExportConfig:
    """The keys of ``conf/export.yaml``."""

    run: Text | None = key(None, "folder of the run on a measured scan")
    output: Text | None = key(
        None,
        "file to write; null: outputs/export/<run>.<format>",
        min_length=1,
        allowed="the path of the file to write",
    )
    format: Text | None = key(
        None, "format: ptychodus | cxi | npz; null: by the ending of output (.h5, .cxi, .npz)"
    )
    recon: Text | None = key(None, "object to export: solver | pinn | lsqml; null: the run's product")
    overwrite: Flag = key(False, "replace an existing file")
    trust: Texts = key((), "your own code that the run names, as my_module:name; nothing else is imported")

    def __post_init__(self) -> None:
        check(bool(self.run), "run", self.run, "the folder of a run")


def export(config: ExportConfig) -> list[str]:
    """Write the scan; what was written, a line each."""
    run, kind = Path(str(config.run)), format_of(config.format, config.output)
    suffix = next(end for end, name in SUFFIXES.items() if name == kind)
    output = Path(config.output or f"outputs/export/{run.resolve().name}{suffix}")
    allow(config.trust)
    stored = read_config(run)
    if not isinstance(stored, ScanRunConfig):
        raise ConfigError(
            f"run={run}: is no run on a measured scan; the datasets of simulated lines are files that ptycho "
            f"scan reads: {run / names.DATASETS}"
        )
    check_output(output, config.overwrite, sources(run, stored.data))
    scan = replace(measured_scan(run, stored, config.recon, output.parent), name=run.resolve().name)
    FORMATS[kind](output, scan)
    return describe_file(output, scan)


def sources(run: Path, data: DataConfig) -> list[Path]:
    """The files that an export may read."""
    measured = (*data.file, data.patterns_file, data.positions_file, data.mask_file)
    return [run / names.CONFIG, *run.rglob("recon.npz"), *(Path(name) for name in measured if name)]


def describe_file(output: Path, scan: ExportedScan) -> list[str]:
    """What a file holds, in two lines."""
    count, N, _ = scan.shape
    pixel = "of unknown size" if scan.pixel_m is None else f"of {1e9 * scan.pixel_m[0]:.4g} nm"
    shape = "none" if scan.object is None else "{} × {} pixels".format(*scan.object.shape)
    return [
        f"{output}: {count} patterns of {N} × {N}, {scan.domain} ({scan.dtype})",
        f"  object: {shape}, {pixel}",
    ]


def measured_scan(run: Path, stored: ScanRunConfig, recon: str | None, scratch: Path) -> ExportedScan:
    """A scan of a run, its patterns read again from the measured file; a copy of them is in ``scratch``."""
    file, product = stored.data.path, find_product(run)
    name = recon or ("" if product is None else product[0])
    if not name:
        raise ConfigError(f"run={run}: holds no reconstruction of {file}; resume it: resume={run}")
    object_ = read_object(run, name)
    reading = decided_reading(run, stored.data)
    scan = interpret(open_raw(reading), reading)
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


def read_object(run: Path, name: str) -> np.ndarray:
    """The object ``(M, M)`` complex64 that a run has stored as ``recons/<name>``."""
    path = run / names.recon(name)
    if not path.is_file():
        held = sorted(file.parent.name for file in (run / names.RECONS).glob("*/recon.npz"))
        raise ConfigError(f"recon={name}: the run has {', '.join(held) or 'none'}")
    if fault := problem(run, names.recon(name), read_record(run)):
        raise ConfigError(f"{run}: {fault}")
    with faults_of(path):
        objects = read_all(path, {"object": "cfiu"})["object"]
    if objects.ndim != 3 or not len(objects):
        raise ConfigError(f"{path}: object has shape {objects.shape}; must be (1, M, M)")
    return np.asarray(objects[0], np.complex64)
