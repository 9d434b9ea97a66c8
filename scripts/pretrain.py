#!/usr/bin/env python
"""Train a network on simulated scans of random probes, objects and measurements.

    python scripts/pretrain.py output_dir=outputs/pretrained
    python scripts/pretrain.py network=denoiser output_dir=outputs/denoiser
    python scripts/pretrain.py steps=500 horizon=null output_dir=outputs/trial
    python scripts/pretrain.py resume=outputs/pretrained

network=group makes the weights of run=pretrained, in hours on two cores; network=denoiser those of
solver.regulariser=learned, in about two.
scan_workflow.py uses what was made: run=outputs/pretrained, or
solver.denoiser_weights=outputs/denoiser/prior/weights.npz.

Results: <output_dir>/pinn or prior (weights, history), card.md, metrics.json. All keys:
docs/configuration.md, --cfg job.

Exit code: 0 done, 1 the run failed, 2 the configuration cannot be used, 130, 143 stopped.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("pretrain").main(__doc__)
