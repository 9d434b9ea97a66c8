"""Reading of the folder of a run: finished, running, interrupted, old, damaged."""

import shlex

import pytest
import yaml
from helpers.configuration import composed
from helpers.run_folders import write_run

from ptycho.command_line.config import run_config
from ptycho.config.mapping import to_mapping
from ptycho.report.gather import ENDED, FINISHED, gather
from ptycho.run.stored_run import read_job


def test_a_finished_run(tmp_path):
    record = gather(write_run(tmp_path / "mine"))
    assert (record.name, record.state, record.seconds) == ("mine", FINISHED, 33.0)
    assert record.ended.isoformat() == "2024-02-03T04:05:06+00:00"
    assert not record.missing and not record.settings
    assert (record.scan, record.product, record.pixel_m) == ("a", "solver", (2e-8, 2e-8))


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', ""])
def test_damaged_scores_are_said_and_raise_nothing(tmp_path, text):
    run = write_run(tmp_path / "run")
    (run / "metrics.json").write_text(text)
    record = gather(run)
    assert record.state == ENDED and record.product == "solver"
    assert any(line.startswith("metrics.json: is damaged") for line in record.missing)


@pytest.mark.parametrize(
    "overrides",
    [
        ["data.file=[/a.cxi]"],
        ["data.file=['/some dir/it\\'s, [1].cxi']", "seed=3", "data.domain=counts", "tiles=true"],
        [
            "data.file=[/a.cxi,/b.h5]",
            "probe=zone_plate",
            "probe.energy_keV=9",
            "solver.regulariser=edge_preserving",
        ],
        ["data.file=[/a.cxi]", "model=unet", "nepochs=2", "data.drop=[1,2]", "data.bin=2"],
    ],
)
def test_the_command_repeats_the_run(tmp_path, overrides):
    """Hydra composes the command that the page shows to the configuration that was stored."""
    config = run_config(composed(*overrides, name="scan"), overrides, {})
    run = write_run(tmp_path / "run")
    (run / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))
    program, script, *words = shlex.split(gather(run).command)
    assert (program, script, words[-1]) == ("ptycho", "scan", "output_dir=outputs/again")
    again = to_mapping(run_config(composed(*words, name="scan"), words, {}))
    assert again | {"output_dir": None} == to_mapping(read_job(run)) | {"output_dir": None}
