"""Determine rotation and scale of the positions of a scan against the detector.

The lenses of an electron microscope rotate the beam, so that the rotation is not known beforehand: it is
estimated unless ``data.rotation_deg`` specifies it: from the patterns, or else by trials under a specified
probe. In other scans a rotation or a scale that explains the patterns clearly better is applied with
``data.orientation=auto``, and otherwise reported with a flag. A map with a shear is neither a rotation of the
detector nor a wrong unit, but a drift; it is corrected like other errors of the stage
(:mod:`ptycho.align.align_scan`).

A rotation by 180° changes the sign of the object's phase and of the probe's curvature. If the probe is
specified, it decides. Otherwise the phase of an electron's object decides: atoms increase it, so that its
distribution is skewed to large values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ptycho.align.affine_map import PositionMap, find_map, turn_in
from ptycho.align.orientation import REVERSED
from ptycho.align.scan_rotation import parallax, scan_rotations
from ptycho.config.data import DataConfig
from ptycho.evaluation.trust import ORIENTATION, SCALE
from ptycho.preparation.prepare import ScanGeometry
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import Trial, TrialOptions, best_of, expected_noise, middle, trials_at
from ptycho.scan.comparison import TURNED, Rule
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.positions import rotation


@dataclass(frozen=True)
class GeometryOptions:
    """Limits of the tests of the positions by the patterns, before and after there is a probe."""

    patterns: int = 1000  # whose centres of mass are used
    curl: float = 0.2  # share of the curl that is left of a scan that is not mirrored, at most
    exact: float = 8.0  # degrees: error of a rotation from which the fit converges
    lead: float = 1.4  # of parallax over the next angle
    mirrored: float = 1.5  # of parallax of transposed patterns over others
    least_turn: float = 6.0  # degrees; a smaller rotation is found from none
    sheared: float = 0.02  # a smaller shear is not distinguished from none
    electrons_eV: float = 1.2e5  # above it the particles are electrons: no photons below 10 pm are used
    skewed: float = 0.2  # skewness of the phase from which its sign is determined
    curvatures: tuple[float, ...] = (1.0, 0.4, 0.65, 1.5)  # times that of parallax; a lattice has several
    steps: int = 12  # of the object, to decide about a rotation
    # of the patterns that decide about rotation and scale under a specified probe
    trial: TrialOptions = field(default_factory=lambda: TrialOptions(patterns=250))


OPTIONS = GeometryOptions()


@dataclass(frozen=True, eq=False)
class Alternative:
    """Positions that explain the patterns better than the nominal ones, and are not applied so far."""

    matrix: np.ndarray  # A, ``(2, 2)``, by which positions in object pixels would be multiplied
    probe: np.ndarray | None  # ``(N, N)`` that goes with it, where none was specified; else None
    drift: bool  # A is sheared
    applied: Finding  # the decision if they are applied,
    kept: Finding  # and if they are not
    deviance: float = np.inf  # per pixel, of held-out patterns in a short fit there; inf: not known


@dataclass(frozen=True, eq=False)
class Geometry:
    """Decisions about the positions; ``matrix`` and ``probe`` are applied (None: they stay)."""

    matrix: np.ndarray | None = None
    probe: np.ndarray | None = None
    decisions: tuple[Finding, ...] = ()
    alternative: Alternative | None = None
    reversed_probe: bool = False  # the probe P that stays becomes P*(−x)


@dataclass(frozen=True)
class CoarseRotation:
    """Rotation and mirroring that the patterns show before there is a probe."""

    degrees: float = 0.0  # rotation of the positions, up to 180°
    transposed: bool = False  # the patterns are mirrored against the positions
    unknown: bool = False  # nothing is determined
    curvatures: tuple[float, ...] = ()  # that the probe may have, in rad · pixel²; none: not determined

    @property
    def warning(self) -> str | None:
        """A warning with its remedy if patterns are mirrored or the rotation is undetermined; else None."""
        if self.transposed:
            return (
                "the patterns are mirrored against the positions: data.transpose=true, or one of "
                "data.flip_rows and data.flip_cols the other way"
            )
        if self.unknown:
            return "the rotation between scan and detector is not determined: set data.rotation_deg=…"
        return None


def rotation_is_open(scan: ScanGeometry, config: DataConfig) -> bool:
    """Return whether the rotation is estimated: for electrons, if ``data.rotation_deg`` is not specified."""
    return config.rotation_deg is None and of_electrons(scan, config)


def of_electrons(scan: ScanGeometry, config: DataConfig) -> bool:
    """Return whether a scan was measured with electrons."""
    return config.electrons_keV is not None or (scan.raw.energy_eV or 0) > OPTIONS.electrons_eV


def coarse_rotation(data: Dataset, is_open: bool, options: GeometryOptions = OPTIONS) -> CoarseRotation:
    """Return the start of the search for a map of the positions, in a scan of one object, without a probe.

    Args:
        is_open: the rotation is unknown.
    """
    count = len(data.positions)
    if count < TrialOptions.least or data.fresnel is not None:
        return CoarseRotation()
    some = data if count <= options.patterns else data.subset(data.central(options.patterns), 1)
    own, other = scan_rotations(some)
    if not is_open:
        sure = own.curl < options.curl and abs(own.degrees) > max(options.least_turn, 4 * own.error)
        return CoarseRotation(own.degrees if sure else 0.0)
    direct, mirrored = parallax(some)
    if mirrored.lead > options.lead and mirrored.height > options.mirrored * direct.height:
        return CoarseRotation(transposed=True)
    if direct.lead > options.lead:
        c = np.pi * data.N / direct.magnification
        curvatures = tuple(sign * f * c for f in options.curvatures for sign in (-1, 1))
        return CoarseRotation(direct.degrees, curvatures=curvatures)
    if own.error < options.exact and own.curl < options.curl:
        return CoarseRotation(own.degrees)
    return CoarseRotation(transposed=other.error < options.exact and other.curl < options.curl, unknown=True)


def find_geometry(
    scan: ScanGeometry,
    data: Dataset,
    config: DataConfig,
    degrees: float,
    known_probe: bool,
    fixed_probe: bool = False,
) -> Geometry:
    """Decide about the positions of a scan.

    Args:
        data: the scan under a probe, specified or estimated for positions rotated by ``degrees``.
        config: how the file was read.
        degrees: of :func:`coarse_rotation` or :func:`find_rotation`.
        known_probe: the probe is more than an estimate.
        fixed_probe: it is not refined, and so not reversed.
    """
    is_open, by_probe = rotation_is_open(scan, config), False
    if is_open and known_probe:
        degrees, by_probe = _half_turn(data, degrees)
    position_map = find_map(data, degrees, is_open)
    if position_map is None:
        return Geometry()
    if is_open:
        differs = _scale_explains(data, position_map) if known_probe else position_map.scale_differs
        return _of_electrons(scan, config, position_map, differs, known_probe, by_probe, fixed_probe)
    if not (position_map.turn_differs or position_map.scale_differs):
        return Geometry()
    matrix = clear_part(position_map)
    probe = None if known_probe else position_map.probe
    keys, gained = keys_of(matrix, scan, config), f"deviance × {np.exp(-position_map.gain.gain):.3f}"
    better = f"positions {position_map.text}, explain the patterns better: {gained}; {keys}"
    if config.orientation == "auto" and not position_map.by_shift:
        return Geometry(matrix, probe, (Finding("affine position correction", position_map.text, better),))
    applied = Finding(
        "affine position correction",
        f"a drift: {position_map.text}",
        f"{gained}; set {keys} to specify it, or data.position_jumps=false to keep the nominal positions",
    )
    flags = [SCALE] * position_map.scale_differs + [ORIENTATION] * position_map.turn_differs
    kept = Finding.warning(f"{better}, or data.orientation=auto", *flags)
    drift = position_map.shear_differs and not position_map.by_shift
    return Geometry(alternative=Alternative(matrix, probe, drift, applied, kept, position_map.deviance))


def _of_electrons(
    scan: ScanGeometry,
    config: DataConfig,
    position_map: PositionMap,
    scale_differs: bool,
    known_probe: bool,
    by_probe: bool,
    fixed_probe: bool,
) -> Geometry:
    """Apply the rotation; apply another scale with ``data.orientation=auto``, and otherwise report it."""
    skewness = position_map.skewness
    auto = config.orientation == "auto"
    scaled, matrix = auto and scale_differs, rotation(position_map.degrees)
    if scaled:
        sheared = position_map.shear > OPTIONS.sheared
        matrix = position_map.matrix if sheared else position_map.scale * matrix
    probe = None if known_probe else position_map.probe
    vague = abs(skewness) < OPTIONS.skewed
    of_probe = by_probe or (known_probe and (fixed_probe or vague))
    negated = skewness < 0 and not of_probe
    if negated:  # P*(−x), positions negated and the object O*(−x): the same patterns
        matrix = -matrix
        probe = None if probe is None else REVERSED.patterns(probe).conj()
    phase = f"the phase, which atoms make larger (skewness {abs(skewness):.2f})"
    why = "the initial probe" if of_probe else phase
    if negated and known_probe:
        why += ", by which the specified probe is reversed"
    value = f"{turn_in(matrix):.2f} ± {position_map.turn_error:.2f}°"
    value += f", scale {position_map.scale:.4f} ± {position_map.scale_error:.4f}"
    why = f"estimated from the patterns, the half turn from {why}; set data.rotation_deg=… to specify it"
    decisions = [Finding("rotation", value, why)]
    if not by_probe and vague:
        doubt = (
            f"rotation {value}: a further half turn explains the patterns equally well, and the phase of the "
            f"object hardly decides (skewness {abs(skewness):.2f}); set data.rotation_deg=…"
        )
        decisions.append(Finding.warning(doubt, ORIENTATION))
    other = None
    if scale_differs and not auto:
        scale = f"{position_map.scale:.4f} ± {position_map.scale_error:.4f} times in scale"
        keys = keys_of(position_map.scale * matrix, scan, config)
        better = f"positions {scale} explain the patterns better; {keys}, or data.orientation=auto"
        applied, kept = Finding("affine position correction", scale, keys), Finding.warning(better, SCALE)
        stretch = position_map.scale * np.eye(2)
        other = Alternative(stretch, probe, False, applied, kept, position_map.deviance)
    mapped = probe if scaled else None  # it belongs to the scale of the map
    return Geometry(matrix, mapped, tuple(decisions), other, negated and mapped is None)


def clear_part(position_map: PositionMap) -> np.ndarray:
    """Return what of the map ``(2, 2)`` is certain: rotation, scale, and all of it where it is sheared."""
    if position_map.shear > OPTIONS.sheared:
        return position_map.matrix
    turn = rotation(position_map.degrees if position_map.turn_differs else 0.0)
    return (position_map.scale if position_map.scale_differs else 1.0) * turn


def find_rotation(
    data: Dataset, step: float = 15.0, closer: float = 5.0, clear: Rule = Rule(5.0, 0.001)
) -> float | None:
    """Return the rotation of the positions under which the specified probe explains clearly most, or None.

    For patterns that show none without a probe: those of few electrons, or of a lattice. Angles are tried in
    steps of degrees, then ``closer`` to the best, which is compared with those more than a step away.
    """
    tried = _rotations(data)
    trials = list(side_by_side(tried, [*np.arange(-180.0, 180.0, step)]))
    best = best_of(trials).hypothesis
    near = best_of([*trials, *side_by_side(tried, [best - closer, best + closer])])
    off = [abs((trial.hypothesis - best + 180) % 360 - 180) for trial in trials]
    other = best_of([trial for trial, degrees in zip(trials, off, strict=True) if degrees > 1.1 * step])
    return float(near.hypothesis) if near.gain_over(other).passes(clear) else None


def _half_turn(data: Dataset, degrees: float, faint: Rule = Rule(10.0, 0.003)) -> tuple[float, bool]:
    """Return ``degrees`` or 180 more, by the initial probe; and whether the probe distinguishes them.

    It does if one explains far more, or more by the rule ``faint`` and all but photon noise.
    """
    tried = _rotations(data)
    own, other = sorted(map(tried, (degrees, degrees + 180)), key=lambda trial: trial.score)
    certain = own.gain_over(other).passes(TURNED)
    certain |= data.counts and own.explains_down_to_noise([other], expected_noise(data), faint)
    return own.hypothesis, certain


def _scale_explains(
    data: Dataset,
    position_map: PositionMap,
    steps: tuple[int, int] = (20, 40),
    rule: Rule = Rule(8.0, 0.002),
) -> bool:
    """Return whether the scale of a map explains more than one, under the specified probe of electrons.

    The map was found by few patterns, of which a refined probe also fits the noise. Here it is more, and the
    probe is refined from either.
    """
    if not position_map.scale_is_off:
        return False
    some, turn = _some(data), rotation(position_map.degrees)
    tried, scaled = trials_at(some, steps), position_map.scale * turn
    own = tried(some.positions @ turn.T, some.probe[0], None)
    return tried(some.positions @ scaled.T, position_map.probe, None).gain_over(own).passes(rule)


def _some(data: Dataset) -> Dataset:
    """Return the patterns that decide about rotation and scale."""
    return middle(data, OPTIONS.trial.count(data.N))


def _rotations(data: Dataset) -> Callable[[float], Trial]:
    """Return a trial of some patterns at positions rotated by an angle in degrees, of the object alone."""
    some = _some(data)
    tried = trials_at(some, (OPTIONS.steps, 0))
    return lambda angle: tried(some.positions @ rotation(angle).T, None, angle)


def keys_of(matrix: np.ndarray, scan: ScanGeometry, config: DataConfig) -> str:
    """Return what must be set to have positions in object pixels multiplied by a matrix ``(2, 2)``."""
    pitch = np.array((1.0, 1.0) if scan.pixel.metres is None else scan.pixel.metres)
    own = rotation(config.rotation_deg or 0.0)
    before = own if config.scan_affine is None else np.array(config.scan_affine) @ own
    whole = pitch[:, None] * matrix / pitch @ before
    degrees = round(turn_in(whole), 3)
    rest = whole @ rotation(-degrees)
    keys = [f"data.rotation_deg={degrees:g}"] if abs(degrees - (config.rotation_deg or 0.0)) > 1e-2 else []
    if np.abs(rest - np.eye(2)).max() > 1e-3:
        rows = ",".join("[" + ",".join(f"{value:.5g}" for value in row) + "]" for row in rest.round(6) + 0.0)
        keys.append(f"data.scan_affine=[{rows}]")
    return " ".join(keys)
