#!/usr/bin/env python
"""Reconstruct a scan while it is measured.

    python scripts/live.py watch=/beamline/scan_0042.h5 output_dir=outputs/live      # HDF5 that grows (SWMR)
    python scripts/live.py watch=frames/ data.positions_file=frames/positions.csv    # a folder of TIFF or NPY
    python scripts/live.py watch=zmq://127.0.0.1:5555                                # a socket
    python scripts/live.py resume=outputs/live                                   # go on after an interruption

Open outputs/live/live.html in a browser: amplitude, phase, probe, the misfit of the held-out patterns, rates
and backlog; it reloads itself (live.png, live.json: the same for other programs). All frames and positions
are stored in outputs/live/live at once. Once the scan is complete, all patterns are fitted together for
finish_s seconds, and then the run of scan_workflow.py follows, which assesses the result.

Set what the source lacks (energy, distance, unit, …) by the section data, as for scan_workflow.py.
All keys: docs/configuration.md. A scan to try it with: scripts/replay.py.

Exit code: 0 done, 1 it failed, 2 the keys or the source cannot be used, 130, 143 stopped.
"""

from ptycho.command_line.console import command_of
from ptycho.command_line.training_jobs import later

if __name__ == "__main__":
    command_of("live").main(__doc__, later("workflows.reconstruct.scan:run"))
