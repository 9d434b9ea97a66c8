"""The command ``ptycho``, also ``python -m ptycho``: runs the program that is named first."""

from __future__ import annotations

import sys

from ptycho.command_line.console import main

if __name__ == "__main__":
    sys.exit(main())
