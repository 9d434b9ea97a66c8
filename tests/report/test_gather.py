"""Reading of the folder of a run: finished, running, interrupted, old, damaged."""

import shlex

import pytest
import yaml
from helpers.configuration import composed
from helpers.run_folders import write_run

from ptycho.command_line.config import run_config
from ptycho.config.mapping import to_mapping
from ptycho.report.gather import ENDED, gather
from ptycho.run.stored_run import read_job
from ptycho_report.page_record import gather_page


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
        ["data.file=['/some dir/it\\'s, [1].cxi']", "seed=3", "data.domain=counts", "tiles=true"],
        [
            "data.file=[/a.cxi,/b.h5]",
            "probe=zone_plate",
            "probe.energy_keV=9",
            "solver.regulariser=edge_preserving",
        ],
    ],
)
def test_the_command_repeats_the_run(tmp_path, overrides):
    """Hydra composes the command that the page shows to the configuration that was stored."""
    config = run_config(composed(*overrides, name="scan"), overrides, {})
    run = write_run(tmp_path / "run")
    (run / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))
    program, script, *words = shlex.split(gather_page(run).command)
    assert (program, script, words[-1]) == ("ptycho", "scan", "output_dir=outputs/again")
    again = to_mapping(run_config(composed(*words, name="scan"), words, {}))
    assert again | {"output_dir": None} == to_mapping(read_job(run)) | {"output_dir": None}
