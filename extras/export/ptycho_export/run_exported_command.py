"""An exported network on new data: read, predict, stitch, write; nothing here imports TensorFlow."""

from __future__ import annotations

import logging
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from ptycho.api.scan import Scan, open_scan
from ptycho.command_line.jobs import run_program
from ptycho.config import ConfigError, ScanRunConfig, check
from ptycho.config.messages import show
from ptycho.config.schema import Flag, Integer, Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.preparation.dataset import check_disk, make_dataset
from ptycho.readers.npz_layouts import GRID_LINES
from ptycho.reconstruction.stitching import predict_scan
from ptycho.run.record import check_output
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset
from ptycho.scan.probe import probe_support
from ptycho_export.formats import open_exported
from ptycho_export.runtimes import Description, Exported

log = logging.getLogger(__name__)

RECON = "recon.npz"


@settings()
class RunExportedConfig:
    """The keys of ``conf/lite/run_exported.yaml``."""

    model: Text | None = key(None, "TFLite or ONNX file that scripts/export_model.py wrote")
    data: Text | None = key(
        None, "file of a scan with its probe, which ptycho scan reads without further keys"
    )
    output_dir: Text = key(
        "outputs/exported", "folder of the results", min_length=1, allowed="the path of a folder"
    )
    stitch: Literal["probe", "grid"] = key("probe", "stitching of the patches")
    threads: Integer | None = key(
        None, "number of threads of the runtime; null: one for each processor", ge=1
    )
    overwrite: Flag = key(False, "replace the results in output_dir")

    def __post_init__(self) -> None:
        check(bool(self.model), "model", show(self.model), "a .tflite or .onnx file of export_model.py")
        check(bool(self.data), "data", show(self.data), "a file of diffraction patterns")


def main(help_text: str | None) -> NoReturn:
    """End the process as ``ptycho run-exported``."""
    run_program("lite/run_exported", RunExportedConfig, run_exported, help_text)


def run_exported(config: RunExportedConfig) -> list[str]:
    """Reconstruct; what was written, a line each."""
    target = Path(config.output_dir) / RECON
    check_output(target, config.overwrite, [Path(str(config.data))], "output_dir")
    exported = open_exported(str(config.model), config.threads)
    scan, scratch = open_scan(str(config.data)), Path(tempfile.gettempdir())
    data = fit_to_model(scan, exported.description, scratch)
    regions, seconds = predict(exported, data)
    from ptycho.reconstruction.stitching import stitch  # SciPy's solvers: after the first region

    stitched = stitch(regions, data, config.stitch)
    arrays = {"object": stitched.objects, "mask": stitched.mask}
    write_atomically(target, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    speed = data.groups.size / seconds
    return [
        f"{config.data}: {data.groups.size} patterns in {data.n_groups} groups, {speed:.0f} patterns/s",
        f"{target}: object {stitched.objects.shape} and mask",
    ]


def fit_to_model(scan: Scan, d: Description, scratch: Path) -> Dataset:
    """Return the patterns in groups and regions of the exported network's sizes; ConfigError: they cannot be.

    The dataset of a run keeps its groups. In other scans each pattern is grouped with its nearest; the
    patterns are copied to ``scratch``.
    """
    prefix, N = f"data={scan.name}", scan.N
    if N != d.N:
        raise ConfigError(f"{prefix}: has N={N}; the model was exported for N={d.N}")
    if scan.probe is None:
        raise ConfigError(f"{prefix}: has no probe; reconstruct it by ptycho scan, which estimates one")
    if scan.geometry.raw.format == GRID_LINES.name:
        data = load_dataset(scan.data.path)
        if d.group_size == 1 != data.group_size:
            data = data.single_patterns(d.patterns_per_group)
        elif data.group_size != d.group_size:
            data = data.regrouped(d.group_size)
    else:
        for warning in scan.warnings:
            log.warning("%s: %s", prefix, warning)
        config = ScanRunConfig(data=scan.data, group_size=d.group_size)
        check_disk(scan.geometry.raw, scan.data, scratch, "TMPDIR")
        _, data, _ = make_dataset(scan.geometry, config, scratch)
    if data.group_size != d.group_size:
        few = f"has {len(data.positions)} patterns"
        raise ConfigError(f"{prefix}: {few}; the model was exported for groups of {d.group_size}")
    if len(data.probe) != max(d.modes, 1):
        raise ConfigError(
            f"{prefix}: modes of its probe: {len(data.probe)}; the model was exported for modes={d.modes}"
        )
    if data.region_size > d.region_size:
        raise ConfigError(
            f"{prefix}: its groups span regions of {data.region_size} pixels; the model was exported for "
            f"region_size={d.region_size}: export it again with region_size={data.region_size}"
        )
    support = probe_support(data.probe)
    if support > d.support:
        raise ConfigError(
            f"{prefix}: its probe fills {support} of {N} pixels; the model was exported for support="
            f"{d.support}: export it again with support={support}"
        )
    return replace(data, region_size=d.region_size, stated_tiling=data.tiling)


def predict(exported: Exported, data: Dataset) -> tuple[np.ndarray, float]:
    """The regions ``(G, R, R)`` of all groups, and how many seconds they took."""
    start = time.monotonic()
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    predict_scan(regions, exported, data, exported.description.batch_size)
    return regions, time.monotonic() - start
