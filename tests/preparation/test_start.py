"""Earlier results as the start of a reconstruction, against an object given by a formula in metres."""

import json
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.exports import product
from ptycho.exports.exported_scan import ExportedScan
from ptycho.preparation.geometry import PixelSize
from ptycho.preparation.start import read_start

PIXEL, N, SHIFT = 2e-8, 16, np.array([0.4, -1.3])  # of the earlier run; px by which it corrected positions


def sample(metres):
    """Return the object at places ``(…, 2)`` m: waves of low spatial frequency."""
    rows, cols = metres[..., 0] / PIXEL, metres[..., 1] / PIXEL
    return (1 + 0.2 * np.cos(rows / 7)) * np.exp(0.5j * np.sin(cols / 9 + rows / 20))


def nominal_px():
    rng = np.random.default_rng(0)
    return 1 + 3.0 * np.stack(np.mgrid[:6, :8], -1).reshape(-1, 2) + rng.uniform(0, 1, (48, 2))


@pytest.fixture
def earlier(tmp_path):
    """A product of every second frame, on an object of odd and unequal sides whose corner is the origin."""
    chosen = np.arange(0, 48, 2)
    places = np.stack(np.mgrid[:41, :47], -1) * PIXEL
    scan = ExportedScan(
        positions=(nominal_px() + SHIFT)[chosen],
        probe=np.ones((2, N, N), np.complex64),
        domain="counts",
        object=sample(places).astype(np.complex64),
        pixel_m=(PIXEL, PIXEL),
        numbers=chosen,
        opr_modes=np.stack([np.full((N, N), 2 + 1j), np.ones((N, N))]),
        opr_weights=np.stack([chosen, 1j * chosen], axis=1),
    )
    product.write(tmp_path / "product.h5", scan)
    return tmp_path


def scan_of(pixel=PIXEL, frames=48, side=N):
    positions = (nominal_px() + N / 2)[:frames] * PIXEL / pixel - side / 2
    return SimpleNamespace(
        raw=SimpleNamespace(numbers=None),
        frames=np.arange(frames),
        pixel=PixelSize((pixel, pixel)),
        positions=positions,
        N=side,
        detector=SimpleNamespace(bin=1),
    )


@pytest.mark.parametrize("ratio, side", [(1.0, 16), (1.25, 20), (0.8, 24)])
def test_places_of_the_object_stay_where_they_are(earlier, ratio, side):
    start = read_start(str(earlier), scan_of(PIXEL / ratio, side=side))
    assert start.probe.shape == (2, side, side) and len(start.positions) == 48
    middles = start.positions + side / 2
    there = sample((nominal_px() + SHIFT + N / 2) * PIXEL)
    whole = np.rint(middles).astype(int)
    rest = (middles - whole) / ratio * PIXEL
    expected = sample((nominal_px() + SHIFT + N / 2) * PIXEL - rest)
    np.testing.assert_allclose(start.object[tuple(whole.T)], expected, atol=0.01)
    assert np.abs(expected - there).max() > 0.02, "the test would not see half a pixel"


def test_a_probe_that_varies_goes_on_from_its_weights(earlier):
    start = read_start(str(earlier), scan_of())
    np.testing.assert_array_equal(start.opr_modes[:, 3, 5], [2 + 1j, 1])
    frame = np.arange(48) * (np.arange(48) % 2 == 0)
    np.testing.assert_array_equal(start.opr_weights, np.stack([frame, 1j * frame], axis=1))
    assert "OPR modes: 2" in str(start.finding)
    with h5py.File(earlier / "product.h5", "r+") as file:
        file["opr_mode_weights"][3] = np.nan
    with pytest.raises(ConfigError, match=r"opr_mode_weights \(24, 2\) has 2 values that are not finite"):
        read_start(str(earlier), scan_of())


def test_what_the_solver_selected_is_read(earlier):
    found = {"solver: flux": ["refined", "…"], "N": ["64", "…"]}
    (earlier / "metrics.json").write_text(json.dumps({"findings": found}))
    assert read_start(str(earlier), scan_of()).model == {"flux": "refined"}


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(pixel=PIXEL / 20), "its object pixel is 2e-08"),
        (dict(frames=3), "2 in common; must be at least 3"),
    ],
)
def test_a_result_that_does_not_fit_is_refused(earlier, change, message):
    with pytest.raises(ConfigError, match="^start=.*" + message):
        read_start(str(earlier), scan_of(**change))
    with h5py.File(earlier / "product.h5", "r+") as file:
        file["probe"][...] = 0
    with pytest.raises(ConfigError, match=r"^start=.* its probe is zero everywhere"):
        read_start(str(earlier), scan_of())
