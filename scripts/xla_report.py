"""Does XLA work on this machine, and does everything here compile? The first thing to run on a new GPU.

    python scripts/xla_report.py                       every operator, model, dtype and device
    python scripts/xla_report.py --only translate --dtypes float32,complex64
    python scripts/xla_report.py --saved-model FOLDER  also list what XLA cannot compile in a saved model

Exit status: 0 all compile, 1 something does not, 2 nothing was tried: XLA does not work here, or an option is
wrong (one line on stderr names it, its value and what is allowed).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
from ptycho.quiet_start import start_tensorflow
from ptycho.xla_report.health import diagnose

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""All that any case takes, known before TensorFlow is imported."""


def wrong(option: str, value: object, allowed: str) -> NoReturn:
    print(f"{option} is {value}; allowed: {allowed}.", file=sys.stderr)
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message}\n")


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def arguments() -> argparse.Namespace:
    """The options, checked as far as that needs no TensorFlow."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", type=names, default=[], help="comma-separated parts of names to report on (default: all)"
    )
    parser.add_argument(
        "--dtypes", type=names, default=[], help="comma-separated dtypes (default: all that an entry takes)"
    )
    parser.add_argument(
        "--device", default="", help="part of a device name, such as GPU:0 (default: all devices)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed calls per entry (default: 5)")
    parser.add_argument("--saved-model", type=Path, help="folder of a SavedModel to look through")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/xla_report"), help="folder for the JSON and Markdown"
    )
    args = parser.parse_args()
    for dtype in args.dtypes:
        if dtype not in DTYPES:
            wrong("--dtypes", dtype, ", ".join(DTYPES))
    if args.repeats < 1:
        wrong("--repeats", args.repeats, "whole numbers from 1 on")
    if args.saved_model and not (args.saved_model / "saved_model.pb").is_file():
        wrong("--saved-model", args.saved_model, "a folder that holds a saved_model.pb")
    if args.out.exists() and not args.out.is_dir():
        wrong("--out", args.out, "a folder, or a path where none is yet")
    return args


def chosen_cases(only: list[str], dtypes: list[str]) -> dict:
    """The cases whose name holds one of ``only``; each of these must choose some, and one take a dtype."""
    from ptycho.xla_report.cases import CASES
    from ptycho.xla_report.network_cases import NETWORK_CASES

    known = CASES | NETWORK_CASES
    for part in only:
        if not any(part in name for name in known):
            wrong("--only", part, f"parts of {'; '.join(known)}")
    chosen = {n: case for n, case in known.items() if not only or any(part in n for part in only)}
    taken = {dtype for case in chosen.values() for dtype in case.dtypes}
    if dtypes and not taken & set(dtypes):
        wrong("--dtypes", ",".join(dtypes), f"{', '.join(sorted(taken))} with --only {','.join(only)}")
    return chosen


def saved_model_lines(folder: Path) -> tuple[dict, list[str]]:
    """The findings on a saved model as JSON and as text."""
    from ptycho.xla_report.saved_model import inspect_saved_model

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

    start_tensorflow(every_gpu=True)
    import tensorflow as tf

    from ptycho.xla_report import compile_report

    tf.get_logger().setLevel("ERROR")
    chosen = chosen_cases(args.only, args.dtypes)
    on = [d for d in compile_report.devices() if args.device in d]
    if not on:
        wrong("--device", args.device, f"parts of {', '.join(compile_report.devices())}")
    rows = []
    for row in compile_report.report(chosen, args.dtypes or DTYPES, on, args.repeats):
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
