#!/usr/bin/env python
"""Reconstruct new data with the networks of a run: no training, no photon counts, no probe file are needed.

    python scripts/infer.py run=outputs/mine data=new.npz output_dir=outputs/new
    python scripts/infer.py run=outputs/mine data=new.npz models=[pinn] stitch=grid batch_size=64
    python scripts/infer.py run=outputs/mine data=new.npz stitch=refined passes=20

data: the NPZ of a run (datasets/N…/gs…/*.npz), or a test.npz of the published program (docs/migration.md).
N, gridsize and region size must be the run's. A probe in the file is used; without one, the run's.
Results: <output_dir>/recons/<model>/recon.npz, visuals/; metrics.json if the file has the truth.
All keys: conf/lite/infer.yaml.

Exit code: 0 done, 1 it failed, 2 the keys or an input file cannot be used, 130, 143 stopped.
"""

from functools import partial

from ptycho.command_line.jobs import run_program
from ptycho.command_line.words import quote_paths
from ptycho.training.interrupt import StopRequest
from workflows.reconstruct.infer_config import InferConfig, infer

if __name__ == "__main__":
    read = partial(quote_paths, ["run", "data", "output_dir"])
    with StopRequest() as stop:
        run_program("lite/infer", InferConfig, partial(infer, stop=stop), __doc__, read)
