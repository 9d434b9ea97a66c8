"""Compare runs of one scan by their scores on held-out patterns, and align them for pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptycho.evaluation import metrics
from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.display import WRAPPED, ShownPhase, show_phase
from ptycho.evaluation.figures import draw_correlations
from ptycho.evaluation.frc import Curve, frc
from ptycho.evaluation.scan_figures import Ends, ends_of, phase_ends
from ptycho.report.gather import GRID_LINES, number
from ptycho.scan.comparison import DIFFERENT, compare
from ptycho.scan.ramp import levelled
from ptycho_report.entries import Entry, held_out_of
from ptycho_report.pictures import DIVERGING, GREY, Picture, coloured, coloured_phase
from ptycho_report.scan_charts import Chart, chart
from ptycho_report.stored_recon import StoredRecon, read_recon


@dataclass(frozen=True, eq=False)
class Seen:
    """A reconstruction in the frame of the best of its scan: pictures, and the text under them."""

    entry: Entry
    verdict: str  # which is better, and whether by more than chance
    note: str = ""  # why there is no picture, or why it is not aligned
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # with the scales of the best; differences
    off: tuple[np.ndarray, ...] = ()  # differences of amplitude and phase to the best's, (h, w)
    curve: Curve | None = None  # ring correlation with the best


@dataclass(frozen=True)
class Group:
    """The entries of one scan, the best first; ``chart``: ring correlation of the others with the best."""

    title: str
    by: str
    seen: tuple[Seen, ...]
    chart: Chart | None


def group_entries(entries: Sequence[Entry]) -> list[Group]:
    """Group the entries of one scan; of scans that only one run has there is no group."""
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        if entry.record.product:
            groups.setdefault(entry.same_scan, []).append(entry)
    return [_group(same) for same in groups.values() if len(same) > 1]


def score_of(entry: Entry) -> tuple[float, str]:
    """Return what entries of a scan are ordered by, the smallest first, and what it is called."""
    if entry.record.kind == GRID_LINES:
        ssim = entry.record.row.get("ssim")
        values = map(number, ssim if isinstance(ssim, list) else [])
        known = [value for value in values if value is not None]
        return (-float(np.mean(known)) if known else np.inf), "mean SSIM with the truth"
    for name, text in (
        ("deviance_holdout", "deviance of the held-out patterns"),
        ("r_free", "R-factor of the held-out patterns"),
        ("r_factor", "R-factor"),
    ):
        if (value := number(entry.record.row.get(name))) is not None:
            return value, text
    return np.inf, "nothing that was stored"


def _group(entries: list[Entry]) -> Group:
    by = [score_of(entry)[1] for entry in entries]
    common = next((name for name in by if by.count(name) == len(by)), "")
    if common:  # of equals the one that can be compared pattern by pattern
        ordered = sorted(entries, key=lambda entry: (score_of(entry)[0], held_out_of(entry) is None))
    else:
        ordered = entries
    best, product = ordered[0], _product(ordered[0])
    title = best.record.scan if best.record.kind != GRID_LINES else "test images of one truth"
    if product is None:
        rows = [Seen(entry, verdict(entry, best), "not readable") for entry in ordered]
        return Group(title, common, tuple(rows), None)
    frame = Frame.of(product, best.record.pixel_nm)
    every = [align_to(frame, entry, best) for entry in ordered]
    ends = frame.grey, frame.colour
    limits = [_limit([one.off[k] for one in every if one.off], ends[k]) for k in (0, 1)]
    seen = [replace(one, pictures={**one.pictures, **frame.differences(one.off, limits)}) for one in every]
    curves = {one.entry.label: one.curve for one in every if one.curve}
    return Group(title, common, tuple(seen), _agreement(curves))


def _agreement(curves: dict[str, Curve], most: int = 6) -> Chart | None:
    """Ring correlations of at most so many reconstructions with the best; None where there are none."""
    if not curves:
        return None
    curves = dict([*curves.items()][:most])
    text = (
        "How far two reconstructions agree, by spatial frequency: near one where both show the same. It says "
        "that they agree, not that they are right: both were fitted to the same patterns."
    )
    return chart("Ring correlation with the best", text, lambda axes: draw_correlations(axes, curves))


def _limit(parts: list[np.ndarray], ends: Ends, share: float = 1e-3, quantile: float = 0.99) -> float:
    """One scale for all differences of a kind, by the middle one of those above a ``share`` of the scale."""
    least = share * (ends[1] - ends[0])
    large = [float(np.nanquantile(np.abs(part), quantile)) for part in parts]
    return float(np.median([value for value in large if value > least] or [least]))


def verdict(entry: Entry, best: Entry, fewest: int = 3) -> str:
    """Return how an entry stands against the best of its scan, in words, with the error of the difference.

    The patterns that both held out are compared pairwise; of fewer than ``fewest`` nothing is said.
    """
    if entry is best:
        return "the best of these"
    if entry.record.kind == GRID_LINES:
        mine, theirs = -score_of(entry)[0], -score_of(best)[0]
        return f"mean SSIM {mine:.4f} against {theirs:.4f}; of one seed, without an error"
    own, other = held_out_of(entry), held_out_of(best)
    if own is None or other is None:
        return "cannot be compared: a run did not store the deviance of each held-out pattern"
    shared, first, second = np.intersect1d(own[0], other[0], return_indices=True)
    if len(shared) < fewest:
        return "cannot be compared: the runs held out different patterns (seed, holdout_fraction)"
    result = compare(other[1][second], own[1][first])
    better = "worse" if result.passes(DIFFERENT) else "no difference beyond its error"
    gain = f"{result.gain:.4g} ± {result.error:.2g} more deviance per pixel"
    return f"{better}: {gain} on {len(shared)} patterns that both held out"


@dataclass(frozen=True, eq=False)
class Frame:
    """The part of the best object that the others are brought to, with the scales of all pictures."""

    image: np.ndarray  # (h, w) complex, with a level phase
    mask: np.ndarray  # (h, w) bool
    phase: ShownPhase  # of the image, as it is shown
    grey: Ends  # of the scale of amplitudes
    colour: Ends  # of that of phases
    pixel_nm: float | None  # pitch of the pixels, if it is known

    @classmethod
    def of(cls, made: StoredRecon, pixel_nm: float | None) -> Frame:
        """Return the frame of the best reconstruction; ``pixel_nm``: its pitch, if known."""
        image, mask = level_part(made)
        phase = show_phase(np.where(mask, np.angle(image), np.nan))
        return cls(image, mask, phase, ends_of(np.abs(image[mask])), phase_ends(phase), pixel_nm)

    def draw(self, image: np.ndarray, mask: np.ndarray, phase: ShownPhase) -> dict[str, Picture]:
        """Draw amplitude and phase ``(h, w)`` with these scales; where one is wrapped, with its own."""
        alike = (phase.kind == WRAPPED) == (self.phase.kind == WRAPPED)
        ends, amplitude = self.colour if alike else phase_ends(phase), np.where(mask, np.abs(image), np.nan)
        return {
            "amplitude": coloured(amplitude, self.grey, GREY, "", self.pixel_nm),
            "phase": coloured_phase(phase, ends, self.pixel_nm),
        }

    def differences(self, off: Sequence[np.ndarray], limits: Sequence[float]) -> dict[str, Picture]:
        """Draw differences ``(h, w)`` of amplitude and phase up to ``limits``."""
        kinds = ("amplitude, difference", ""), ("phase, difference", "rad")
        return {
            name: coloured(part, (-limit, limit), DIVERGING, unit, self.pixel_nm)
            for part, limit, (name, unit) in zip(off, limits, kinds, strict=False)
        }


def _product(entry: Entry) -> StoredRecon | None:
    return read_recon(entry.record.path, entry.record.product)


def level_part(made: StoredRecon) -> tuple[np.ndarray, np.ndarray]:
    """Return the well illuminated ``(h, w)`` of an object, or its middle, with level phase, and its mask."""
    rows, cols = (np.flatnonzero(made.illuminated.any(axis=axis)) for axis in (1, 0))
    part = _middle(rows), _middle(cols)
    image, mask = made.object[part], made.illuminated[part]
    if not mask.any():
        return image, mask
    return np.where(mask, levelled(image, mask), 0), mask


def _middle(indices: np.ndarray, most: int = 512) -> slice:
    first, last = (int(indices[0]), int(indices[-1]) + 1) if len(indices) else (0, 1)
    spare = max(0, last - first - most)
    return slice(first + spare // 2, last - (spare - spare // 2))


def align_to(frame: Frame, entry: Entry, best: Entry, same_pixel: float = 0.01, overlap: float = 0.2) -> Seen:
    """Return the product of an entry, moved by parts of a pixel, scaled, and levelled against the best's.

    Not if their pixels differ by more than ``same_pixel`` of them, or it shows less than ``overlap`` of it.
    """
    product, seen = _product(entry), Seen(entry, verdict(entry, best))
    if product is None:
        return replace(seen, note="its object cannot be read")
    image, mask = level_part(product)
    phase = show_phase(np.where(mask, np.angle(image), np.nan))
    seen = replace(seen, pictures=frame.draw(image, mask, phase))
    if entry is best or not mask.any():
        return seen
    one, two = entry.record.pixel_nm, best.record.pixel_nm
    if one is not None and two is not None and abs(one / two - 1) > same_pixel:
        return replace(seen, note=f"other pixel, {one:.4g} nm against {two:.4g} nm: not aligned")
    placed, known = in_frame(image, frame.image, frame.mask, mask)
    if known.sum() < overlap * frame.mask.sum():
        return replace(seen, note="shows another place: not aligned")
    aligned = metrics.align(placed, frame.image, known).object
    parts = np.abs(aligned) - np.abs(frame.image), np.angle(aligned * frame.image.conj())
    off = tuple(np.where(known, part, np.nan) for part in parts)
    curve = frc(np.where(known, aligned, 0), np.where(known, frame.image, 0))
    pictures = frame.draw(aligned, known, frame.phase.with_difference(off[1]))
    return replace(seen, pictures=pictures, off=off, curve=curve)
