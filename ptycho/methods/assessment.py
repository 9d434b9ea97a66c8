"""How far a reconstruction of a measured scan can be trusted: assessed, and compared with what is known."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.ndimage import binary_erosion

from ptycho.config.waves import wavelength_m
from ptycho.evaluation import metrics, scan_figures
from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.caustic import Caustic, caustic
from ptycho.evaluation.display import residues
from ptycho.evaluation.frc import DIRECTIONS
from ptycho.evaluation.raster import LIMITS as RASTER_LIMITS
from ptycho.evaluation.raster import raster_artefact
from ptycho.evaluation.trust import (
    IN_NOISE,
    LIMITS,
    NOT_CONVERGED,
    OUTSIDE,
    RASTER,
    Evidence,
    noise_share,
    outside_training,
)
from ptycho.methods.half_scans import Halves
from ptycho.methods.prepared import Prepared
from ptycho.preparation.prepare import ScanGeometry
from ptycho.progress import silent
from ptycho.reconstruction.causes import CauseLimits, Causes, score_fit
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.reconstruction.misfit import Misfit, Residuals, misfit, residuals
from ptycho.scan.beam import Beam
from ptycho.scan.coarser import on_finer_pixels
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import flags_of
from ptycho.scan.probe import energy_diameter
from ptycho.scan.ramp import levelled
from ptycho.scan.reconstruction import Reconstruction, covered, photon_noise

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Fit:
    """Fit of an object to the patterns that it was made from, and to those that were held out.

    ``residuals``, ``residuals_held_out``: what they miss of the patterns' variation. ``inspected``: indices
    of the patterns that ``used`` and ``residuals`` are of, among those that were fitted. ``causes``: what the
    misfit of a solver's fit looks like; None: photons were not counted.
    """

    used: Misfit
    held_out: Misfit | None
    residuals: Residuals
    residuals_held_out: Residuals | None
    inspected: np.ndarray
    causes: Causes | None = None


def assess_fit(reconstruction: Reconstruction, prepared: Prepared) -> Fit:
    """Assess it by the fitted patterns, and by those that were held out, before they were fitted, too."""
    before, solved = reconstruction.before or reconstruction, reconstruction.fit
    beam = prepared.beam_under(before)
    used, held_out = prepared.fitted(beam), prepared.left_out(beam)
    mean = used.amplitudes.statistics.mean_intensity

    def compare(data: Dataset) -> tuple[Misfit, Residuals]:
        some = spread(len(data.positions))
        return misfit(before.layers, data, some), residuals(before.layers, data, mean, some)

    explained, missed = compare(used)
    of_held_out = (None, None) if held_out is None else compare(held_out)
    causes = None
    if isinstance(solved, Solved):
        some = used.subset(spread(len(used.positions), CauseLimits.patterns), 1)
        likelihood = replace(solved.objective.likelihood, data=some, advance=silent)
        causes = score_fit(before.layers, likelihood)
    return Fit(explained, of_held_out[0], missed, of_held_out[1], spread(len(used.positions)), causes)


def spread(count: int, most: int = 4096) -> np.ndarray:
    """Return indices ``(n,)`` of ``count`` patterns, n ≤ ``most``, spread without the period of a raster."""
    if count <= most:
        return np.arange(count)
    golden = (5**0.5 - 1) / 2
    return np.sort(np.argsort(np.arange(count) * golden % 1, kind="stable")[:most])


def compare_with_truth(reconstruction: Reconstruction, prepared: Prepared) -> dict[str, Any] | None:
    """Score against the object that the file brings, registered; None where it brings none of this scale.

    An object whose pixel is not stated has that of all of the file's detector. It is interpolated where the
    reconstruction has finer pixels. Scored is a rectangle of the covered part, without the poorly illuminated
    rim.
    """
    truth, ratio = prepared.scan.raw.object, pixel_ratio(prepared.scan)
    if truth is None or ratio is None:
        return None
    truth = truth if ratio == 1 else on_finer_pixels(truth, ratio)
    data = prepared.fitted(prepared.beam_under(reconstruction))
    region = metrics.Region(*data.tiling.rectangle)
    image, mask = region.crop(reconstruction.object), region.crop(reconstruction.covered)
    if not np.isfinite(image).all() or not image[mask].any():
        return None
    known, there = in_frame(truth, np.where(mask, levelled(image, mask), 0), mask)
    # half a probe at the edge is left out; of a near field, where illumination is below half of its maximum
    if data.fresnel is not None:
        there_well = there & region.crop(bright(data, 0.5))
    else:
        there_well = binary_erosion(there, iterations=round(energy_diameter(data.probe) / 2))
    part = _largest(there_well)
    if part is None:
        return None
    return metrics.score(image[part], known[part], there[part], metrics.Region(0, 0, *known[part].shape))


def pixel_ratio(scan: ScanGeometry, most: float = 1.6) -> float | None:
    """Return the pixel of the file's object over that of the reconstruction; None: too different to compare.

    Ratios within a hundredth of one are one; ``most``: that of finer pixels.
    """
    size, ours = scan.raw.object_pixel_m, scan.pixel.metres
    if ours and size:
        ratios = {a / b for a, b in zip(size, ours, strict=True)}
    else:
        ratios = {scan.N * scan.detector.bin / side for side in scan.raw.patterns.shape[1:]}
        ratios = {min(ratios, key=lambda ratio: abs(ratio - 1))}  # of a detector that is not square
    if max(ratios) - min(ratios) > 0.01 or not 0.99 < min(ratios) < most:
        return None
    return 1.0 if max(ratios) < 1.01 else max(ratios)


def _largest(known: np.ndarray) -> tuple[slice, slice] | None:
    """A rectangle of known pixels: the bounding box, cut on all sides until it holds nothing else."""
    rows, cols = (np.flatnonzero(known.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return None
    top, bottom, left, right = rows[0], rows[-1] + 1, cols[0], cols[-1] + 1
    while not known[top:bottom, left:right].all():
        top, bottom, left, right = top + 1, bottom - 1, left + 1, right - 1
        if min(bottom - top, right - left) < metrics.SSIM_WINDOW:
            return None
    return slice(top, bottom), slice(left, right)


def trust_row(
    fit: Fit,
    reconstruction: Reconstruction,
    prepared: Prepared,
    solver: float | None = None,
    halves: Halves | None = None,
) -> dict[str, Any]:
    """Return the row of a reconstruction in ``metrics.json``; ``solver``: R-factor of its object, if any."""
    used, held_out = fit.used, fit.held_out
    last, beam = held_out or used, prepared.beam_under(reconstruction)
    data = prepared.fitted(beam)
    region = metrics.Region(*data.tiling.rectangle)
    evidence = evidence_of(fit, halves)
    flags = evidence.flags
    apart = None if reconstruction.disagreement is None else float(reconstruction.disagreement[0])
    if reconstruction.general and outside_training(last.r_factor, last.r_noise, apart, solver):
        flags.append(OUTSIDE)
    if not reconstruction.converged:
        flags.append(NOT_CONVERGED)
    share = share_of_noise(reconstruction, data, region)
    if share is not None and not share <= LIMITS.noise_share:  # NaN, too
        flags.append(IN_NOISE)
    level, illuminated = well_illuminated_part(reconstruction, data)
    artefact = raster_artefact(level, illuminated, data.positions[data.image == 0])
    if artefact is not None and artefact.contrast > RASTER_LIMITS.contrast:
        flags.append(RASTER)
    flags += flags_of((*prepared.decisions, *reconstruction.decisions))
    return {
        "r_factor": used.r_factor,
        "r_free": None if held_out is None else held_out.r_factor,
        "r_noise": used.r_noise,
        "deviance": used.mean_deviance,
        "deviance_holdout": None if held_out is None else held_out.mean_deviance,
        "unexplained_variance": _finite(evidence.unexplained_variance),
        "unexplained_variance_p90": _finite(evidence.unexplained_variance_p90),
        "unexplained_variance_holdout": _finite(evidence.unexplained_variance_holdout),
        "variation_certainty": _finite(evidence.certainty),
        **({} if apart is None or not np.isfinite(apart) else {"disagreement": apart}),
        "noise_share": share,
        **({} if fit.causes is None else {"misfit_causes": cause_facts(fit.causes)}),
        **({} if reconstruction.errors is None else {"error_map": typical_errors(reconstruction, data)}),
        "phase_residues": len(residues(np.where(illuminated, np.angle(level), np.nan))),
        "raster_artefact": None if artefact is None else asdict(artefact),
        "uncovered_fraction": float(1 - region.crop(reconstruction.covered).mean()),
        "flags": list(dict.fromkeys(flags)),
        "beam": beam_facts(beam, prepared.whole.beam),
    }


def assessment_arrays(
    prepared: Prepared,
    recons: dict[str, Reconstruction],
    fits: dict[str, Fit],
    halves: Halves | None,
) -> dict[str, np.ndarray]:
    """Return the arrays behind the scores, for ``assessment.npz``; patterns are indices into the scan's.

    ``<name>_holdout_deviance (n,)`` is the squared misfit without counts, ``<name>_misfit_by_pixel (N, N)``
    the mean χ² of each detector pixel.
    """
    arrays = {"nominal_positions": prepared.whole.beam.positions, "held_out": prepared.out}
    if halves is not None:
        arrays |= {"frequency": halves.frequency, "correlation": halves.correlation}
        arrays |= {f"correlation_{key}": halves.by_axis[k] for k, key in enumerate(DIRECTIONS)}
    for name, fit in fits.items():
        used, reconstruction = fit.used, recons[name]
        arrays[f"{name}_patterns"] = prepared.kept[fit.inspected]
        arrays[f"{name}_r_factor"] = used.residual / np.maximum(used.measured, 1e-30)
        if fit.causes is not None:
            arrays[f"{name}_misfit_by_pixel"] = fit.causes.by_pixel.astype(np.float32)
        if fit.held_out is not None:
            arrays[f"{name}_holdout_patterns"] = prepared.out[spread(len(prepared.out))]
            arrays[f"{name}_holdout_deviance"] = fit.held_out.unexplained
        if reconstruction.course:
            arrays[f"{name}_course"] = np.array(reconstruction.course)
    return arrays


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def evidence_of(fit: Fit, halves: Halves | None) -> Evidence:
    """Return the values from which the flags of a reconstruction are derived."""
    missed = fit.residuals_held_out
    return Evidence(
        unexplained_variance=fit.residuals.share,
        unexplained_variance_p90=fit.residuals.worst_tenth,
        unexplained_variance_holdout=None if missed is None else missed.share,
        unexplained_variance_holdout_error=0.0 if missed is None else missed.share_error,
        certainty=fit.residuals.certainty,
        r_factor=fit.used.r_factor,
        r_noise=fit.used.r_noise,
        r_free=(fit.held_out or fit.used).r_factor,
        r_noise_free=(fit.held_out or fit.used).r_noise,
        halves=None if halves is None else halves.agree_to,
        halves_by_photons=1.0 if halves is None else halves.by_photons,
    )


def cause_facts(causes: Causes) -> dict[str, Any]:
    """Return the causes in numbers of five digits, for ``metrics.json``: sums differ by rounding."""
    shares = {name: gain / max(causes.excess, gain) for name, gain in causes.gains.items()}
    both = [{name: float(f"{one:.5g}") for name, one in values.items()} for values in (causes.gains, shares)]
    return {"likely": causes.named(), "gain": both[0], "share": both[1]}


def share_of_noise(reconstruction: Reconstruction, data: Dataset, region: metrics.Region) -> float | None:
    """Return :func:`ptycho.evaluation.trust.noise_share` of the first object; None: no photons counted."""
    known = region.crop(reconstruction.covered)
    if not data.counts or not known.any():
        return None
    return noise_share(region.crop(reconstruction.object)[known], region.crop(photon_noise(data)[0])[known])


def well_illuminated_part(reconstruction: Reconstruction, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the strongly illuminated ``(h, w)`` of the object, without its phase plane, and its mask."""
    illuminated = reconstruction.covered & bright(data)
    part = scan_figures.box_of(illuminated)
    return levelled(reconstruction.object[part], illuminated[part]), illuminated[part]


