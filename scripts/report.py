#!/usr/bin/env python
"""A run's folder as one page to read, to keep and to mail; changes nothing else in it.

    python scripts/report.py outputs/mine                      # outputs/mine/report.html
    python scripts/report.py outputs/mine output=mine.html
    python scripts/report.py outputs                           # outputs/index.html, which links their pages

The page is one file without any request to a network: pictures to zoom into and read out, verdict and flags
in plain words, resolution, misfit, positions, how the file was read, decisions, settings,
versions, and the command that repeats the run. Of a run that did not end it shows what there is.

Exit code: 0 written, 2 the folder holds no run, or the page cannot be written there.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("report").main(__doc__)
