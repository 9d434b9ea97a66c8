"""The study of zero-shot reconstruction: its definition, scans, cells, stored results, and report."""

import json

import numpy as np
import pytest
import yaml
from helpers.reference import exact_diffraction

from benchmarks.study.__main__ import main
from benchmarks.study.zero_shot import BOTH
from benchmarks.study.zero_shot_kinds import OBJECTS, PROBES
from ptycho.config import UnrolledModel, XlaConfig
from ptycho.networks import build_pinn
from ptycho.networks.layers import Geometry, get_weights
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, write_network
from ptycho_pretrain.config import BatchConfig, MaterialsConfig, PretrainConfig
from ptycho_pretrain.kind_scans import KindScan, simulate_kind_scan
from ptycho_pretrain.kinds import Entry

RING = {"kind": "ring", "diameter": [0.4, 0.5], "width": [0.3, 0.4]}
KINDS_PANEL = {
    "name": "kinds",
    "title": "kinds",
    "probes": ["ring", "disk"],
    "objects": ["foam"],
    "materials": ["mixed"],
    "scans": ["fermat"],
    "photons": ["1e6"],
    "N": [32],
    "positions": 40,
}
STUDY = {
    "kind": "zero_shot",
    "run": "somewhere",
    "group_size": 4,
    "passes": 2,
    "methods": ["zero_shot", "refined"],
    "probes": {"ring": RING, "disk": {"kind": "disk", "trained": True, "diameter": [0.4, 0.5]}},
    "objects": {"foam": {"kind": "foam", "size": [6, 10]}},
    "materials": {"mixed": {"phase_rad": [0.8, 1.2], "absorption": [0.3, 0.5], "unrelated": 0, "bright": 0}},
    "scans": {"fermat": {"path": "fermat", "overlap": 0.6}},
    "panels": [KINDS_PANEL, KINDS_PANEL | {"name": "rings", "title": "rings", "probes": ["ring"]}],
}


SCAN = KindScan(
    probe=Entry("ring", 1.0, {"diameter": (0.4, 0.5), "shift": (0.05, 0.05)}),
    object=Entry("foam", 1.0, {"size": (6.0, 10.0)}),
    material=MaterialsConfig((0.8, 1.2), (0.3, 0.5), 0.0, 0.0),
    **{"path": "fermat", "overlap": 0.6, "photons": 1e9, "N": 32, "positions": 20, "seed": 3},
)


def test_a_scan_against_a_slow_loop():
    data = simulate_kind_scan(SCAN, PROBES, OBJECTS)
    shares = []
    for j in (0, 7, 19):
        amplitude = exact_diffraction(data.objects[0], data.positions[j : j + 1], data.probe[0])[0]
        expected = (data.photon_scale * amplitude) ** 2
        counted = data.amplitudes[j].astype(float) ** 2
        assert np.abs(counted - np.rint(counted)).max() < 1e-2 * np.sqrt(counted.max())
        many = expected > 100
        shares.append(np.mean((counted[many] - expected[many]) ** 2 / expected[many]))
    assert np.allclose(shares, 1, atol=0.2), "Poisson's variance is its mean"
    assert abs(np.sum(data.amplitudes[:].astype(float) ** 2) / (20 * 1e9) - 1) < 1e-3


def table_rows(markdown):
    """The lines of all tables, as lists of texts."""
    lines = (line for line in markdown.splitlines() if line.startswith("| "))
    return [[text.strip() for text in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("run") / "net")
    model = UnrolledModel(stages=1, width=4, blocks=0, misfit=True)
    config = PretrainConfig(
        model=model,
        xla=XlaConfig(compile=False),
        probes={"disk": {}},
        objects={"lines": {}},
        batches={"one": BatchConfig(N=32, C=1, batch=1, reach=1)},
    )
    network = build_pinn(config.model, Geometry(32, 34, 1, 32), config.xla, config.loss_weights, config.seed)
    probe = simulate_kind_scan(SCAN, PROBES, OBJECTS).probe[0]
    setup = Setup(probe, 1.0, 1.0, 32, 1, np.zeros((1, 2), np.float32), 32)
    folder.config(config)
    folder.arrays("pinn/setup.npz", setup.arrays())
    write_network(folder, "pinn", get_weights(network), {"complete": True}, [{"epoch": 1, "loss": 1.0}])
    return folder.path


def test_a_study_from_its_first_cell_to_its_report(run, tmp_path, capsys, caplog, within):
    caplog.set_level("INFO")
    out = tmp_path / "out"
    (tmp_path / "zero.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    words = [str(tmp_path / "zero.yaml"), f"run={run}", "--output", str(out)]
    assert main([*words, "--only", "rings"]) == 0 and "2 cells: 2 to do" in caplog.text
    assert main(words) == 0 and "4 cells: 2 to do" in caplog.text
    for probe in ("disk", "ring"):  # the ring is looked at below
        folder = out / f"{probe}-foam-mixed-fermat-1e06-N32-J40"
        paths = (folder / f"{name}.json" for name in ("zero_shot", "refined"))
        zero, refined = (json.loads(path.read_text())["result"] for path in paths)
        within("SSIM gained by refinement", refined["ssim"][0] - zero["ssim"][0], above=0.0)
        within("R refined over R", refined["r_factor"] / zero["r_factor"], below=1.0)
        assert 0 < zero["r_noise"] < zero["r_factor"]
    report = (out / "results.md").read_text()
    assert f"## All scans, {BOTH}" in report and "## rings" in report and "not done" not in report
    (row,) = [row for row in table_rows(report) if row[:2] == ["`refined`", "1"] and "ring-" in row[-1]]
    stored = json.loads((out / "ring-foam-mixed-fermat-1e06-N32-J40/refined.json").read_text())
    shown = stored["result"]["ssim"]
    assert row[2:6] == [f"{shown[0]:.4f}"] * 2 + [f"{shown[1]:.4f}"] * 2
    assert (out / "flag.png").read_bytes()[:4] == b"\x89PNG"

    caplog.clear()
    assert main(words) == 0 and "4 cells: 0 to do" in caplog.text
    (out / "disk-foam-mixed-fermat-1e06-N32-J40/refined.json").unlink()
    assert main([*words, "--report"]) == 0 and "not done" in (out / "results.md").read_text()
    capsys.readouterr()
    assert main([words[0], "passes=3", *words[1:]]) == 2
    assert "was measured with other settings (passes: " in capsys.readouterr().err
