"""Make a dataset of a measured scan: drop frames, scale the probe, group nearest patterns, hold some out."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import AberratedProbe, ConfigError, OwnProbe, ProbeConfig, RunProbe, ScanRunConfig, check
from ptycho.config.data import SMALLEST_N, DataConfig
from ptycho.config.memory import OF_A_SCANNED_OBJECT, Part, check_memory, size_text, solver_parts
from ptycho.config.solver_config import SolverConfig
from ptycho.config.waves import FreeSpace, wavelength_m
from ptycho.files.npz import read_all
from ptycho.files.reading import faults_of
from ptycho.preparation.geometry import isolated
from ptycho.preparation.numbers import SampleOptions
from ptycho.preparation.prepare import ScanGeometry
from ptycho.preparation.start import find_product
from ptycho.progress import Advance, silent
from ptycho.readers.raw_scan import RawScan, checked_frames, listed
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import MARGIN, Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.groups import grouped, smallest_region
from ptycho.scan.optics import brought_back, electron_probe, lens, measured_power, pupil
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import even_side, shift_to_margin
from ptycho.scan.probe import make_probe, masked

log = logging.getLogger(__name__)

FEWEST = 3  # patterns: one or two leave the object and the beam open


def make_dataset(
    scan: ScanGeometry, config: ScanRunConfig, scratch: Path, advance: Advance = silent
) -> tuple[ScanGeometry, Dataset, list[Finding]]:
    """Return the scan with its usable frames alone, their patterns in groups, and the findings.

    The probe is scaled so that the scan's mean transmission is one, ``Σ|P|² = ⟨Σ A²⟩`` (of a near field,
    whose window is wider than the detector, what of P arrives on it): amplitudes of the object are against
    that. Patterns are copied to a nameless file in ``scratch``.
    """
    usual, (scan, copy) = scan, scan.copied(scratch, advance)
    findings = list(scan.decisions[len(usual.decisions) :])
    patterns, good = Patterns(copy, shifts=_pattern_shifts(scan, config.data)), scan.detector.good_pixels
    kept = _usable(scan, patterns, config.data, findings)
    modes, why = choose_probe(scan, config.probe, config.run)
    findings.append(Finding("probe used", f"{scan.N} × {scan.N}", why))
    some = patterns if len(kept) == len(patterns) else patterns.some(kept)
    scale = np.sqrt(some.statistics.mean_energy / measured_power(modes, scan.fresnel, good))
    beam = Beam((scale * modes).astype(np.complex64), _on_the_object(scan.positions[kept]))
    data = Dataset(
        amplitudes=some,
        beam=beam,
        photon_scale=1.0,
        counts=scan.counts,
        good=None if good.all() else good,
        fresnel=scan.fresnel,
        between=space_between_slices(scan, config.solver),
        **_layout(beam.positions, scan.N, config.patterns_in_group, bool(config.tiles)),
    )
    data = _with_tiling(data)
    why = f"regions of {data.region_size} px"
    if data.group_size < config.patterns_in_group:
        why += f"; group_size={config.patterns_in_group} is more than there are patterns"
    findings.append(Finding("groups", f"{data.n_groups} groups of {data.group_size}", why))
    usual = replace(usual, frames=usual.frames[kept]).place(usual.positions[kept])
    return usual, data, findings


def _pattern_shifts(scan: ScanGeometry, config: DataConfig) -> np.ndarray | None:
    """Return the shifts of the patterns ``(J, 2)`` float32 by the configured descan; None: there is none."""
    if config.pattern_shift is None or not np.any(config.pattern_shift):
        return None
    places = (scan.positions - scan.positions.mean(axis=0)) / scan.N
    return (places @ np.array(config.pattern_shift).T).astype(np.float32)


def _on_the_object(positions: np.ndarray, tolerance: float = 1e-3) -> np.ndarray:
    """Return positions ``(J, 2)`` float32 with a margin; whole pixels where all are within ``tolerance``."""
    positions = shift_to_margin(positions, MARGIN)
    if np.abs(positions - np.round(positions)).max() < tolerance:
        positions = np.round(positions)
    return positions.astype(np.float32)


def _layout(positions: np.ndarray, N: int, group_size: int, tiles: bool) -> dict[str, Any]:
    """Return the groups of positions ``(J, 2)``, and the sizes of their regions and of the object."""
    image = np.zeros(len(positions), np.int32)
    groups = grouped(positions, image, group_size, tiles)
    return {
        "image": image,
        "groups": groups,
        "object_size": even_side(N + int(np.ceil(positions.max())) + 1 + MARGIN),
        "region_size": smallest_region(positions, groups, N),
        "exact": bool(np.any(positions != np.round(positions))),
        "tiles": tiles,
    }


def _with_tiling(data: Dataset) -> Dataset:
    """Return tiles with the lattice of single patterns: the scored part does not depend on the grouping."""
    if not data.tiles:
        return data
    singletons = np.arange(len(data.positions), dtype=np.int32)[:, None]
    region_size = smallest_region(data.positions, singletons, data.N)
    singles = replace(data, groups=singletons, region_size=region_size)
    return replace(data, stated_tiling=singles.tiling)


def map_positions(scan: ScanGeometry, data: Dataset, matrix: np.ndarray) -> tuple[ScanGeometry, Dataset]:
    """Return a scan and its patterns with positions in object pixels multiplied by a matrix ``(2, 2)``."""
    moved = at_positions(data, data.positions.astype(float) @ matrix.T)
    return scan.place(scan.positions @ matrix.T), moved


def place_patterns(
    scan: ScanGeometry, data: Dataset, positions: np.ndarray
) -> tuple[ScanGeometry, Dataset, np.ndarray]:
    """Return the scan and its patterns at other positions ``(J, 2)``, and their common shift in pixels."""
    placed = at_positions(data, positions)
    shift = np.rint((placed.positions - positions).mean(axis=0)).astype(int)
    return scan.place(positions), placed, shift


def at_positions(data: Dataset, positions: np.ndarray) -> Dataset:
    """Return the patterns of a scan at positions ``(J, 2)`` of any origin, under the same beam."""
    beam = replace(data.beam, positions=_on_the_object(positions))
    layout = _layout(beam.positions, data.N, data.group_size, data.tiles)
    return _with_tiling(replace(data, beam=beam, stated_tiling=None, **layout))


def check_enough(count: int, path: str) -> None:
    """Raise ConfigError if ``count`` patterns of a scan are too few to reconstruct anything from."""
    if count < FEWEST:
        raise ConfigError(
            f"data.file={path}: {count} of its patterns can be used; must be at least {FEWEST}, or "
            "object and probe cannot be separated: measure more, or use more of the file (data.frames, "
            "data.stride, data.drop)"
        )


def _usable(
    scan: ScanGeometry, patterns: Patterns, config: DataConfig, findings: list[Finding]
) -> np.ndarray:
    """Return indices of the patterns that saw the beam and are not far from all others."""
    dark = dark_frames(patterns, scan.detector.good_pixels, config.dark_frames)
    if dark.any():
        energies = patterns.statistics.energies
        first, more = listed(scan.frames[dark].tolist(), 5)
        share = float(energies[dark].sum() / max(energies.sum(), np.finfo(float).tiny))
        why = f"no beam in {first}{more}, {100 * share:.2g} % of the intensity; data.dark_frames=0 keeps them"
        findings.append(Finding("frames dropped", f"{dark.sum()} of {len(dark)}", why))
        if dark.mean() > 0.01:
            log.warning("%s", findings[-1])
    alone = isolated(scan.positions)
    if len(alone):
        findings.append(Finding("isolated positions excluded", str(len(alone)), "far from all others"))
    kept = np.setdiff1d(np.flatnonzero(~dark), alone)
    check_enough(len(kept), config.paths)
    return kept


def dark_frames(patterns: Patterns, good: np.ndarray, below: float, contrast: float = 4.0) -> np.ndarray:
    """Return the patterns ``(J,)`` that saw no beam: their intensity is low, and not where the beam is.

    An opaque part of the sample absorbs most of the beam as well; what is left still lies where the beam is.
    Where the shutter was closed, what is left (noise, a background) is as bright beside the beam as in it.

    Args:
        patterns: amplitudes ``(J, N, N)``, zero where not ``good (N, N)``.
        below: share of the median energy; only patterns with less are tested.
        contrast: of the mean pattern's beam over its surround, below which only empty patterns are dark.
    """
    statistics = patterns.statistics
    energies = statistics.energies
    dark = energies == 0
    suspects = np.flatnonzero((energies < below * np.median(energies)) & ~dark)
    beam = _brightest(statistics.mean_intensity, good)
    beside = good & ~beam
    ordinary = _contrast(statistics.mean_intensity, beam, beside)
    if ordinary < contrast:
        return dark
    for index in suspects:
        pattern = np.square(patterns[index : index + 1][0], dtype=np.float64)
        dark[index] = _contrast(pattern, beam, beside) < np.sqrt(ordinary)
    return dark


def _brightest(mean: np.ndarray, good: np.ndarray, share: float = 0.9, most: float = 0.5) -> np.ndarray:
    """Return the fewest pixels ``(N, N)`` with a ``share`` of the intensity, ``most`` of the good at most."""
    intensity = np.where(good, mean, 0).ravel()
    order = np.argsort(intensity)[::-1]
    count = int(np.searchsorted(np.cumsum(intensity[order]), share * intensity.sum())) + 1
    chosen = np.zeros(intensity.size, bool)
    chosen[order[: min(count, max(1, int(most * good.sum())))]] = True
    return chosen.reshape(mean.shape)


def _contrast(pattern: np.ndarray, beam: np.ndarray, beside: np.ndarray) -> float:
    """Return the intensity of an average pixel in the beam, over that of one beside it."""
    dim = pattern[beside].mean() if beside.any() else 0
    return float(pattern[beam].mean() / dim) if dim > 0 else np.inf


def choose_probe(scan: ScanGeometry, probe: ProbeConfig, run: str | None) -> tuple[np.ndarray, str]:
    """Return the modes of the probe, ``(K, N, N)`` of any scale, the strongest first, and their source."""
    if isinstance(probe, RunProbe):
        return masked(probe_of_run(Path(str(run)), scan.N), probe), f"that of {run}"
    if isinstance(probe, AberratedProbe):
        wave = electron_probe(probe, scan.N, *_lengths(scan, "probe=aberrated"))
        return masked(wave, probe)[None].astype(np.complex64), "probe=aberrated"
    if not isinstance(probe, OwnProbe):
        return make_probe(probe, scan.N)[None], f"probe={probe.kind}"
    if scan.probe is None:
        good = scan.detector.good_pixels
        mean = np.square(scan.patterns(slice(0, SampleOptions().frames)).astype(float)).mean(axis=0)
        root = pupil(mean, good)
        start = lens(root, 0.0) if scan.fresnel is None else brought_back(root, scan.fresnel)
        return masked(start[None], probe), "not specified: estimated from the patterns"
    power = np.sum(np.abs(scan.probe) ** 2, axis=(1, 2))
    share = 100 * power.max() / power.sum()
    several = f"the file's, {len(power)} modes, {share:.0f} % of the power in the strongest"
    modes = masked(scan.probe[np.argsort(-power)], probe)
    inside = bool(modes[0].any())
    check(inside, "probe.mask_diameter_px", probe.mask_diameter_px, "larger: the probe lies outside")
    return modes, several if len(power) > 1 else "the file's"


def space_between_slices(scan: ScanGeometry, solver: SolverConfig) -> FreeSpace | None:
    """Return the free space between slices of a thick sample; None: it is thin, or that is not known.

    Where their number is not specified, nor their distance, it is half a depth of field ``5 dx²/λ``.
    ConfigError: slices are specified of a near field, or where lengths are not known.
    """
    pixel, energy, thickness = scan.pixel.metres, scan.raw.energy_eV, solver.slice_thickness_m
    known = scan.fresnel is None and pixel is not None and energy is not None
    if solver.slices == 1 or (solver.slices is None and thickness is None and not known):
        return None
    setting = f"solver.slices={'null' if solver.slices is None else solver.slices}"
    if scan.fresnel is not None:
        raise ConfigError(f"{setting}: a near field is that of a thin object; set solver.slices=1")
    pixel, wavelength = _lengths(scan, setting)
    if thickness is None:
        thickness = 2.5 * pixel[0] * pixel[1] / wavelength
    return FreeSpace.of(thickness, wavelength, pixel)


def _lengths(scan: ScanGeometry, setting: str) -> tuple[tuple[float, float], float]:
    """The object's pixel and the wavelength, in metres."""
    if scan.pixel.metres is None or scan.raw.energy_eV is None:
        missing = ", ".join(f"{key}=" for key in scan.pixel.missing or ("data.energy_eV",))
        raise ConfigError(f"{setting}: the object's pixel or the wavelength is unknown; set {missing}")
    return scan.pixel.metres, wavelength_m(scan.raw.energy_eV)


