#!/usr/bin/env python
"""Which settings explain a scan best? Tries them with Optuna, compares the deviance of held-out patterns.

    python scripts/tune.py data.file=FILE output_dir=outputs/tune trials=30
    python scripts/tune.py data.file=FILE tune.space.probe.modes=[1,6] tune.space.solver.regulariser=null
    python scripts/tune.py data.file=FILE tune.space.data.N=[64,96,128]

The space: section.key of the scan workflow, [low,high] or a list of choices; null: not tried. By default
probe.modes, solver.regulariser, solver.positions, solver.flux, solver.background. All other keys are those of
the scan workflow. The same command resumes a study that was stopped or killed, also with a larger trials=…;
several such commands at a time share it. A trial that does worse than the median of others is ended early.

Written: trials.csv, tuned/best.yaml (for scan --config-dir=… +tuned=best), study.db (for optuna-dashboard).
Settings count as better only by more than twice the error of the difference, pattern by pattern. Keys:
conf/tune.yaml.

Exit code: 0 done, 1 it failed, 2 the arguments or the file cannot be used; 130 stopped.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("tune").main(__doc__)
