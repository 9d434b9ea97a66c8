#!/usr/bin/env python
"""Write a configuration for a scan, with a text behind every key, to edit and to keep beside the data.

    python scripts/init.py scan.cxi                                     # settings/scan.yaml, ten keys
    python scripts/init.py scan.cxi size=usual output=settings/mine.yaml
    python scripts/scan_workflow.py --config-dir=. +settings=scan       # reconstruct with it

size: short (about ten keys), usual (those that some need, too), all. All keys: conf/init.yaml.

Exit code: 0 written, 1 it could not be written, 2 the arguments cannot be used.
"""

from functools import partial

from ptycho.command_line.jobs import run_program
from ptycho.command_line.words import place_words
from workflows.convert.init_scan import InitConfig, write_settings

if __name__ == "__main__":
    run_program("init", InitConfig, write_settings, __doc__, partial(place_words, "file"), ["size=short"])