def probe_of_run(run: Path, N: int) -> np.ndarray:
    """Return the modes ``(K, N, N)`` of a run's product; ConfigError: there is none, or not of this size."""
    _, path = find_product(run) or ("", None)
    if path is None:
        raise ConfigError(f"probe=run: {run} holds no reconstruction of a measured scan")
    with faults_of(f"probe=run: {path}"):
        modes = read_all(path, {"probe": "c"})["probe"]
    wrong = modes.ndim != 3 or modes.shape[1:] != (N, N) or not np.isfinite(modes).all() or not modes[0].any()
    check(not wrong, "probe=run", f"a probe of shape {modes.shape} in {path}", f"modes (K, {N}, {N})")
    return modes


def number_held_out(count: int, fraction: float) -> int:
    """Return how many of ``count`` patterns are held out; :data:`FEWEST` are always fitted."""
    return 0 if count * fraction < 1 else min(round(count * fraction), max(count - FEWEST, 0))


def training_and_validation(data: Dataset, fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Return the groups that are trained on, and those that choose the best epoch; drawn by another stream.

    A scan that is a single group has it in both.
    """
    if data.n_groups == 1:
        return data, data
    rng = np.random.default_rng([seed, 2])
    count = min(max(round(fraction * data.n_groups), 1), data.n_groups - 1)
    chosen = np.zeros(data.n_groups, bool)
    chosen[rng.choice(data.n_groups, count, replace=False)] = True
    return replace(data, groups=data.groups[~chosen]), replace(data, groups=data.groups[chosen])


def check_disk(raw: RawScan, section: DataConfig, folder: Path, key: str = "output_dir") -> None:
    """Refuse a scan if the disk of a folder has too little room for a copy of its patterns; none is read.

    ``key``: what determines the folder.
    """
    count, height, width = raw.patterns.shape
    N = section.N or max(min(height, width) // section.bin, SMALLEST_N)
    patterns = len(checked_frames(section, count))
    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.is_dir())
    needed, available = 4 * patterns * N**2, shutil.disk_usage(place).free
    if needed > available:
        raise ConfigError(
            f"disk: a copy of the {patterns} patterns takes {size_text(needed)} in {place}, and "
            f"{size_text(available)} are available there, {size_text(needed - available)} too little: take "
            f"fewer (data.stride, data.frames), bin them (data.bin), or set {key} to a folder with room"
        )


def check_memory_for(
    scan: ScanGeometry,
    name: str,  # of the scan
    modes: int | None = None,  # of the probe; None: as many as that of the file
    block: int | None = None,  # patterns that the solver fits together; None: by default
    network: bool = False,  # one reconstructs the scan, too
) -> None:
    """Refuse a scan that needs more memory than there is; patterns and regions stay in files."""
    near = np.delete(scan.positions, isolated(scan.positions), axis=0)
    M = scan.object_size - int(np.ptp(scan.positions, axis=0).max() - np.ptp(near, axis=0).max())
    modes = modes or (1 if scan.probe is None else len(scan.probe))
    phases = {f"solves {name}": solver_parts(len(near), scan.N, modes, M, block)}
    if network:
        phases[f"reconstructs {name}"] = [
            Part("the object, its stitching and its figures", 400 * M**2, OF_A_SCANNED_OBJECT)
        ]
    check_memory(phases)
