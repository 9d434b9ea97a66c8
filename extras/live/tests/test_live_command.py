"""The programs live.py and replay.py: settings that they refuse, and a folder watched to its end."""

import json
import runpy
import sys

import numpy as np
import pytest
from helpers.cli import ROOT

from ptycho.config import ConfigError, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.exports.cxi import write as write_cxi
from ptycho.exports.exported_scan import ExportedScan
from ptycho.scan.probe import make_probe
from ptycho.simulation.measured_like import ScanSettings, simulate_measured_like
from ptycho.training.interrupt import StopRequest
from ptycho_live.config import LiveConfig
from ptycho_live.live_command import run
from ptycho_live.replay_command import ReplayConfig, replay

N, COUNT = 32, 60


def call(script, *words):
    arguments, sys.argv = sys.argv, [str(ROOT / "scripts" / script), *map(str, words)]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stop:
        return stop.code
    finally:
        sys.argv = arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["watch=tcp://x"], "watch=tcp://x: must be a file, a folder, or zmq://host:port"),
        (["output_dir=x"], "watch=null: must be"),
        (["watch=x.h5", "wait=3"], "wait=3: unknown key"),
        (["watch=x.h5", "timeout_s=0"], "timeout_s=0"),
        (["watch=x.h5", "data.unit=furlong"], "data.unit=furlong"),
        (["watch=x.h5", "solver.slices=2", "solver.slice_thickness_m=3e-6"], "slices=2: a live run"),
        (["watch=x.h5", "solver.probe_variation=2"], "probe_variation=2: a live run"),
        (["resume=nowhere"], "resume=nowhere: holds no live run"),
    ],
)
def test_what_live_refuses_at_once(tmp_path, monkeypatch, capfd, words, message):
    monkeypatch.chdir(tmp_path)
    assert call("live.py", *words) == 2
    error = capfd.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_a_folder_that_was_played_is_watched_to_its_end_and_never_overwritten(tmp_path):
    settings = ScanSettings(N=N, n_positions=COUNT, nphotons=1e6, seed=2, path="jittered")
    made = simulate_measured_like(settings, make_probe(ZonePlateProbe(), N))
    counts = np.concatenate(list(made.counts(np.random.default_rng(0))))
    lengths = {"energy_eV": 8000.0, "distance_m": 0.3, "detector_pixel_m": (75e-6, 75e-6)}
    scan = ExportedScan(
        made.positions,
        made.photon_probe.reshape(1, N, N),
        [counts],
        counts.dtype,
        "counts",
        pixel_m=(2e-8, 2e-8),
        **lengths,
    )
    write_cxi(tmp_path / "scan.cxi", scan)
    frames, out = f"{tmp_path}/frames/", tmp_path / "out"
    source = DataConfig(file=(str(tmp_path / "scan.cxi"),))
    replay(ReplayConfig(to=frames, rate=1e4, data=source, faults=("gaps",), fault_share=0.1, lag_s=0.0))
    data = DataConfig(file=(frames,), energy_eV=8000.0, distance_m=0.3, detector_pixel_m=75e-6)
    keys = {
        "watch": frames,
        "output_dir": str(out),
        "first": 20,
        "finish_s": 0.0,
        "final": False,
        "probe": ZonePlateProbe(),
    }
    with StopRequest() as stop:
        lines = run(LiveConfig(**keys, data=data), stop, None)
        numbers = json.loads((out / "live.json").read_text())
        played = len(list((tmp_path / "frames").glob("*.tif")))
        assert numbers["patterns"] == played < COUNT and "live.png" in lines[0]
        assert np.isfinite(np.load(out / "live.npz")["object"]).all()
        with pytest.raises(ConfigError, match=r"holds a live run already; resume it with resume="):
            run(LiveConfig(**keys, data=data), stop, None)
        with pytest.raises(ConfigError, match="is resumed with its own keys"):
            run(LiveConfig(resume=str(out), frames=9), stop, None)
        assert run(LiveConfig(resume=str(out)), stop, None)
    again = json.loads((out / "live.json").read_text())
    assert again["patterns"] == numbers["patterns"] and again["ended"] == "complete"
