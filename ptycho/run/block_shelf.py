"""The fits of the solver in a run's folder, until it is done: what a stopped run goes on from."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import numpy as np

from ptycho.files.atomic import WriteError, write_atomically
from ptycho.reconstruction.solver import Fit
from ptycho.reconstruction.state import State
from ptycho.training.checkpoint import digest

log = logging.getLogger(__name__)


class BlockShelf:
    """A file for each fit, by its name.

    Args:
        folder: where they are; it is made with the first one.
        least_seconds: of a fit that is no block's, to be worth a file.
    """

    def __init__(self, folder: Path, least_seconds: float = 1.0) -> None:
        self.folder, self.least_seconds = folder, least_seconds

    def get(self, name: str) -> Fit | None:
        """The fit of a task; None: it was not made, or its file is damaged."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
            if digest({key: a for key, a in arrays.items() if key != "sha256"}) != str(arrays["sha256"]):
                raise ValueError("its content is not what was written")
            state = State(**{part: arrays[part] for part in State.__annotations__})
            course, (evaluations, converged) = arrays["course"].tolist(), arrays["counts"].tolist()
        except Exception as error:  # a damaged archive raises whatever its bytes lead to
            log.warning("%s: cannot be used (%s); it is fitted again", path, error)
            return None
        log.info("%s: taken from the run that was stopped", path.name)
        return Fit(state, course, evaluations, bool(converged))

    def put(self, name: str, fit: Fit) -> None:
        """Store a fit; where that fails, warn: the run goes on without."""
        arrays = dict(vars(fit.state)) | {
            "course": np.array(fit.course),
            "counts": np.array([fit.evaluations, int(fit.converged)]),
        }
        arrays["sha256"] = np.asarray(digest(arrays))
        try:
            write_atomically(self._path(name), lambda file: np.savez(file, allow_pickle=False, **arrays))
        except (WriteError, OSError) as error:
            log.warning("a fit was not stored, the run continues: %s", error)

    def remove(self) -> None:
        """Remove them all: the run is over and its results stored."""
        with contextlib.suppress(OSError):
            for path in self.folder.glob("*-*.npz"):
                path.unlink()
            self.folder.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '_')}.npz"
