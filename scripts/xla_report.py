#!/usr/bin/env python
"""Does XLA work on this machine, and does everything here compile? The first thing to run on a new GPU.

    python scripts/xla_report.py                       every operator, network, dtype and device
    python scripts/xla_report.py only=translate dtypes=[float32,complex64]
    python scripts/xla_report.py saved_model=FOLDER    also list what XLA cannot compile in a saved model

All keys: conf/xla_report.yaml.

Exit code: 0 all compile, 1 something does not, 2 nothing was tried: XLA does not work here, or a wrong key.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
from workflows.command_line.jobs import EXIT_FAILED, leave
from workflows.command_line.one_shot import perform
from workflows.doctor.xla import XlaReportConfig, report


def main() -> int:
    """See the module's text for the exit code."""
    outcomes = []

    def do(config: XlaReportConfig) -> list[str]:
        lines, all_compile = report(config)
        outcomes.append(all_compile)
        return lines

    code = perform("xla_report", XlaReportConfig, do, __doc__, sys.argv[1:] or ["repeats=5"])
    return code if all(outcomes) else EXIT_FAILED


if __name__ == "__main__":
    leave(main)
