#!/usr/bin/env python
"""Wall time and peak memory of whole workflow runs, each in a separate process.

    python benchmarks/workflow.py --out outputs/benchmarks/workflow default set_phi full
    python benchmarks/workflow.py --list

Peak memory is the largest sum of resident memory over the process tree, sampled ten times a second.
Writes one row per run (wall time, memory, scores of the PINN) as Markdown and CSV.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "grid_lines_workflow.py"
sys.path.insert(0, str(ROOT))

from benchmarks.tables import markdown, write_csv

FULL = ["N=64", "gridsize=2", "nimgs_train=2", "nimgs_test=2", "nepochs=2", "max_groups_train=null"]
RUNS: dict[str, list[str]] = {
    "default": [],
    "curved": ["probe=zone_plate"],
    "set_phi": ["set_phi=true", "models=[pinn]"],
    "curved_set_phi": ["probe=zone_plate", "set_phi=true", "models=[pinn]"],
    "jitter": ["scan.jitter=1.5", "models=[pinn]"],
    "curved_jitter": ["probe=zone_plate", "scan.jitter=1.5", "models=[pinn]"],
    "full": FULL,
    "full_unet": [*FULL, "model=unet", "models=[pinn]"],
}


def measured(overrides: list[str], output_dir: Path) -> tuple[float, float]:
    """Run the workflow; return seconds, and the peak memory of the process tree in GiB."""
    command = [sys.executable, str(SCRIPT), *overrides, f"output_dir={output_dir}", "overwrite=true"]
    began, peak = time.perf_counter(), 0
    process = psutil.Popen(command)
    while process.poll() is None:
        peak = max(peak, tree_memory(process))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"failed with exit code {process.returncode}: {subprocess.list2cmdline(command)}")
    return time.perf_counter() - began, peak / 2**30


def tree_memory(process: psutil.Process) -> int:
    """Return the resident bytes of a process and its descendants; ended processes count 0."""
    total = 0
    try:
        for member in [process, *process.children(recursive=True)]:
            total += member.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def row(name: str, out: Path) -> dict[str, str]:
    seconds, memory = measured(RUNS[name], out / name)
    metrics = json.loads((out / name / "metrics.json").read_text())
    manifest = json.loads((out / name / "manifest.json").read_text())
    pinn, baseline = metrics["pinn"], metrics.get("baseline")
    return {
        "run": name,
        "wall / s": f"{seconds:.0f}",
        "PINN training steps / s": f"{manifest['training']['pinn']['steps_s']:.0f}",
        "peak memory / GiB": f"{memory:.2f}",
        "PINN SSIM amplitude": f"{pinn['ssim'][0]:.4f}",
        "PINN SSIM phase": f"{pinn['ssim'][1]:.4f}",
        "PINN phase RMSE / rad": f"{pinn['phase_rmse_rad']:.4f}",
        "PINN frc50 amplitude": f"{pinn['frc50'][0]:.3f}",
        "baseline SSIM amplitude": f"{baseline['ssim'][0]:.4f}" if baseline else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", choices=[*RUNS, []], help="which runs, in this order")
    parser.add_argument("--list", action="store_true", help="show the runs and their overrides")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/workflow"))
    arguments = parser.parse_args()
    if arguments.list or not arguments.runs:
        for name, overrides in RUNS.items():
            print(f"{name:16s} {' '.join(overrides)}")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in arguments.runs:
        rows.append(row(name, arguments.out))
        write_csv(arguments.out / "table.csv", rows)
    text = markdown(rows)
    (arguments.out / "table.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