def typical_errors(reconstruction: Reconstruction, data: Dataset) -> dict[str, float | None]:
    """Return medians of the error map where the illumination is strong, the amplitude's over its mean."""
    assert reconstruction.errors is not None
    illuminated = reconstruction.covered & bright(data)
    if not illuminated.any():
        return {"amplitude": None, "phase_rad": None}
    mean = max(float(np.abs(reconstruction.object[illuminated]).mean()), 1e-30)
    amplitude = np.median(reconstruction.errors.amplitude[0][illuminated]) / mean
    phase = np.median(reconstruction.errors.phase[0][illuminated])
    return {"amplitude": _finite(float(amplitude)), "phase_rad": _finite(float(phase))}


def beam_facts(beam: Beam, initial: Beam) -> dict[str, Any]:
    """Return what was found besides the object, in numbers, against the initial beam."""
    power = np.sum(np.abs(beam.probe) ** 2, axis=(1, 2), dtype=float)
    moves = (beam.positions - initial.positions).astype(float)
    return {
        "mode_shares": (power / power.sum()).tolist(),
        "opr_modes": 0 if beam.opr_modes is None else len(beam.opr_modes),
        "probe_variation": beam.variation,
        "position_correction_rms_px": float(np.sqrt(np.mean((moves - moves.mean(axis=0)) ** 2))),
        "flux_rms": float(np.std(beam.flux.astype(float) ** 2)),
        "background_per_pixel": None if beam.background is None else float(beam.background.mean()),
        "point_spread_px": None if beam.point_spread is None else beam.point_spread.tolist(),
    }


