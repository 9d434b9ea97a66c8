"""Optional parts of the program: each is a package of its own in ``extras/``, installed separately."""

from __future__ import annotations

import sys
from importlib.util import find_spec

PARTS = {f"ptycho_{name}": f"extras/{name}" for name in ("live", "export", "images", "pretrain", "tune")}
EXIT_USAGE = 2


def missing() -> list[str]:
    """Return the folders of the parts that are not installed."""
    return [folder for package, folder in PARTS.items() if find_spec(package) is None]


def require(package: str) -> None:
    """End the process with the exit code 2 and the remedy, unless a part is installed."""
    if find_spec(package) is None:
        folder = PARTS[package]
        sys.stderr.write(
            f"error: this command is an optional part, {folder}, which is not installed: "
            f"pip install -c constraints.txt -e {folder} in a checkout of the program\n"
        )
        raise SystemExit(EXIT_USAGE)
