#!/usr/bin/env python
"""What is in a measured scan? Reads it, changes nothing, and draws one picture.

    python scripts/inspect_scan.py FILE
    python scripts/inspect_scan.py FILE data.keys.patterns=/data data.keys.positions=/xy data.unit=um
    python scripts/inspect_scan.py FILE data.N=128 data.energy_eV=8800 output=scan.png

FILE is HDF5, NPZ or TIFF, or a folder of TIFFs. Every line says what was found and why; where it is wrong,
say so by the key in it. All keys of the section data: conf/measured/default.yaml.

Exit code: 0 understood, 2 the file cannot be used as it is; the message names the key that helps.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hydra import compose, initialize_config_dir

from workflows.command_line import CONF, EXIT_USAGE, MISTAKES, fail, leave, log_to_stderr
from workflows.inspect_scan import inspect_config, report


def main(words: Sequence[str] | None = None) -> int:
    """See the module's text for the exit code."""
    words = sys.argv[1:] if words is None else list(words)
    if not words or {"-h", "--help"} & set(words):
        sys.stdout.write(f"{__doc__}\n")
        return 0 if words else EXIT_USAGE
    log_to_stderr()
    file, *overrides = words
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            composed = compose("inspect", [*overrides, f"data.file={_quoted(file)}"])
        print("\n".join(report(inspect_config(composed))))
    except Exception as error:
        return fail(error, MISTAKES)
    return 0


def _quoted(text: str) -> str:
    """A path as Hydra's grammar wants it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    leave(main)