def probe_caustic(prepared: Prepared, reconstruction: Reconstruction) -> Caustic | None:
    """Return the caustic of the strongest probe mode; None: a near field, or lengths are unknown."""
    scan, probe = prepared.scan, prepared.beam_under(reconstruction).probe[0]
    energy, pixel = scan.raw.energy_eV, scan.pixel.metres
    if scan.near_field is not None or energy is None or pixel is None or not probe.any():
        return None
    return caustic(probe, wavelength_m(energy), pixel) if np.isfinite(probe).all() else None


def picture_of(reconstruction: Reconstruction, prepared: Prepared) -> scan_figures.Picture:
    """Return the picture of a reconstruction within its well illuminated part, with its first probe mode."""
    probe = prepared.beam_under(reconstruction).probe[0]
    illuminated = well_illuminated(reconstruction, prepared)
    return scan_figures.Picture.of(reconstruction.object, reconstruction.covered, illuminated, probe)


def well_illuminated(reconstruction: Reconstruction, prepared: Prepared) -> np.ndarray:
    """Return where an object is strongly illuminated, ``(M, M)`` bool."""
    return bright(prepared.fitted(prepared.beam_under(reconstruction)))


def bright(data: Dataset, share: float = 0.1) -> np.ndarray:
    """Return where the illumination is above a ``share`` of its maximum, ``(M, M)`` bool."""
    return covered(data, share)[0]
