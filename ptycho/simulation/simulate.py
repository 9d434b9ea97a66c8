"""Simulated grid lines: object + probe + positions + random numbers → photon counts → a dataset.

The true values of the instrument are beside those that the networks assume. All roles have one detector, one
source and one recorded probe; errors of positions and flux are drawn anew for every image. See
:mod:`ptycho.simulation.imperfections`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config import LinesObject, ProbeConfig, RunConfig
from ptycho.config.imperfections import Imperfections
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import Tiling, draw_groups, smallest_region
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import Scan, nested_grid
from ptycho.scan.probe import energy_diameter, fresnel_number, make_probe
from ptycho.scan.windows import cut_windows
from ptycho.simulation.imperfections import (
    HOT,
    Detector,
    draw_faults,
    draw_flux,
    draw_gaps,
    incoherent_modes,
    misstate_probe,
    record_positions,
    spread_and_scale,
    stream,
)
from ptycho.simulation.measured_like import line_amplitude
from ptycho.simulation.truth import Truth

log = logging.getLogger(__name__)


ROLES = ("train", "val", "test")
STREAMS = ("object", "jitter", "noise", "draw", "elsewhere", "recorded")


def child_rng(seed: int, role: str, image: int, stream: str) -> np.random.Generator:
    """Return a generator of its own for every (seed, role, image, stream), independent of all others."""
    key = (ROLES.index(role), image, STREAMS.index(stream))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def true_modes(config: ProbeConfig, N: int, wrong: Imperfections) -> np.ndarray:
    """Return the incoherent modes of a probe, ``(K, N, N)`` complex64; together they have its power."""
    probe = make_probe(config, N)
    return incoherent_modes(probe.astype(complex), wrong.modes, wrong.coherence).astype(np.complex64)


def true_flux(rms: float, seed: int, role: str, image: np.ndarray) -> np.ndarray | None:
    """Return the flux of each pattern, one on average, ``(J,)``, of images ``image (J,)``; None: all one."""
    if not rms:
        return None
    flux = np.ones(len(image))
    for i in np.unique(image):
        mine = image == i
        flux[mine] = draw_flux(int(mine.sum()), rms, stream(_seed(seed, role, i), "flux"))
    return flux


def true_detector(
    N: int, bad: int, hot_pixels: int, wrong: Imperfections, seed: int, brightest: float
) -> Detector:
    """Return the detector; ``brightest`` is the largest expected count of the sample."""
    good, hot = draw_faults(N, bad, hot_pixels, stream(seed, "faults"))
    gap = draw_gaps(N, wrong.gap_rows, wrong.gap_columns, stream(seed, "gap"))
    glow = np.where(hot & gap, HOT * brightest, 0.0)
    return Detector(good & gap, glow, wrong.background, wrong.saturation)


def apply_beliefs(
    data: dict[str, Dataset],
    good: np.ndarray,
    wrong: Imperfections,
    probes: Mapping[str, ProbeConfig],
    seed: int,
) -> tuple[dict[str, Dataset], int]:
    """Return the datasets with the recorded probe and positions, and the pixels that are known to work.

    Where recorded positions leave the objects, these get a margin that is not illuminated. Fractions of a
    pixel move the probe then, so that nothing is interpolated.

    Args:
        data: by role, with the first mode of the true probe and the true positions.
        good: ``(N, N)`` bool.
        wrong: by what the records err.
        probes: by role; whether they have a focus decides how a record of them errs.
        seed: of the errors.

    Returns:
        The datasets, which share R and M, and the margin in pixels.
    """
    first = data[ROLES[0]]
    places = {role: _record_positions(wrong, seed, role, part) for role, part in data.items()}
    low, high = min(r.min() for r in places.values()), max(r.max() for r in places.values())
    margin = math.ceil(max(0.0, -low, high - (first.object_size - first.N)))
    places = {role: (r + margin).astype(np.float32) for role, r in places.items()}
    exact = any(np.any(r != np.round(r)) for r in places.values())
    side = first.region_size
    if exact:
        side = max(smallest_region(places[role], part.groups, part.N) for role, part in data.items())
    assumed = {}
    for role, part in data.items():
        pitch, top, left, height, width = part.tiling
        assert part.objects is not None  # they have just been made
        fresnel = fresnel_number(probes[role], part.N)
        probe = misstate_probe(part.probe[0], wrong, fresnel, seed).astype(np.complex64)
        assumed[role] = replace(
            part,
            beam=Beam(probe, places[role]),
            objects=np.pad(part.objects, [(0, 0), (margin, margin), (margin, margin)], mode="edge"),
            object_size=part.object_size + 2 * margin,
            region_size=side,
            stated_tiling=type(part.tiling)(pitch, top + margin, left + margin, height, width),
            good=None if good.all() else good,
            exact=exact,
        )
    return assumed, margin


def _record_positions(wrong: Imperfections, seed: int, role: str, data: Dataset) -> np.ndarray:
    """Return recorded positions ``(J, 2)`` float64."""
    positions = data.positions.astype(np.float64)
    for i in np.unique(data.image):
        mine = data.image == i
        positions[mine] = record_positions(positions[mine], wrong, 1, _seed(seed, role, i))
    return positions


def _seed(seed: int, role: str, image: int) -> int:
    """Return the seed of the imperfections of one image."""
    return int(child_rng(seed, role, int(image), "recorded").integers(2**32))


def make_object(config: LinesObject, size: int, set_phi: bool, rng: np.random.Generator) -> np.ndarray:
    """Return one object ``a·exp(iφ)``, ``φ = sin(π(a − ½))`` or, unless ``set_phi``, 0.

    ``(size, size)`` complex64.
    """
    amplitude = line_amplitude(size, config.n_lines, rng)
    phase = np.sin(np.pi * (amplitude - 0.5)) if set_phi else np.zeros_like(amplitude)
    return (amplitude * np.exp(1j * phase)).astype(np.complex64)


def scan_images(
    grid: np.ndarray, groups: np.ndarray, last: int, jitter: float, rngs: Sequence[np.random.Generator]
) -> Scan:
    """Return the scan of several images: the same grid on every one, with a jitter of its own.

    Args:
        grid: positions ``(J, 2)`` in pixels.
        groups: ``(G, C)`` indices of them.
        last: largest position that is inside an image, in pixels.
        jitter: largest shift of a position along each axis, in pixels.
        rngs: one generator for each image; used for its jitter only.
    """
    positions = []
    for rng in rngs:
        moved = grid + (rng.uniform(-jitter, jitter, grid.shape) if jitter else 0.0)
        positions.append(np.clip(moved, 0, last))
    shift = len(grid) * np.arange(len(rngs))
    return Scan(
        positions=np.concatenate(positions).astype(np.float32),
        image=np.repeat(np.arange(len(rngs), dtype=np.int32), len(grid)),
        groups=(groups[None] + shift[:, None, None]).reshape(-1, groups.shape[1]).astype(np.int32),
    )


def nested_tiling(size: int, extent: int, pitch: int) -> Tiling:
    """Return the tiling of a simulated scan, which its jitter does not change.

    Args:
        size: side of the object in pixels.
        extent: side of the square that a group covers.
        pitch: distance of neighbouring groups.
    """
    start, count = extent // 2 - pitch // 2, (size - extent) // pitch + 1
    stop = min(start + pitch * count, size)
    start = max(start, 0)
    return Tiling(pitch, start, start, stop - start, stop - start)


def simulate(config: RunConfig) -> tuple[dict[str, Dataset], Truth | None]:
    """Simulate the training, validation and test datasets of a run; they share no object and no pattern.

    The photon scale is set by the training scan, ``s² = nphotons / ⟨Σ|Ψ|²⟩``, and used for all three. The
    truth of the test scan is returned beside them, if they do not contain it.
    """
    wrong = config.imperfections
    modes = {role: true_modes(config.probe_of(role), config.N, wrong) for role in ROLES}
    log.info("probe: %.1f pixels across (90 %% of its energy)", energy_diameter(modes["train"][0]))
    if config.test_probe is not None:
        log.info("probe of the test scan: %.1f pixels across", energy_diameter(modes["test"][0]))
    clean = {role: _simulate_noise_free(config, role, modes[role]) for role in ROLES}
    mean_energy = np.mean(np.sum(np.square(clean["train"].amplitudes, dtype=np.float64), axis=(1, 2)))
    scale = float(np.sqrt(config.nphotons / mean_energy))
    flux = {role: true_flux(wrong.flux_rms, config.seed, role, data.image) for role, data in clean.items()}
    brightest = scale**2 * clean["train"].amplitudes.statistics.largest ** 2
    faults = config.N, config.bad_pixels, config.hot_pixels
    detector = true_detector(*faults, wrong, config.seed, brightest)
    counted = {
        role: _add_counting_noise(data, scale, config.seed, role, flux[role], wrong.point_spread_px, detector)
        for role, data in clean.items()
    }
    if not config.imperfect:
        return counted, None
    probes = {role: config.probe_of(role) for role in ROLES}
    assumed, margin = apply_beliefs(counted, detector.good, wrong, probes, config.seed)
    positions = clean["test"].positions.astype(np.float64) + margin
    truth = Truth(
        probe=(scale * modes["test"]).astype(np.complex64),
        positions=positions,
        flux=np.ones(len(positions)) if flux["test"] is None else flux["test"],
        background=detector.background,
        hot=np.broadcast_to(detector.glow, detector.good.shape) > 0,
        object=assumed["test"].objects,
    )
    return assumed, truth


def _simulate_noise_free(config: RunConfig, role: str, modes: np.ndarray) -> Dataset:
    """The dataset of one role with amplitudes |Ψ|, the first of the modes, and a photon scale of one."""
    n_images = {"train": config.nimgs_train, "val": 1, "test": config.nimgs_test}[role]
    limit = {"train": config.max_groups_train, "val": config.train.val_groups, "test": None}[role]
    rngs = {s: [child_rng(config.seed, role, i, s) for i in range(n_images)] for s in STREAMS}
    drawn = (make_object(config.object, config.size, config.set_phi, rng) for rng in rngs["object"])
    objects = np.stack(list(drawn))
    pitch = config.outer_pitch(role)
    grid = nested_grid(config.size, config.N, config.gridsize, config.offset, pitch)
    scan = scan_images(*grid, config.size - config.N, config.scan.jitter, rngs["jitter"])
    scan = scan.select(draw_groups(len(scan.groups), limit, rngs["draw"][0]))
    amplitudes = np.empty((len(scan.positions), config.N, config.N), np.float32)
    for image, truth in enumerate(objects):
        chosen = np.flatnonzero(scan.image == image)
        amplitudes[chosen] = noise_free_amplitudes(truth, Beam(modes, scan.positions[chosen]))
    return Dataset(
        amplitudes=Patterns(amplitudes),
        beam=Beam(modes[0], scan.positions),
        image=scan.image,
        groups=scan.groups,
        photon_scale=1.0,
        object_size=config.size,
        region_size=config.region_size,
        objects=objects,
        stated_tiling=nested_tiling(config.size, config.group_extent, pitch),
        exact=bool(np.any(scan.positions != np.round(scan.positions))),
    )


def noise_free_amplitudes(truth: np.ndarray, beam: Beam, at_once: int = 512) -> np.ndarray:
    """Return ``√(Σ_m |F(P_m · O[r : r + N])|²)`` at every position; flux and background are the instrument's.

    Fractions of a pixel move the probe, exactly; the object is not interpolated.

    Args:
        truth: the object, ``(M, M)`` complex64.
        beam: probe, and positions within ``[0, M − N]``.
        at_once: patterns that are computed together.

    Returns:
        ``(J, N, N)`` float32.
    """
    N, probe = beam.N, tf.constant(beam.probe)
    amplitudes = np.empty((len(beam.positions), N, N), np.float32)
    for start in range(0, len(amplitudes), at_once):
        chunk = beam.positions[start : start + at_once]
        whole = np.floor(chunk).astype(np.int64)
        windows = tf.constant(cut_windows(truth, whole, N + 1))
        fractions = tf.constant((chunk - whole)[:, None], tf.float32)
        counts = physics.forward(windows, fractions, probe, exact=bool(np.any(chunk != whole)))
        amplitudes[start : start + at_once] = physics.detect(counts).numpy()[:, 0]
    return amplitudes


def _add_counting_noise(
    clean: Dataset,
    scale: float,
    seed: int,
    role: str,
    flux: np.ndarray | None,
    point_spread_px: float,
    detector: Detector,
    at_once: int = 512,
) -> Dataset:
    """Replace |Ψ| by ``√n``, ``n ~ Poisson(s²|Ψ|²)`` if nothing is imperfect, drawn image by image."""
    amplitudes = np.empty_like(clean.amplitudes)
    for image in range(clean.n_images):
        chosen = np.flatnonzero(clean.image == image)
        rng = child_rng(seed, role, image, "noise")
        elsewhere = child_rng(seed, role, image, "elsewhere") if detector.background else None
        for start in range(0, len(chosen), at_once):
            part = chosen[start : start + at_once]
            expected = np.square(scale * clean.amplitudes[part].astype(np.float64))
            expected = spread_and_scale(expected, None if flux is None else flux[part], point_spread_px)
            amplitudes[part] = np.sqrt(detector.counts(expected, rng, elsewhere))
    return replace(clean, amplitudes=Patterns(amplitudes), photon_scale=scale)
