#!/usr/bin/env python
"""Does XLA work on this machine, and does everything here compile? The first thing to run on a new GPU.

    python scripts/xla_report.py                       every operator, network, dtype and device
    python scripts/xla_report.py only=translate dtypes=[float32,complex64]
    python scripts/xla_report.py saved_model=FOLDER    also list what XLA cannot compile in a saved model

All keys: conf/xla_report.yaml.

Exit code: 0 all compile, 1 something does not, 2 nothing was tried: XLA does not work here, or a wrong key.
"""

from workflows.command_line.one_shot import run_program
from workflows.doctor.xla import XlaReportConfig, report

if __name__ == "__main__":
    run_program("xla_report", XlaReportConfig, report, __doc__, words=["repeats=5"])
