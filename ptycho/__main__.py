"""The command ``ptycho``, also ``python -m ptycho``: runs the program that is named first.

The programs are in the package ``ptycho_workflows`` where they are installed, in ``workflows`` in a checkout.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> int:
    """Return the exit code of the program."""
    installed = (Path(__file__).resolve().parents[1] / "ptycho_workflows").is_dir()
    name = "ptycho_workflows" if installed else "workflows"
    return int(importlib.import_module(f"{name}.command_line.console").main())


if __name__ == "__main__":
    sys.exit(main())
