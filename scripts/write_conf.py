#!/usr/bin/env python
"""Write the keys of conf/ and docs/configuration.md from the schema; the table of flags in docs/scores.md.

    python scripts/write_conf.py

Run it after a change of a key, a default, a bound or a text of ptycho/, workflows/ or extras/, or of a flag;
a test fails if it was not run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ptycho.installed import missing
from workflows.write_conf import write


def main() -> int:
    """Exit code 0: all files are up to date now; 2: optional parts are missing, whose keys belong to them."""
    if absent := missing():
        sys.stderr.write(f"error: {', '.join(absent)}: must be installed, as their keys are written, too\n")
        return 2
    root = Path(__file__).resolve().parent.parent
    for path in write(root / "conf", root / "docs"):
        print(path.relative_to(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
