"""Results in a run's folder, until it is done: from these a stopped run continues."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ptycho.files.atomic import WriteError, write_atomically
from ptycho.training.checkpoint import read_verified, with_digest

log = logging.getLogger(__name__)


class FileCache:
    """A file for each result, by its name; ``least_seconds``: of one that is no block's, to be stored."""

    def __init__(self, folder: Path, least_seconds: float = 1.0) -> None:
        self.folder, self.least_seconds = folder, least_seconds

    def get(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays ``(…)`` of a result; None: it was not made, or its file is damaged."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            arrays = read_verified(path)
        except Exception as error:  # a damaged archive raises whatever its bytes lead to
            log.warning("%s: cannot be used (%s); it is computed again", path, error)
            return None
        log.info("%s: computed before, and not again", path.name)
        return arrays

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store the ``arrays (…)`` of a result; where that fails, warn: the run goes on without."""
        whole = with_digest(dict(arrays))
        try:
            write_atomically(self._path(name), lambda file: np.savez(file, allow_pickle=False, **whole))
        except (WriteError, OSError) as error:
            log.warning("a result was not stored, the run continues: %s", error)

    def remove(self) -> None:
        """Remove them all: the run is over and its results stored."""
        with contextlib.suppress(OSError):
            for path in self.folder.glob("*-*.npz"):
                path.unlink()
            self.folder.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '_')}.npz"
