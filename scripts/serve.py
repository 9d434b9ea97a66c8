#!/usr/bin/env python
"""The runs below a folder in a browser on this machine; changes nothing in them.

    python scripts/serve.py outputs/
    python scripts/serve.py outputs/ port=9000

Shows all runs, the newest first, those that are running with the last line of their log, and of each the page
that scripts/report.py writes; a page of a run that goes on loads itself again. It listens on 127.0.0.1 alone;
for runs on another machine: ssh -L 8765:127.0.0.1:8765 MACHINE. Ctrl-C ends it.

Exit code: 0 ended by Ctrl-C, 2 the folder cannot be read, or the port is in use.
"""

from workflows.command_line.one_shot import run_program
from workflows.read.serve import ServeConfig, serve

ONCE = "shows one folder until Ctrl-C; start one for each, with a port of its own"

if __name__ == "__main__":
    run_program("serve", ServeConfig, serve, __doc__, "folder", once=ONCE)
