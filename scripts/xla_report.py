"""Does XLA work on this machine, and does everything here compile? The first thing to run on a new GPU.

    python scripts/xla_report.py                       every operator, model, dtype and device
    python scripts/xla_report.py --only translate --dtypes float32,complex64
    python scripts/xla_report.py --saved-model FOLDER  also list what XLA cannot compile in a saved model

Exit status: 0 all compile, 1 something does not, 2 XLA does not work here.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
from ptycho.xla.health import diagnose


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=True
    )
    parser.add_argument(
        "--only", default="", help="comma-separated parts of names to report on (default: all)"
    )
    parser.add_argument(
        "--dtypes", default="", help="comma-separated dtypes (default: all that an entry takes)"
    )
    parser.add_argument(
        "--device", default="", help="part of a device name, such as GPU:0 (default: all devices)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed calls per entry (default: 5)")
    parser.add_argument("--saved-model", type=Path, help="folder of a SavedModel to look through")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/xla_report"), help="folder for the JSON and Markdown"
    )
    return parser.parse_args()


def saved_model_lines(folder: Path) -> tuple[dict, list[str]]:
    """The findings on a saved model as JSON and as text."""
    from ptycho.xla.saved_model import inspect_saved_model

    findings = inspect_saved_model(folder)
    lines = [f"Saved model {folder}: {sum(findings.operations.values())} operations."]
    for device, missing in findings.without_kernel.items():
        lines.append(f"- without a kernel for {device}: {', '.join(missing) or 'none'}")
    lines.append(f"- run only under XLA: {', '.join(findings.only_xla) or 'none'}")
    lines.append(f"- functions that demand XLA: {', '.join(findings.must_compile) or 'none'}")
    return findings._asdict(), lines


def main() -> int:
    args = arguments()
    diagnosis = diagnose()
    if diagnosis.failed:
        print(f"XLA does not work here. Step that fails: {diagnosis.failed}\n  {diagnosis.message}")
        print(f"What to try: {diagnosis.advice}")
        return 2

    import tensorflow as tf

    from ptycho.models.compile_probes import MODEL_PROBES
    from ptycho.xla import compile_report
    from ptycho.xla.probes import PROBES

    tf.get_logger().setLevel("ERROR")
    known = PROBES | MODEL_PROBES
    chosen = {n: p for n, p in known.items() if any(part in n for part in args.only.split(","))}
    dtypes = args.dtypes.split(",") if args.dtypes else sorted({d for p in chosen.values() for d in p.dtypes})
    on = [d for d in compile_report.devices() if args.device in d]
    if not chosen or not on:
        print(f"Nothing to report on. Entries: {', '.join(known)}. Devices: {compile_report.devices()}.")
        return 1
    rows = []
    for row in compile_report.report(chosen, dtypes, on, args.repeats):
        rows.append(row)
        print(compile_report.markdown([row]).splitlines()[-1], flush=True)

    result: dict = {"rows": [dataclasses.asdict(r) for r in rows]}
    text = compile_report.markdown(rows)
    if args.saved_model:
        result["saved_model"], lines = saved_model_lines(args.saved_model)
        text += "\n" + "\n".join(lines) + "\n"
        print("\n".join(lines))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "xla_report.json").write_text(json.dumps(result, indent=1))
    (args.out / "xla_report.md").write_text(text)
    failed = [r for r in rows if not r.compiles]
    print(f"{len(rows)} entries, {len(failed)} do not compile. Written to {args.out}.")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
