"""A scan as a beamline would measure it, with its truth, in a file of a measured scan's format.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np

from ptycho.config import ZonePlateProbe, check
from ptycho.config.messages import show
from ptycho.config.schema import Flag, Number, Text, key, settings
from ptycho.config.sections import Shape
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.table import FORMATS, check_output, format_of
from ptycho.progress import Progress
from ptycho.run.record import check_no_file_of_a_run
from ptycho.scan.probe import fresnel_number, make_probe
from ptycho.simulation.imperfections import misstate_probe
from ptycho.simulation.measured_like import MeasuredLike, ScanSettings, record_scan, simulate_measured_like
from ptycho.simulation.near_field import NearFieldScan, simulate_near_field
from ptycho.simulation.truth import truth_of
from workflows.convert.export_scan import DETECTOR_PIXEL_M, describe_file, distance_m, plate_units


@settings(kw_only=True)
class SimulateConfig(ScanSettings):
    """The keys of ``conf/simulate.yaml``."""

    output: Text | None = key(None, "file to write")
    format: Text | None = key(
        None,
        "file format: cxi | ptychodus | nexus | npz; null: by the ending of output (.cxi, .h5, .nxs, .npz)",
    )
    overwrite: Flag = key(False, "replace an existing file")
    probe: Shape = key(
        ZonePlateProbe(),
        "illumination; energy and pixel size are those of the zone plate",
        discriminator="kind",
    )
    detector_pixel_m: Number = key(
        DETECTOR_PIXEL_M,
        "pixel size of the detector (Eiger 75 µm, Medipix 55 µm), from which the distance follows",
        ge=1e-7,
        le=1e-2,
        unit="m",
    )
    physics: Literal["far_field", "near_field"] = key(
        "far_field",
        "propagation to the detector; near_field: Fresnel diffraction behind a diffuser as wide as the "
        "detector",
    )
    fresnel: Number = key(
        20.0, "Fresnel number of a pixel of a near field: λz/dx², z the effective distance", gt=0, le=1000
    )
    magnification: Number = key(
        100.0, "magnification of a near field by a cone beam; 1: a parallel beam", ge=1, le=1e5
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.physics == "near_field":
            wrong = ", ".join(self.imperfections.changed)
            check(not wrong, "imperfections", wrong, "none with physics=near_field")
            broken = self.bad_pixels + self.hot_pixels
            check(not broken, "bad_pixels + hot_pixels", broken, "0 with physics=near_field")
            check(self.slices == 1, "slices", self.slices, "1 with physics=near_field")
        self.probe.check_only_shape("probe", "learn", "modes", "rate", "start_epoch")
        check(bool(self.output), "output", self.output, "the path of the file to write")

    @property
    def plate(self) -> ZonePlateProbe:
        """The zone plate whose units the scan has."""
        return self.probe if isinstance(self.probe, ZonePlateProbe) else ZonePlateProbe()


def simulate_scan(config: SimulateConfig) -> list[str]:
    """Simulate a scan and write it; what was written, a line each."""
    output, kind = Path(str(config.output)), format_of(config.format, config.output)
    check_output(output, config.overwrite)
    check_no_file_of_a_run("output", output)
    if config.physics == "near_field":
        return write_near_field(config, output, kind)
    units = plate_units(config.plate, config.N)
    made = simulate_measured_like(config, make_probe(config.probe, config.N), **units)
    with closing(Progress("simulating", config.n_positions)) as progress:
        scan = export(config, made, progress)
        FORMATS[kind](output, scan)
    return describe_file(output, scan)


def export(config: SimulateConfig, made: MeasuredLike, progress: Progress) -> ExportedScan:
    """A simulated scan in units of its zone plate; with another probe, in those of the default one.

    It says what a beamline would know, and where that is not the truth, the truth beside it.
    """
    units, pitch = plate_units(config.plate, config.N), config.detector_pixel_m
    distance = distance_m(units["pixel_m"][0], units["energy_eV"], pitch, config.N)
    wrong = config.imperfections
    said = ", ".join(f"{key} {show(value)}" for key, value in wrong.changed.items())
    said = f" Imperfections: {said}; the true values are under truth." if said else ""
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
        f"object's pixels, {config.nphotons:g} photons a pattern, seed {config.seed}; with its truth.{said}",
        truth=truth_of(made) if wrong.changed else None,
        **units,
    )


def write_near_field(config: SimulateConfig, output: Path, kind: str) -> list[str]:
    """Simulate a near field and write it; what was written, and the keys that it is read with."""
    step, way = config.step_px64 * config.N / 64, Fresnel(config.fresnel, config.fresnel)
    made = simulate_near_field(
        config.N, config.n_positions, step, way, config.nphotons, config.seed, config.path, config.sample
    )
    scan, source = export_near_field(config, made)
    FORMATS[kind](output, scan)
    keys = "data.physics=near_field" + ("" if source is None else f" data.source_distance_m={source:.9g}")
    return [*describe_file(output, scan), f"  read with {keys}"]


def export_near_field(config: SimulateConfig, made: NearFieldScan) -> tuple[ExportedScan, float | None]:
    """A scan with its true probe and object; and z01 in metres, of a cone beam.

    z = F dx²/λ, dx = p/M, z12 = M z, z01 = z12/(M − 1).
    """
    energy, pitch, M = 1e3 * config.plate.energy_keV, config.detector_pixel_m, config.magnification
    pixel = pitch / M
    distance = M * config.fresnel * pixel**2 / wavelength_m(energy)
    counts = made.counts(config.rng("photons"))
    scan = ExportedScan(
        positions=made.positions,
        probe=made.photon_probe[None].astype(np.complex64),
        patterns=[counts],
        dtype=counts.dtype,
        domain="counts",
        object=made.object.astype(np.complex64),
        pixel_m=(pixel, pixel),
        energy_eV=energy,
        distance_m=distance,
        detector_pixel_m=(pitch, pitch),
        name=Path(str(config.output)).stem,
        comments=f"Simulated near field: {config.sample} on {config.path}, λz/dx² = {config.fresnel:g}, "
        f"{config.nphotons:g} photons a pattern, seed {config.seed}; with its truth.",
    )
    return scan, None if M == 1 else distance / (M - 1)
