"""What a run of a study leaves behind, made up; run as a script it stands for the workflow."""

import json
import sys
import time
from pathlib import Path

import yaml
from hydra import compose, initialize_config_dir

from ptycho.config.mapping import to_mapping
from workflows.config import run_config


def write_config(composed, folder):
    """``config.yaml`` as the workflow writes it: every key, also those that the composition leaves out."""
    folder.mkdir(parents=True, exist_ok=True)
    values = to_mapping(run_config(composed, [], {}))
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def fill(folder, amplitude=0.9, rmse=0.02, frc50=0.6, flags=()):
    """What a complete run leaves beside config.yaml; stitched by grid it is 0.1 worse."""
    still = {"ssim": [0.3, 1.0], "frc50": [None, None], "phase_rmse_rad": 0.0, "flags": []}
    by_method = {
        method: {
            "ssim": [None if amplitude is None else amplitude - loss, 0.99],
            "frc50": [frc50, None],
            "phase_rmse_rad": rmse,
            "flags": list(flags),
        }
        for method, loss in (("probe", 0), ("grid", 0.1))
    }
    model, training = by_method["probe"] | {"stitching": by_method}, {"steps_s": 8.0, "compile_s": 5.0}
    metrics = {"pinn": model, "baseline": model, "constant": still, "truth_blurred_1px": still}
    manifest = {
        "platform": "Somewhere",
        "cpu_count": 2,
        "device": "CPU:0",
        "versions": {"tensorflow": "2.21.0"},
        "training": {"pinn": training, "baseline": training},
        "timings_s": {"simulation": 4.0, "total": 100.0},
    }
    for name in ("datasets", "pinn", "baseline"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("pinn", "baseline"):
        (folder / name / "model.json").write_text(json.dumps({"parameters": 1234, "stopped": None}))
        (folder / name / "history.csv").write_text("epoch,val_loss\n1,0.5\n2,0.25\n")
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "manifest.json").write_text(json.dumps(manifest))


def run(words, here):
    """Write what a run would; the amplitude SSIM is 0.9 + seed/100. The calls are noted in ``here/calls``.

    Fails for the cell "second" with seed 1 while there is a file ``broken``; hangs while there is ``slow``.
    """
    with (here / "calls").open("a") as calls:
        calls.write(" ".join(words) + "\n")
    with initialize_config_dir(version_base="1.3", config_dir=str(here / "conf")):
        config = compose("grid_lines", words)
    folder = Path(config.output_dir)
    write_config(config, folder)
    if (here / "slow").exists():
        (here / "slow").write_text("begun")
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            (here / "stopped").touch()
            sys.exit(130)
    if words[0] == "experiment=second" and config.seed == 1 and (here / "broken").exists():
        sys.exit("error: it broke")
    fill(folder, 0.9 + config.seed / 100)


if __name__ == "__main__":
    run(sys.argv[1:], Path(__file__).parent)
