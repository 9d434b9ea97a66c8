#!/usr/bin/env python
"""What is in a measured scan? Reads it, changes nothing, and draws one picture.

    python scripts/inspect_scan.py FILE
    python scripts/inspect_scan.py FILE data.keys.patterns=/data data.keys.positions=/xy data.unit=um
    python scripts/inspect_scan.py FILE data.N=128 data.energy_eV=8800 output=scan.png

FILE is HDF5, NPZ or TIFF, or a folder of TIFFs. Every line has a finding and its reason; if it is wrong, set
the key in it. All keys of the section data: docs/configuration.md.

Exit code: 0 the file can be read, 2 the file cannot be used as it is; the message names the key to set.
"""

from functools import partial

from ptycho.command_line.jobs import run_program
from ptycho.command_line.words import place_words
from workflows.convert.inspect_scan import InspectConfig, report

if __name__ == "__main__":
    run_program("inspect", InspectConfig, report, __doc__, partial(place_words, "data.file"))
