"""NPZ files of ptychodus: a product, the patterns beside it, or both in one.

What they hold: :mod:`~ptycho.readers.product` and :mod:`~ptycho.readers.ptychodus_patterns`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ptycho.readers import ptychodus, ptychodus_patterns
from ptycho.readers.archive import Archive
from ptycho.readers.npz import NpzArchive
from ptycho.readers.product import has_positions
from ptycho.readers.raw_scan import RawScan, ReadOptions

NAME = "ptychodus_npz"


def detect(file: Archive) -> bool:
    return has_positions(file) or ptychodus_patterns.detect(file)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a product and a file of patterns, of which ``path`` is one or both."""
    with NpzArchive(path) as file:
        module = ptychodus_patterns if file.holds(ptychodus_patterns.PATTERNS) else ptychodus
    return replace(module.read(path, options), format=NAME)
