"""Rows of results as CSV and as Markdown, whose columns are the keys of the first row; the machine."""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

Rows = Sequence[Mapping[str, Any]]


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: Rows) -> str:
    """Return rows as a Markdown table, without rounding."""
    texts = [{key: str(value) for key, value in row.items()} for row in rows]
    return tabulate(texts, headers="keys", tablefmt="pipe", disable_numparse=True)


def last_line(row: Mapping[str, Any]) -> str:
    """Return a row as the line of its table."""
    return markdown([row]).splitlines()[-1]


def write(path: Path, rows: Rows, *notes: str, shown: Rows | None = None) -> None:
    """Write rows as ``path.csv``; print them, or those ``shown``, and write that as ``path.md``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(path.with_suffix(".csv"), rows)
    text = "\n\n".join([*notes, markdown(shown or rows), f"Machine: {json.dumps(machine())}"])
    path.with_suffix(".md").write_text(text + "\n")
    print(text)


def machine() -> dict[str, Any]:
    """Return processor, memory and versions of the machine."""
    import tensorflow as tf

    gpus = [tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU")]
    lines = _read("/proc/cpuinfo").splitlines()
    models = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": [gpu.get("device_name", "unknown") for gpu in gpus],
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
        "load": _read("/proc/loadavg").split(" ")[0],
    }


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""
