"""A scan as a beamline would measure it, with its truth, in a file of a measured scan's format.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from ptycho.config import ZonePlateProbe, check
from ptycho.config.imperfections import Imperfections
from ptycho.config.messages import show
from ptycho.config.schema import Flag, Number, Text, key, settings
from ptycho.config.sections import Shape
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.table import FORMATS, check_output, format_of
from ptycho.progress import Progress
from ptycho.run.record import check_no_file_of_a_run
from ptycho.scan.probe import fresnel_number, make_probe
from ptycho.simulation.imperfections import misstate_probe
from ptycho.simulation.measured_like import MeasuredLike, ScanSettings, record_scan, simulate_measured_like
from ptycho.simulation.truth import truth_of
from workflows.convert.export_scan import DETECTOR_PIXEL_M, describe_file, distance_m, plate_units


@settings(kw_only=True)
class SimulateConfig(ScanSettings):
    """The keys of ``conf/simulate.yaml``."""

    output: Text | None = key(None, "the file to write")
    format: Text | None = key(None, "cxi | ptychodus | npz; null: by the output's name (.cxi, .h5, .npz)")
    overwrite: Flag = key(False, "replace the file if it is there")
    probe: Shape = key(ZonePlateProbe(), "energy and pixel size are the zone plate's", discriminator="kind")
    detector_pixel_m: Number = key(
        DETECTOR_PIXEL_M,
        "pitch of its pixels (Eiger 75 µm, Medipix 55 µm); the distance follows",
        ge=1e-7,
        le=1e-2,
        unit="m",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.probe.check_only_shape("probe", "learn", "modes", "rate", "start_epoch")
        check(bool(self.output), "output", self.output, "the path of the file to write")


def simulate_scan(config: SimulateConfig) -> list[str]:
    """Simulate a scan and write it; what was written, a line each.

    Raises:
        ConfigError: one line with what is wrong with the configuration.
        WriteError: the file cannot be written.
    """
    output, kind = Path(str(config.output)), format_of(config.format, config.output)
    check_output(output, config.overwrite)
    check_no_file_of_a_run("output", output)
    made = simulate_measured_like(config, make_probe(config.probe, config.N))
    with closing(Progress("simulating", config.n_positions)) as progress:
        scan = export(config, made, progress)
        FORMATS[kind](output, scan)
    return describe_file(output, scan)


def export(config: SimulateConfig, made: MeasuredLike, progress: Progress) -> ExportedScan:
    """A simulated scan in units of its zone plate; with another probe, in those of the default one.

    It says what a beamline would know, and where that is not the truth, the truth beside it.
    """
    plate = config.probe if isinstance(config.probe, ZonePlateProbe) else ZonePlateProbe()
    units, pitch = plate_units(plate, config.N), config.detector_pixel_m
    distance = distance_m(units["pixel_m"][0], units["energy_eV"], pitch, config.N)
    wrong = config.imperfections
    micrometre = fresnel_number(config.probe, config.N)
    first = made.photon_probe.reshape(-1, made.N, made.N)[0]

    def shown() -> Iterator[np.ndarray]:
        for block in made.counts(config.rng("photons")):
            yield block
            progress.advance(len(block))

    return ExportedScan(
        positions=record_scan(config, made.positions),
        probe=misstate_probe(first, wrong, micrometre, config.seed)[None].astype(np.complex64),
        patterns=shown(),
        dtype=made.dtype,
        domain="counts",
        object=made.object.astype(np.complex64),
        good=made.good,
        distance_m=distance,
        detector_pixel_m=(pitch, pitch),
        name=Path(str(config.output)).stem,
        comments=f"Simulated: {config.sample} on {config.path}, {config.oversampling} times finer than the "
        f"object's pixels, {config.nphotons:g} photons a pattern, seed {config.seed}; with its "
        f"truth.{_said(wrong)}",
        truth=truth_of(made) if wrong.changed else None,
        **units,
    )


def _said(wrong: Imperfections) -> str:
    """A sentence on the imperfections, if there are any."""
    listed = ", ".join(f"{key} {show(value)}" for key, value in wrong.changed.items())
    return f" Imperfections: {listed}; what is true is under truth." if listed else ""
