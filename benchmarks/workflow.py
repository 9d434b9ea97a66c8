#!/usr/bin/env python
"""Wall time and peak memory of whole workflow runs, each in a separate process.

    python benchmarks/workflow.py default set_phi full
    python benchmarks/workflow.py --list

Writes one row per run (wall time, memory, scores of the PINN) as Markdown and CSV.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "grid_lines_workflow.py"

from benchmarks import parser
from benchmarks.tables import last_line, write

OUT = Path("outputs/benchmarks/workflow")
FULL = ["N=64", "gridsize=2", "nimgs_train=2", "nimgs_test=2", "nepochs=2", "max_groups_train=null"]
RUNS: dict[str, list[str]] = {
    "default": [],
    "curved": ["probe=zone_plate"],
    "set_phi": ["set_phi=true", "models=[pinn]"],
    "curved_set_phi": ["probe=zone_plate", "set_phi=true", "models=[pinn]"],
    "full": FULL,
    "full_unet": [*FULL, "model=unet", "models=[pinn]"],
}


def row(name: str) -> dict[str, str]:
    """Run the workflow in a process, and return seconds, memory and scores."""
    out, began = OUT / name, time.perf_counter()
    command = [sys.executable, str(SCRIPT), *RUNS[name], f"output_dir={out}", "overwrite=true"]
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - began
    metrics, manifest = (json.loads((out / f"{part}.json").read_text()) for part in ("metrics", "manifest"))
    pinn, baseline = metrics["pinn"], metrics.get("baseline")
    return {
        "run": name,
        "wall / s": f"{seconds:.0f}",
        "PINN training steps / s": f"{manifest['training']['pinn']['steps_s']:.0f}",
        "peak memory / GiB": f"{manifest['peak_memory_mib'] / 1024:.2f}",
        "PINN SSIM amplitude": f"{pinn['ssim'][0]:.4f}",
        "PINN SSIM phase": f"{pinn['ssim'][1]:.4f}",
        "PINN phase RMSE / rad": f"{pinn['phase_rmse_rad']:.4f}",
        "PINN frc50 amplitude": f"{pinn['frc50'][0]:.3f}",
        "baseline SSIM amplitude": f"{baseline['ssim'][0]:.4f}" if baseline else "",
    }


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("runs", nargs="*", choices=[*RUNS, []], help="which runs, in this order")
    options_of.add_argument("--list", action="store_true", help="show the runs and their overrides")
    options = options_of.parse_args()
    if options.list or not options.runs:
        for name, overrides in RUNS.items():
            print(f"{name:16s} {' '.join(overrides)}")
        return
    rows = []
    for name in options.runs:
        rows.append(row(name))
        print(last_line(rows[-1]), flush=True)
    write(OUT / "table", rows)


if __name__ == "__main__":
    main()
