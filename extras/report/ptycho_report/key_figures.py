"""The figures at the top of a page, with units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ptycho.evaluation.caustic import waist_text
from ptycho.evaluation.display import length_text
from ptycho.report.gather import RunRecord, number
from ptycho.report.wording import advice_of


@dataclass(frozen=True)
class KeyFigure:
    """A number that matters, with its unit, and what it is."""

    label: str
    value: str
    means: str


def key_figures(record: RunRecord) -> Iterator[KeyFigure]:
    """Yield the figures at the top of a page; those that are not known are left out."""
    row, sizes = record.row, record.sizes
    if record.pixel_m:
        yield KeyFigure("pixel", length_text(1e9 * max(record.pixel_m)), "pitch of the object's pixels")
    if (text := precision_text(record)) and not any(one.wrong for one in advice_of(row)):
        what = "half period up to which two halves of the scan agree (FRC 0.5), where there are photons; "
        yield KeyFigure("half-scan precision", text, what + "errors that both halves share are not detected")
    count, side = number(sizes.get("patterns")), number(sizes.get("N"))
    if count and side:
        yield KeyFigure(
            "patterns", f"{count:.0f} of {side:.0f} × {side:.0f}", "diffraction patterns that were used"
        )
    focus = row.get("probe_focus")
    if isinstance(focus, dict) and focus.keys() >= {"distance_m", "fwhm_m", "depth_of_field_m"}:
        facts = {name: number(value) for name, value in focus.items()}
        yield KeyFigure(
            "probe waist", waist_text(facts), "full width at half maximum where the beam is narrowest"
        )
    r_factor, noise, r_free = (number(row.get(name)) for name in ("r_factor", "r_noise", "r_free"))
    if r_factor is not None:
        against = "" if noise is None else f", noise alone {noise:.3f}"
        what = "share of the amplitudes left unexplained; lower is better"
        yield KeyFigure("misfit R", f"{r_factor:.3f}{against}", what)
    if r_free is not None:
        what = "the same of patterns that the image was not fitted to"
        yield KeyFigure("R_free, held out", f"{r_free:.3f}", what)
    ssim = row.get("ssim")
    if isinstance(ssim, list) and len(ssim) == 2:
        values = ", ".join("none" if number(one) is None else f"{one:.3f}" for one in ssim)
        yield KeyFigure("SSIM", values, "likeness to the truth, amplitude and phase; 1 is the same")
    if record.seconds is not None:
        yield KeyFigure("time", time_text(record.seconds), "wall time of the whole run")


def precision_text(record: RunRecord) -> str:
    """Return the half period at which two halves of the scan stop to agree; empty where it is unknown."""
    halves = record.metrics.get("half_scan_frc")
    if not isinstance(halves, dict):
        return ""
    kind = "precision" if "precision_px" in halves else "frc50"  # the latter in runs of former versions
    metres, pixels = number(halves.get(f"{kind}_m")), number(halves.get(f"{kind}_px"))
    if metres is not None:
        return length_text(1e9 * metres)
    if pixels is not None:
        return f"{pixels:.3g} px"
    return f"at the pixel, {length_text(1e9 * max(record.pixel_m))}" if record.pixel_m else "at the pixel"


def time_text(seconds: float) -> str:
    """Return a duration as text in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
