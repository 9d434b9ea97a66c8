#!/usr/bin/env python
"""Write the measured scan of a run for other programs: patterns, positions, probe and object.

    python scripts/export_scan.py run=outputs/mine output=mine.h5
    python scripts/export_scan.py run=outputs/mine output=mine.cxi recon=pinn

The format follows from the name: .h5 is a product of ptychodus, .cxi is CXI 1.6, .npz that of the published
PtychoPINN. The patterns are read again from the measured file. All keys: conf/export.yaml.

Exit code: 0 written, 1 it could not be written, 2 the run or the arguments cannot be used.
"""

from ptycho.command_line.jobs import run_program
from workflows.convert.export_scan import ExportConfig, export

if __name__ == "__main__":
    run_program("export", ExportConfig, export, __doc__)
