"""A near field from its file to product, export and metrics."""

import json

import h5py
import numpy as np
import pytest
from helpers.cli import ROOT
from helpers.quick import NOTHING_SELECTED, words_of

from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

SCRIPT = ROOT / "scripts" / "scan_workflow.py"
PIXEL = 75e-8  # 75 µm, magnified 100 times
TOLD = words_of(NOTHING_SELECTED | {"regularisation_weight": 3.0, "steps": 20, "error_map": True})
TOLD += ["probe.learn=true", "probe.modes=1", "xla.compile=false"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The file, and the keys that ``simulate_scan.py`` prints for it."""
    path = tmp_path_factory.mktemp("near") / "cone.cxi"
    sizes = {"N": 32, "n_positions": 24, "step_px64": 12, "fresnel": 8}
    made = SimulateConfig(output=str(path), physics="near_field", sample="blobs", **sizes)
    *_, printed = simulate_scan(made)
    return path, printed.split("read with ")[1].split()


@pytest.fixture(scope="module")
def finished(measured, tmp_path_factory, in_process_once):
    folder, (path, keys) = tmp_path_factory.mktemp("run"), measured
    overrides = (f"data.file={path}", *keys, *TOLD, f"output_dir={folder / 'run'}")
    code, _, err = in_process_once(SCRIPT, *overrides, cwd=folder)
    assert code == 0, err
    return folder / "run"


def test_metrics_and_product_have_its_pixel(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    np.testing.assert_allclose(metrics["pixel_m"], PIXEL, rtol=1e-5)
    assert metrics["findings"]["physics"][0] == "near field"
    assert "magnified 100 times" in metrics["findings"]["physics"][1]
    row = metrics["solver"]
    assert row["r_factor"] < 0.15 and {"error_map", "unexplained_variance", "beam"} <= row.keys()
    with h5py.File(finished / "product.h5") as file:
        assert file["object"].attrs["pixel_width_m"] == pytest.approx(PIXEL, rel=1e-5)
        assert file["sigma_phase"].shape == file["object"].shape
        assert "near field" in file.attrs["comments"]
