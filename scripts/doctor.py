#!/usr/bin/env python
"""Is this machine fit? Versions, cores, memory, disk, HDF5 filters, XLA, and what is missing.

    python scripts/doctor.py
    python scripts/doctor.py output_dir=/beamline/outputs      the disk that runs will be written to
    python scripts/doctor.py xla=false                         without TensorFlow: in a second

ok: no problem. note: it works with a restriction. FAIL: it does not work; the arrow gives the remedy.
All keys: conf/doctor.yaml.

Exit code: 0 nothing fails, 1 something does, 2 the arguments cannot be used.
"""

from ptycho.command_line.jobs import run_program
from workflows.doctor import DoctorConfig, report

if __name__ == "__main__":
    run_program("doctor", DoctorConfig, report, __doc__, usual=["xla=true"])
