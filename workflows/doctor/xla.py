"""What XLA compiles on this machine: every operator, network, dtype and device as a row of a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

from ptycho.config import ConfigError
from ptycho.config.schema import Each, Integer, Text, Texts, key, settings
from ptycho.quiet_start import start_tensorflow
from ptycho.xla_report.health import diagnose
from workflows.command_line.one_shot import Unfit

Dtype = Literal["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
"""All that any case takes, known before TensorFlow is imported."""


@settings()
class XlaReportConfig:
    """The keys of ``conf/xla_report.yaml``."""

    only: Texts = key((), "parts of the names of what is tried; []: all")
    dtypes: Each[Dtype] = key((), "dtypes that are tried; []: all that a case takes")
    device: Text = key("", "part of the name of a device, such as GPU:0; empty: all devices")
    repeats: Integer = key(5, "number of timed calls for each row", ge=1)
    saved_model: Text | None = key(None, "folder of a SavedModel to look through for what XLA cannot compile")
    output_dir: Text = key("outputs/xla_report", "folder for xla_report.json and xla_report.md")

    def __post_init__(self) -> None:
        if self.saved_model and not (Path(self.saved_model) / "saved_model.pb").is_file():
            raise ConfigError(f"saved_model={self.saved_model}: must be a folder that holds a saved_model.pb")
        if Path(self.output_dir).exists() and not Path(self.output_dir).is_dir():
            raise ConfigError(f"output_dir={self.output_dir}: must be a folder, or a path where none is yet")


def report(config: XlaReportConfig) -> list[str]:
    """Try what is asked for and write both files; lines to print. Unfit: something does not compile."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    diagnosis = diagnose()
    if diagnosis.failed:
        raise ConfigError(
            f"XLA does not work here. Step that fails: {diagnosis.failed} ({diagnosis.message}). "
            f"What to try: {diagnosis.advice}"
        )
    start_tensorflow(every_gpu=True)
    import tensorflow as tf

    from ptycho.xla_report import compile_report

    tf.get_logger().setLevel("ERROR")
    cases, on = _chosen_cases(config), [name for name in compile_report.devices() if config.device in name]
    if not on:
        raise _no_part_of("device", config.device, compile_report.devices())
    rows = list(compile_report.report(cases, config.dtypes or DTYPES, on, config.repeats))
    result: dict[str, Any] = {"rows": [asdict(row) for row in rows]}
    lines = compile_report.markdown(rows).rstrip().split("\n")
    if config.saved_model:
        result["saved_model"], found = _saved_model_lines(Path(config.saved_model))
        lines += ["", *found]
    folder = Path(config.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "xla_report.json").write_text(json.dumps(result, indent=1))
    (folder / "xla_report.md").write_text("\n".join([*lines, ""]))
    failed = [row for row in rows if not row.compiles]
    ending = f"{len(rows)} entries, {len(failed)} do not compile. Written to {folder}."
    if failed:
        raise Unfit([*lines, ending])
    return [*lines, ending]


def _chosen_cases(config: XlaReportConfig) -> dict[str, Any]:
    """The cases whose name holds one of ``only``; each of these must choose some, and one take a dtype."""
    from ptycho.xla_report.cases import CASES
    from ptycho.xla_report.network_cases import NETWORK_CASES

    known = CASES | NETWORK_CASES
    for part in config.only:
        if not any(part in name for name in known):
            raise _no_part_of("only", part, known)
    parts = config.only or ("",)
    wanted = {name: case for name, case in known.items() if any(part in name for part in parts)}
    taken = {dtype for case in wanted.values() for dtype in case.dtypes}
    if config.dtypes and not taken & set(config.dtypes):
        raise ConfigError(f"dtypes={','.join(config.dtypes)}: must be of {', '.join(sorted(taken))} here")
    return wanted


def _no_part_of(name: str, value: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(f"{name}={value}: must be part of {'; '.join(known)}")


def _saved_model_lines(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The findings on a saved model as JSON and as text."""
    from ptycho.xla_report.saved_model import inspect_saved_model

    findings = inspect_saved_model(folder)
    lines = [f"Saved model {folder}: {sum(findings.operations.values())} operations."]
    for device, missing in findings.without_kernel.items():
        lines.append(f"- without a kernel for {device}: {', '.join(missing) or 'none'}")
    lines.append(f"- run only under XLA: {', '.join(findings.only_xla) or 'none'}")
    lines.append(f"- functions that demand XLA: {', '.join(findings.must_compile) or 'none'}")
    return findings._asdict(), lines
