"""Comparison of runs: which is better, by how many standard errors, and differences of the images."""

import numpy as np
import pytest
from helpers.run_folders import positions_of, sample, write_run
from scipy.ndimage import fourier_shift

from ptycho_report.compare import Frame, align_to, verdict
from ptycho_report.entries import find_entries
from ptycho_report.stored_recon import read_recon

WIDE = 110  # pixels of a side
FLAT = np.ones((1, 26, 26), np.complex64)


def entries_of(*paths):
    return list(find_entries([str(path) for path in paths]).entries)


def deviances(values, patterns=(0, 4, 8, 12, 16)):
    return {"solver_holdout_patterns": np.array(patterns), "solver_holdout_deviance": np.array(values, float)}


def test_the_difference_and_its_error(tmp_path):
    """By hand: gains of 0.1, 0.2, 0.3 on patterns held out in both runs: 0.2 ± 0.1/√3."""
    best = deviances([1.0, 1.5, 2.0, 9.0], [3, 5, 7, 9])
    other = deviances([2.3, 1.7, 1.1, 0.0], [7, 5, 3, 11])
    one = write_run(tmp_path / "one", assessment=best, row={"deviance_holdout": 1.0})
    two = write_run(tmp_path / "two", assessment=other, row={"deviance_holdout": 1.1})
    first, second = entries_of(one, two)
    assert verdict(second, first).startswith("worse: 0.2 ± 0.058 more")
    assert verdict(second, first).endswith("on 3 patterns that both held out")
    assert verdict(first, first) == "the best of these"


@pytest.mark.parametrize(
    ("assessment", "sentence"),
    [
        (deviances([1.2, 1.0, 1.3, 1.2, 1.5]), "no difference beyond its error"),
        (deviances([1.5, 1.6, 1.7, 1.8, 1.9]), "worse"),
        (False, "a run did not store the deviance"),
        (deviances([1] * 5, [1, 2, 3, 5, 6]), "held out different patterns"),
    ],
)
def test_no_more_is_said_than_is_known(tmp_path, assessment, sentence):
    one = write_run(tmp_path / "one", row={"deviance_holdout": 1.0})
    two = write_run(tmp_path / "two", row={"deviance_holdout": 1.1}, assessment=assessment)
    assert sentence in verdict(*reversed(entries_of(one, two)))


def wide(image):
    """Return arrays of a run whose positions illuminate all of an object of ``WIDE`` pixels."""
    return {"image": image.astype(np.complex64), "arrays": {"positions": 3.4 * positions_of(), "probe": FLAT}}


def test_shift_scale_and_phase_plane_are_no_difference(tmp_path):
    """The other object is the same, shifted by fractions of a pixel, darker, and with a phase ramp."""
    whole = sample(3, (2 * WIDE, 2 * WIDE))
    rows, cols = np.mgrid[:WIDE, :WIDE]
    plane = 0.6 * np.exp(1j * (0.7 + 0.02 * rows - 0.03 * cols))
    moved = np.fft.ifft2(fourier_shift(np.fft.fft2(whole), (1.3, -2.6)))
    part = np.s_[40 : 40 + WIDE, 40 : 40 + WIDE]
    one = write_run(tmp_path / "one", name="s", row={"deviance_holdout": 1.0}, **wide(whole[part]))
    two = write_run(tmp_path / "two", name="s", **wide(moved[part] * plane))
    same = write_run(tmp_path / "three", name="s", **wide(whole[part]))
    first, second, third = entries_of(one, two, same)
    frame = Frame.of(read_recon(first.record.path, "solver"), first.record.pixel_nm)
    found = align_to(frame, second, first)
    for values in found.off:  # contrasts are 0.1 and 0.3; moved by whole pixels, a fifth of them would remain
        assert np.sqrt(np.nanmean(np.square(values))) < 0.01
        assert np.isfinite(values).mean() > 0.7
    assert np.mean(found.curve[1][:12]) > 0.98 and not found.note
    assert np.nanmax(np.abs(align_to(frame, third, first).off)) < 1e-3


def test_a_real_difference_is_shown_where_it_is(tmp_path):
    image = sample(3)
    other = image.copy()
    other[20:26, 20:26] *= 1.2
    one = write_run(tmp_path / "one", name="s", image=image, row={"deviance_holdout": 1.0})
    first, second = entries_of(one, write_run(tmp_path / "two", name="s", image=other))
    off = align_to(
        Frame.of(read_recon(first.record.path, "solver"), first.record.pixel_nm), second, first
    ).off[0]
    top, left = (
        np.flatnonzero(read_recon(first.record.path, "solver").illuminated.any(axis=axis))[0]
        for axis in (1, 0)
    )
    inside = off[22 - top : 24 - top, 22 - left : 24 - left]
    assert inside.mean() > 0.12 and abs(np.nanmedian(off)) < 0.02


def test_other_pixels_and_other_places_are_said_and_not_forced(tmp_path):
    one = write_run(tmp_path / "one", name="s", row={"deviance_holdout": 1.0})
    two = write_run(tmp_path / "two", name="s", metrics={"pixel_m": [3e-8, 3e-8]})
    first, second = entries_of(one, two)
    found = align_to(Frame.of(read_recon(first.record.path, "solver"), first.record.pixel_nm), second, first)
    assert not found.off and found.note == "other pixel, 30 nm against 20 nm: not aligned" and found.pictures
