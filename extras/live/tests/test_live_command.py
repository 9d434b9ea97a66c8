"""The programs live.py and replay.py: settings that they refuse, and a folder watched to its end."""

import json

import numpy as np
import pytest
from helpers.cli import ROOT

from ptycho.config import ConfigError, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.training.interrupt import StopRequest
from ptycho_live.config import LiveConfig
from ptycho_live.live_command import run
from ptycho_live.replay_command import ReplayConfig, replay
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

COUNT = 60


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["watch=tcp://x"], "watch=tcp://x: must be a file, a folder, or zmq://host:port"),
        (["watch=x.h5", "wait=3"], "wait=3: unknown key"),
        (["watch=x.h5", "solver.slices=2", "solver.slice_thickness_m=3e-6"], "slices=2: a live run"),
        (["resume=nowhere"], "resume=nowhere: holds no live run"),
    ],
)
def test_what_live_refuses_at_once(in_process, words, message):
    code, _, error = in_process(ROOT / "scripts/live.py", *words)
    assert code == 2 and message in error and len(error.strip().splitlines()) == 1


def test_a_folder_that_was_played_is_watched_to_its_end_and_never_overwritten(tmp_path):
    scan, frames, out = str(tmp_path / "scan.cxi"), f"{tmp_path}/frames/", tmp_path / "out"
    simulate_scan(SimulateConfig(output=scan, N=32, n_positions=COUNT, nphotons=1e6, path="jittered"))
    source = DataConfig(file=(scan,))
    replay(ReplayConfig(to=frames, rate=1e4, data=source, faults=("gaps",), fault_share=0.1, lag_s=0.0))
    data = DataConfig(file=(frames,), energy_eV=8000.0, distance_m=0.31, detector_pixel_m=75e-6)
    keys = {"watch": frames, "output_dir": str(out), "first": 20, "finish_s": 0.0, "final": False}
    keys["probe"] = ZonePlateProbe()
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
