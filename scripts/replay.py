#!/usr/bin/env python
"""Play a scan as a beamline would measure it: for tests, demonstrations, and training of staff.

    python scripts/replay.py data.file=FILE rate=200 to=growing.h5                   # HDF5 that grows (SWMR)
    python scripts/replay.py data.file=FILE rate=200 to=frames/                      # TIFFs and a table
    python scripts/replay.py data.file=FILE rate=200 to=zmq://127.0.0.1:5555         # a socket
    python scripts/replay.py data.file=FILE to=growing.h5 faults=[gaps,late,disorder] lag_s=2 complete=false

FILE is any scan that scan_workflow.py reads, or one of simulate_scan.py. All keys: docs/configuration.md.
Watch it with scripts/live.py.

Exit code: 0 played, 1 it could not be written, 2 the keys or the scan cannot be used.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("replay").main(__doc__)
