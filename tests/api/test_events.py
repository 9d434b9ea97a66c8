"""Events of a reconstruction: phases, steps with the patterns that are held out, decisions, scores."""

import numpy as np
import pytest

import ptycho

QUICK = {"flux": False, "background": False, "learn_probe": False, "regulariser": "none"}
QUICK |= {"steps": 30, "progress": False, "compile_xla": False}


@pytest.fixture(scope="module")
def scan():
    return ptycho.simulate(N=32, n_positions=60, nphotons=1e5, seed=3)


@pytest.fixture(scope="module")
def followed(scan, read_rightly_once):
    events = []
    result = ptycho.reconstruct(scan, on_event=events.append, **QUICK)
    return result, events


def test_steps_go_down_and_are_counted(followed):
    steps = [event.values for event in followed[1] if event.kind == "step"]
    assert [values["step"] for values in steps] == list(range(len(steps)))
    assert steps[-1]["objective"] < steps[0]["objective"]
    scored = {values["step"]: values["deviance_holdout"] for values in steps if "deviance_holdout" in values}
    assert list(scored) == list(range(0, len(steps), 10))
    assert np.isfinite(list(scored.values())).all()


def test_what_it_raises_ends_the_reconstruction(scan, read_rightly):
    def stop(event):
        if event.kind == "step":
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ptycho.reconstruct(scan, on_event=stop, **QUICK)
