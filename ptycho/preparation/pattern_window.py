"""Determine the zero frequency of a scan's frames, and the width of its patterns."""

from __future__ import annotations

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.preparation.centre import find_centre
from ptycho.preparation.detector import oriented
from ptycho.preparation.near_field import NearField, aliasing, near_field_window
from ptycho.preparation.window import whole_detector
from ptycho.readers.raw_scan import RawScan
from ptycho.scan.finding import Finding


def zero_frequency(
    raw: RawScan,
    config: DataConfig,
    mean: np.ndarray,
    good: np.ndarray,
    findings: list[Finding],
) -> tuple[int, int]:
    """Return (row, col) of the zero frequency of ``mean (H, W)``, as stored or its corner in the middle."""
    if config.near_field:
        middle = mean.shape[0] // 2, mean.shape[1] // 2
        why = "the detector's; a near field has no zero frequency"
        why += ", and data.zero_frequency no meaning" if config.zero_frequency else ""
        findings.append(Finding("middle", f"row {middle[0]}, column {middle[1]}", why))
        return middle
    zero, centre = raw.zero_frequency, raw.stated_centre()
    if centre is None:
        measured = find_centre(mean, good)
        centre, why = _centre_of_probe(raw, (measured.row, measured.col), measured.why)
        findings += [] if measured.warning is None else [Finding.warning(measured.warning)]
    elif isinstance(zero, tuple):
        why = "stated"
    else:
        why = "data.zero_frequency" if config.zero_frequency else f"by the format {raw.format}"
        why += ": in the corner, shifted to the centre" if zero == "corner" else ""
    if not all(0 <= c < n for c, n in zip(centre, mean.shape, strict=True)):
        raise ConfigError(
            f"data.zero_frequency={centre}: must lie on the detector of {mean.shape}, (row, column) as stored"
        )
    if config.transpose or config.flip_rows or config.flip_cols:
        why += "; in the frame as stored, before reorientation"
    findings.append(Finding("zero frequency", f"row {centre[0]}, column {centre[1]}", why))
    return centre


def _centre_of_probe(raw: RawScan, measured: tuple[int, int], why: str) -> tuple[tuple[int, int], str]:
    """The middle, where the file's probe is as large as a frame and the beam is seen a pixel off at most."""
    shape = raw.patterns.shape[1:]
    middle = shape[0] // 2, shape[1] // 2
    alike = raw.probe is not None and raw.probe.shape[1:] == shape
    if alike and measured != middle and max(abs(s - m) for s, m in zip(measured, middle, strict=True)) <= 1:
        return (
            middle,
            f"the centre of the window, as in the probe of the file; {why}: row {measured[0]}, "
            f"column {measured[1]}",
        )
    return measured, why


def pattern_side(
    raw: RawScan,
    config: DataConfig,
    centre: tuple[int, int],
    mean: np.ndarray,
    near: NearField | None,
    findings: list[Finding],
) -> int:
    """Return N: as specified, or that of the window which contains the whole of ``mean (H, W)``.

    It is determined on the frame as stored, so that N does not depend on the orientation: in a flipped frame
    of even size the first row or column is one pixel too late, and the pattern's first one is bad.
    """
    if config.N is not None:
        findings.append(Finding("N", str(config.N), f"data.N, {config.bin} × {config.bin} pixels each"))
        if near is not None and (doubt := aliasing(near, config.N)) is not None:
            findings.append(Finding.warning(doubt))
        return config.N
    upright = oriented(mean, raw.zero_frequency == "corner", False, False, False)
    window = (
        whole_detector(upright, centre, config.bin)
        if near is None
        else near_field_window(near, mean.shape, config.bin)
    )
    findings.append(Finding("N", str(window.N), window.why))
    findings += [] if window.warning is None else [Finding.warning(window.warning)]
    return window.N
