"""A scan whose object is known, simulated as a beamline would measure it. Nothing here imports TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ptycho.api.arrays import check_probe
from ptycho.api.scan import Scan, plain
from ptycho.config import ZonePlateProbe, check
from ptycho.config.mapping import to_dataclass
from ptycho.scan.probe import ZONE_PLATE_WINDOW_NM, fresnel_number, make_probe
from ptycho.simulation.measured_like import ScanSettings, simulate_measured_like, state_scan

SIMULATED = "simulated"


def simulate(
    N: int = 64,
    n_positions: int = 400,
    nphotons: float = 1e6,
    probe: np.ndarray | None = None,
    *,
    step_px64: float = 5.0,
    path: Literal["fermat", "jittered", "snake"] = "fermat",
    sample: Literal["lines", "blobs"] = "lines",
    slices: int = 1,
    slice_thickness_m: float | None = None,
    imperfections: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Scan:
    """Simulate a scan with its truth; no interpolation; the sample is finer than the detector resolves.

    Args:
        N: side of the patterns, even, from 16 (under the zone plate: 32) to 1024.
        n_positions: how many patterns there are.
        nphotons: in each of them, on average.
        probe: ``(N, N)`` complex, of any scale; None: a defocused zone plate.
        step_px64: mean distance of neighbouring positions in pixels at N = 64; it scales with N.
        path: of the probe over the sample: ``fermat``, ``jittered`` or ``snake``.
        sample: ``lines`` or ``blobs``.
        slices: of a thick sample; more than one are for the zone plate, whose energy and pixel are known.
        slice_thickness_m: distance from one slice to the next.
        imperfections: what is not as the scan says, ``{"position_px": 1}``, …: every key of
            the group ``imperfections``.
        seed: of all that is random.

    Raises:
        ConfigError: a value that cannot be; the message names it.
    """
    values = {
        "N": N,
        "n_positions": n_positions,
        "nphotons": nphotons,
        "step_px64": step_px64,
        "path": path,
        "sample": sample,
        "slices": slices,
        "slice_thickness_m": slice_thickness_m,
        "imperfections": imperfections or {},
        "seed": seed,
    }
    settings: ScanSettings = to_dataclass(ScanSettings, plain(values))
    allowed = "at least 32 under the zone plate, which resolves its outermost zones, or with a probe"
    check(probe is not None or N >= 32, "N", N, allowed)
    plate = ZonePlateProbe()
    known = make_probe(plate, N) if probe is None else check_probe(probe, N)[0]
    check(probe is None or slices == 1, "slices", slices, "1 with a probe of your own; remove probe")
    energy, pixel = 1e3 * plate.energy_keV, 1e-9 * ZONE_PLATE_WINDOW_NM / N
    simulated = simulate_measured_like(settings, known, energy, (pixel, pixel))
    lengths: dict[str, Any] = {"energy_eV": energy} if slices > 1 else {}
    scan = Scan.from_arrays(
        np.concatenate(list(simulated.counts(settings.rng("photons")))),
        *state_scan(settings, simulated, fresnel_number(plate, N)),
        counts=True,
        pixel_m=pixel if probe is None else None,
        good=simulated.good,
        truth=simulated.object,
        **lengths,
    )
    return replace(scan, name=SIMULATED)
