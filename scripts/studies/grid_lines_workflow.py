#!/usr/bin/env python
"""The grid-lines workflow by the path and the flags that it has in the published program.

    python scripts/studies/grid_lines_workflow.py --N 64 --gridsize 2 --output-dir out --nepochs 60

It is ``scripts/grid_lines_workflow.py``; docs/migration.md lists the flags.
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).parents[1] / "grid_lines_workflow.py"), run_name="__main__")
