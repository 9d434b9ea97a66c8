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
from ptycho.files.atomic import write_text
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
    if (diagnosis := diagnose()).failed:
        raise ConfigError(
            f"XLA does not work here. Step that fails: {diagnosis.failed} ({diagnosis.message}). "
            f"What to try: {diagnosis.advice}"
        )
    start_tensorflow(every_gpu=True)
    import tensorflow as tf

    from ptycho.xla_report import cases, compile_report, network_cases

    tf.get_logger().setLevel("ERROR")
    known, devices = cases.CASES | network_cases.NETWORK_CASES, compile_report.devices()
    _check_part("device", config.device, devices)
    for part in config.only:
        _check_part("only", part, known)
    wanted = {name: known[name] for name in known if any(part in name for part in config.only or ("",))}
    taken = {dtype for case in wanted.values() for dtype in case.dtypes}
    if config.dtypes and not taken & set(config.dtypes):
        raise ConfigError(f"dtypes={','.join(config.dtypes)}: must be of {', '.join(sorted(taken))} here")
    on = [name for name in devices if config.device in name]
    rows = list(compile_report.report(wanted, config.dtypes or DTYPES, on, config.repeats))
    result: dict[str, Any] = {"rows": [asdict(row) for row in rows]}
    lines = compile_report.markdown(rows).rstrip().split("\n")
    if config.saved_model:
        result["saved_model"], found = _saved_model_lines(Path(config.saved_model))
        lines += ["", *found]
    folder = Path(config.output_dir)
    write_text(folder / "xla_report.json", json.dumps(result, indent=1))
    write_text(folder / "xla_report.md", "\n".join([*lines, ""]))
    failed = sum(not row.compiles for row in rows)
    lines.append(f"{len(rows)} entries, {failed} do not compile. Written to {folder}.")
    if failed:
        raise Unfit(lines)
    return lines


def _check_part(name: str, value: str, known: Iterable[str]) -> None:
    """Refuse what is in none of the names."""
    if not any(value in one for one in known):
        raise ConfigError(f"{name}={value}: must be part of {'; '.join(known)}")


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
