"""The positions of a scan against the detector: how they are turned and scaled, told or found.

Electrons are turned by their lenses, so that nobody knows the rotation beforehand: it is found wherever
``data.rotation_deg`` does not state it. Of other scans a rotation or a scale that explains the patterns
clearly better is taken with ``data.orientation=auto``, and else told, with a flag; unless it is sheared: that
is no turn of the detector and no wrong unit, but a drift, which is taken as other errors of the stage are
(:mod:`~ptycho.methods.slips`).

A turn by 180° is a change of sign of the object's phase and of the probe's curvature. Where the probe is
told, it decides; else an electron's phase does, which atoms make larger, so that its distribution is skewed
to large values.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from ptycho.config.data import DataConfig
from ptycho.evaluation.trust import ORIENTATION, SCALE
from ptycho.preparation.prepare import Understood
from ptycho.reconstruction.deflection import turns
from ptycho.reconstruction.misfit import misfit
from ptycho.reconstruction.orientation import COUNT, LESS_TURNED, reverse_about_zero
from ptycho.reconstruction.position_map import FEWEST, PositionMap, find_map, turn_in
from ptycho.reconstruction.shadows import shadows
from ptycho.reconstruction.short_fit import fit_shortly, middle, place_anew
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.positions import rotation

log = logging.getLogger(__name__)

LOOKED_AT = 1000  # patterns whose centres of mass are taken
TOLD = 0.2  # of the curl: more is left of a scan that is mirrored, or of no gradient
EXACT = 8.0  # degrees: the error of a turn from which the fit finds its way
LEAD, MIRRORED = 1.4, 1.5  # of shadows: over the next angle, and of transposed patterns over others
LEAST_TURN = 6.0  # degrees; what is less is found from none
SHEARED = 0.02  # a shear that is less is not told from none
ELECTRONS_EV = 1.2e5  # as a photon energy: below 10 pm no photons are measured
SKEWED = 0.2  # of the phase, from which its sign is told
PHASE = "the phase, which atoms make larger (skewness {:.2f})"
CURVATURES = (1.0, 0.4, 0.65, 1.5)  # times the one that shadows tell: a lattice has others as good
STEPS = 12  # of the object, to tell a turn by 180°


@dataclass(frozen=True, eq=False)
class Other:
    """Positions that explain the patterns better than those that were told, and were not taken so far.

    Attributes:
        matrix: A, ``(2, 2)``, by which positions in object pixels were to be multiplied.
        probe: ``(N, N)`` that goes with it, where none was told; else None.
        drift: A is sheared.
        finding: for the results, if they are taken.
        warning, doubts: if they are not.
    """

    matrix: np.ndarray
    probe: np.ndarray | None
    drift: bool
    finding: Finding
    warning: str
    doubts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Geometry:
    """What became of the positions.

    Attributes:
        matrix, probe: as of :class:`Other`, but taken; None: they stay.
        findings, warnings, doubts: for the log and the results.
        other: what would explain more.
    """

    matrix: np.ndarray | None = None
    probe: np.ndarray | None = None
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    other: Other | None = None


@dataclass(frozen=True)
class Coarse:
    """What a look at the patterns tells, before there is a probe.

    Attributes:
        degrees: by which the positions are turned, a half turn aside.
        transposed: the patterns are mirrored against the positions.
        unknown: nothing is told.
        curvatures: that the probe may have, in rad · pixel²; none: not told.
    """

    degrees: float = 0.0
    transposed: bool = False
    unknown: bool = False
    curvatures: tuple[float, ...] = ()

    @property
    def warning(self) -> str | None:
        if self.transposed:
            return (
                "the patterns are mirrored against the positions: data.transpose=true, or one of "
                "data.flip_rows and data.flip_cols the other way"
            )
        if self.unknown:
            return "the rotation between scan and detector is not determined: set data.rotation_deg=…"
        return None


def rotation_is_open(scan: Understood, config: DataConfig) -> bool:
    """Whether the rotation is to be found: that of electrons, where nobody states it."""
    electrons = config.electrons_keV is not None or (scan.raw.energy_eV or 0) > ELECTRONS_EV
    return config.rotation_deg is None and electrons


def coarse_turn(data: Dataset, is_open: bool) -> Coarse:
    """From where the map of positions is looked for.

    Args:
        data: a scan of one object; its probe has no say.
        is_open: the rotation is unknown.
    """
    if len(data.positions) < FEWEST or data.fresnel is not None:
        return Coarse()
    some = data if len(data.positions) <= LOOKED_AT else data.subset(data.central(LOOKED_AT), 1)
    if not is_open:
        own, _ = turns(some)
        sure = own.curl < TOLD and abs(own.degrees) > max(LEAST_TURN, 4 * own.error)
        return Coarse(own.degrees if sure else 0.0)
    thrown, mirrored = shadows(some)
    if mirrored.lead > LEAD and mirrored.height > MIRRORED * thrown.height:
        return Coarse(transposed=True)
    if thrown.lead > LEAD:
        c = np.pi * data.N / thrown.magnification
        return Coarse(thrown.degrees, curvatures=tuple(sign * f * c for f in CURVATURES for sign in (-1, 1)))
    own, other = turns(some)
    if own.error < EXACT and own.curl < TOLD:
        return Coarse(own.degrees)
    return Coarse(transposed=other.error < EXACT and other.curl < TOLD, unknown=True)


def find_geometry(
    scan: Understood, data: Dataset, config: DataConfig, degrees: float, told_probe: bool
) -> Geometry:
    """What the patterns say of the positions.

    Args:
        data: the scan under a probe, told or guessed for positions turned by ``degrees``.
        config: how the file was read.
        degrees: of :func:`coarse_turn`.
        told_probe: whether the probe is more than a guess.
    """
    is_open, by_probe = rotation_is_open(scan, config), False
    if is_open and told_probe:
        degrees, by_probe = _half_turn(data, degrees)
    found = find_map(data, degrees, is_open)
    if found is None:
        return Geometry()
    if is_open:
        return _of_electrons(scan, config, found, told_probe, by_probe)
    if not (found.turn_differs or found.scale_differs):
        return Geometry()
    matrix = clear_part(found)
    probe = None if told_probe else found.probe
    keys, gained = keys_of(matrix, scan, config), f"deviance × {np.exp(-found.gain.gain):.3f}"
    told = f"positions {found.text}, explain the patterns better: {gained}; {keys}"
    if config.orientation == "auto" and not found.by_shift:
        return Geometry(matrix, probe, (Finding("affine position correction", found.text, told),))
    taken = Finding(
        "affine position correction",
        f"a drift: {found.text}",
        f"{gained}; set {keys} to specify it, or data.position_jumps=false to keep the nominal positions",
    )
    doubts = [SCALE] * found.scale_differs + [ORIENTATION] * found.turn_differs
    warning = f"{told}, or data.orientation=auto"
    drift = found.shear_differs and not found.by_shift
    return Geometry(other=Other(matrix, probe, drift, taken, warning, tuple(doubts)))


def _of_electrons(
    scan: Understood, config: DataConfig, found: PositionMap, told_probe: bool, by_probe: bool
) -> Geometry:
    """Turned as they are found; another scale is taken if it is asked for, and else told."""
    auto = config.orientation == "auto"
    matrix = clear_part(found) if auto and found.scale_differs else rotation(found.degrees)
    opposite = not by_probe and found.skewness < 0
    why = "the initial probe" if by_probe else PHASE.format(abs(found.skewness))
    if opposite:
        matrix = -matrix
    probe = None if told_probe else _other_way(found.probe) if opposite else found.probe
    value = f"{turn_in(matrix):.2f} ± {found.turn_error:.2f}°"
    value += f", scale {found.scale:.4f} ± {found.scale_error:.4f}"
    finding = Finding(
        "rotation",
        value,
        f"estimated from the patterns, the half turn from {why}; set data.rotation_deg=… to specify it",
    )
    warnings, doubts = list[str](), list[str]()
    if not by_probe and abs(found.skewness) < SKEWED:
        warnings.append(
            f"rotation {value}: a further half turn explains the patterns equally well, and the phase of the "
            f"object hardly decides (skewness {abs(found.skewness):.2f}); set data.rotation_deg=…"
        )
        doubts.append(ORIENTATION)
    other = None
    if found.scale_differs and not auto:
        scale = f"{found.scale:.4f} ± {found.scale_error:.4f} times in scale"
        keys = keys_of(found.scale * matrix, scan, config)
        warning = f"positions {scale} explain the patterns better; {keys}, or data.orientation=auto"
        taken = Finding("affine position correction", scale, keys)
        other = Other(found.scale * np.eye(2), probe, False, taken, warning, (SCALE,))
    return Geometry(matrix, probe, (finding,), tuple(warnings), tuple(doubts), other)


def clear_part(found: PositionMap) -> np.ndarray:
    """Of the map ``(2, 2)``, what is surely there: turn, scale, and all of it where it is sheared."""
    if found.shear > SHEARED:
        return found.matrix
    turn = rotation(found.degrees if found.turn_differs else 0.0)
    return (found.scale if found.scale_differs else 1.0) * turn


def _half_turn(data: Dataset, degrees: float) -> tuple[float, bool]:
    """Degrees or 180 more, by the probe as it was told; and whether it can tell."""
    some, residuals = middle(data, COUNT), []
    for angle in (degrees, degrees + 180):
        positions = some.positions @ rotation(angle).T
        turned = place_anew(some, some.amplitudes[:], positions, some.good)
        residuals.append(misfit(*fit_shortly(turned, STEPS, 0)).r_factor)
    own, other = residuals
    return (degrees + 180 if other < own else degrees), min(residuals) < LESS_TURNED * max(residuals)


def _other_way(probe: np.ndarray) -> np.ndarray:
    """``P*(−x)``, of which the positions' negative and the object ``O*(−x)`` give the same patterns."""
    return reverse_about_zero(reverse_about_zero(probe, -2), -1).conj()


def keys_of(matrix: np.ndarray, scan: Understood, config: DataConfig) -> str:
    """What must be set to have positions in object pixels multiplied by a matrix ``(2, 2)``."""
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


def with_warnings(scan: Understood, warnings: tuple[str, ...]) -> Understood:
    """The scan with warnings more, which are logged."""
    for warning in warnings:
        log.warning("%s", warning)
    return replace(scan, warnings=(*scan.warnings, *warnings))
