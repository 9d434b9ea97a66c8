#!/usr/bin/env python
"""Write the keys of the files in conf/ and the page docs/configuration.md from the schema.

    python scripts/write_conf.py

To be run after a key, a default, a bound or a text has been changed in ptycho/config/ or workflows/; a test
tells when it was not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workflows.command_line.write_conf import write


def main() -> int:
    """Exit code 0: all files are up to date now."""
    root = Path(__file__).resolve().parent.parent
    for path in write(root / "conf", root / "docs" / "configuration.md"):
        print(path.relative_to(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
