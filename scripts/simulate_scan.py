#!/usr/bin/env python
"""Simulate a scan as a beamline would measure it, with its truth.

    python scripts/simulate_scan.py output=scan.cxi n_positions=1000 nphotons=1e6 N=64 seed=1
    python scripts/simulate_scan.py output=scan.h5 probe=ideal_disk sample=blobs path=jittered hot_pixels=3
    python scripts/simulate_scan.py output=scan.cxi imperfections=beamline imperfections.position_px=1

The file holds patterns, positions, probe, units, and as its object the truth, as far as the object's pixels
can show it. The format follows from the name: .cxi, .h5 (ptychodus), .npz. All keys: conf/simulate.yaml.

imperfections=probe|positions|modes|detector|beamline: probe, positions and mask are what a beamline would
know, and what is true lies beside them, under truth (read back by ptycho.simulation.truth.read_truth).

    probe      defocused by a quarter of a wave, with a blob     defocus_um blob astigmatism_waves coma_waves
                                                                 probe_power probe_shift_px
    positions  random errors, drift, scale and rotation          position_px drift_px scale_error rotation_deg
                                                                 backlash_px (path=snake)
    modes      two incoherent modes, one of them given           modes coherence
    detector   background, a gap, bad pixels, point spread       background gap_rows gap_columns saturation
                                                                 point_spread_px; bad_pixels hot_pixels
    beamline   all of these at their usual strength, and flux    flux_rms

Each strength can be overridden, as imperfections.<key>=…: conf/imperfections/none.yaml says what each is.

physics=near_field simulates Fresnel diffraction behind a diffuser (fresnel, magnification), without
imperfections; the keys that such a file is read with are printed.

Exit code: 0 written, 1 it could not be written, 2 the arguments cannot be used.
"""

from ptycho.command_line.jobs import run_program
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

if __name__ == "__main__":
    run_program("simulate", SimulateConfig, simulate_scan, __doc__)
