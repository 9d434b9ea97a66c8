"""A scan as a beamline would measure it, with its truth, in a file; nothing here imports TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ptycho.config import ZonePlateProbe, check
from ptycho.config.messages import show
from ptycho.config.schema import Flag, Number, Text, key, settings
from ptycho.config.sections import Shape
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.exports import FORMATS, format_of
from ptycho.exports.exported_scan import ExportedScan
from ptycho.progress import Advance, Progress
from ptycho.run.record import check_output
from ptycho.scan.probe import ZONE_PLATE_WINDOW_NM, fresnel_number, make_probe
from ptycho.simulation.measured_like import MeasuredLike, ScanSettings, simulate_measured_like, state_scan
from ptycho.simulation.near_field import simulate_near_field
from ptycho.simulation.truth import truth_of
from workflows.convert.export_scan import describe_file


@settings(kw_only=True)
class SimulateConfig(ScanSettings):
    """The keys of ``conf/simulate.yaml``."""

    output: Text | None = key(None, "file to write")
    format: Text | None = key(
        None, "format: cxi | ptychodus | npz; null: by the ending of output (.cxi, .h5, .npz)"
    )
    overwrite: Flag = key(False, "replace an existing file")
    probe: Shape = key(
        ZonePlateProbe(), "illumination; energy and pixel are those of the zone plate", discriminator="kind"
    )
    detector_pixel_m: Number = key(
        75e-6,
        "pixel size of the detector (Eiger 75 µm, Medipix 55 µm), from which the distance follows",
        ge=1e-7,
        le=1e-2,
        unit="m",
    )
    physics: Literal["far_field", "near_field"] = key(
        "far_field", "propagation; near_field: Fresnel diffraction behind a diffuser as wide as the detector"
    )
    fresnel: Number = key(20.0, "Fresnel number of a near field: λz/dx², effective distance z", gt=0, le=1000)
    magnification: Number = key(100.0, "near field's magnification by a cone beam; 1: parallel", ge=1, le=1e5)

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
    """Simulate a scan and write it; what was written, a line each, and the keys that a near field needs."""
    output, kind = Path(str(config.output)), format_of(config.format, config.output)
    check_output(output, config.overwrite)
    near = config.physics == "near_field"
    simulated, lengths = near_field(config) if near else far_field(config)
    with closing(Progress("simulating", config.n_positions)) as progress:
        scan = export(config, simulated, lengths, progress.advance)
        FORMATS[kind](output, scan)
    keys = ["data.physics=near_field"] * near
    if near and config.magnification != 1:  # z01 = z12/(M − 1)
        keys.append(f"data.source_distance_m={lengths['distance_m'] / (config.magnification - 1):.9g}")
    return [*describe_file(output, scan), *[f"  read with {' '.join(keys)}"] * near]


def far_field(config: SimulateConfig) -> tuple[MeasuredLike, dict[str, Any]]:
    """A scan in units of its zone plate, which are those of the default one with another probe."""
    plate, N = config.plate, config.N
    energy, pixel = 1e3 * plate.energy_keV, 1e-9 * (plate.pixel_size_nm or ZONE_PLATE_WINDOW_NM / N)
    distance = pixel * N * config.detector_pixel_m / wavelength_m(energy)  # z = dx·N·p/λ
    simulated = simulate_measured_like(config, make_probe(config.probe, N), energy, (pixel, pixel))
    return simulated, {"pixel_m": (pixel, pixel), "energy_eV": energy, "distance_m": distance}


def near_field(config: SimulateConfig) -> tuple[MeasuredLike, dict[str, Any]]:
    """A scan behind a diffuser: z = F dx²/λ, dx = p/M, z12 = M z."""
    step, way = config.step_px64 * config.N / 64, Fresnel(config.fresnel, config.fresnel)
    simulated = simulate_near_field(
        config.N, config.n_positions, step, way, config.nphotons, config.seed, config.path, config.sample
    )
    energy, M = 1e3 * config.plate.energy_keV, config.magnification
    pixel = config.detector_pixel_m / M
    distance = M * config.fresnel * pixel**2 / wavelength_m(energy)
    return simulated, {"pixel_m": (pixel, pixel), "energy_eV": energy, "distance_m": distance}


def export(
    config: SimulateConfig, simulated: MeasuredLike, lengths: dict[str, Any], advance: Advance
) -> ExportedScan:
    """What a beamline would know of a simulated scan; where that is not the truth, the truth beside it."""
    changed, near = config.imperfections.changed, config.physics == "near_field"
    text = ", ".join(f"{key} {show(value)}" for key, value in changed.items())
    text = f" Imperfections: {text}; the true values are under truth." if text else ""
    finer = f"{config.oversampling} times finer than the object's pixels"
    positions, probe = state_scan(config, simulated, fresnel_number(config.probe, config.N))

    def shown() -> Iterator[np.ndarray]:
        for block in simulated.counts(config.rng("photons")):
            yield block
            advance(len(block))

    return ExportedScan(
        positions=positions,
        probe=probe[None].astype(np.complex64),
        patterns=shown(),
        dtype=simulated.dtype,
        domain="counts",
        object=simulated.object.astype(np.complex64),
        good=None if near else simulated.good,
        detector_pixel_m=(config.detector_pixel_m, config.detector_pixel_m),
        name=Path(str(config.output)).stem,
        comments=f"Simulated{' near field' * near}: {config.sample} on {config.path}, "
        f"{f'λz/dx² = {config.fresnel:g}' if near else finer}, {config.nphotons:g} photons a pattern, "
        f"seed {config.seed}; with its truth.{text}",
        truth=truth_of(simulated) if changed else None,
        **lengths,
    )
