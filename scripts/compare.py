#!/usr/bin/env python
"""Runs beside each other: one page, a table as CSV, and the table on the terminal; changes no run.

    python scripts/compare.py outputs/a outputs/b
    python scripts/compare.py outputs/a 'outputs/batch/*' output=batch.html      # batch.html, batch.csv

A folder may be a run of any kind, or hold runs: a batch, a sweep. Other folders are named and skipped. For
runs on the same scan the page shows which explains the held-out patterns better, and whether by more
than the error of the difference, and their pictures aligned to each other, with one scale.

Exit code: 0 written, 2 there is no run to compare, or the page cannot be written there.
"""

from ptycho.command_line.console import command_of

if __name__ == "__main__":
    command_of("compare").main(__doc__)
