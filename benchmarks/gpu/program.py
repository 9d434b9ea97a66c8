"""A compiled step in a file: its StableHLO text, its inputs, and its expected outputs. Needs NumPy alone.

A step handles many patterns at once, but a file holds few. Arrays with one row per pattern are repeated
``repeat`` times along their first axis when they are used, and so are the expected outputs of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class Program:
    """A step with its inputs and outputs.

    Attributes:
        name: name of the step.
        text: StableHLO, whose ``@main`` takes the inputs and returns the outputs in their order.
        patterns: number of patterns or images of one call.
        repeat: how many times rows are repeated.
        inputs, outputs: ``(array, whether its first axis has one row per pattern)``, rows not repeated.
    """

    name: str
    text: str
    patterns: int
    repeat: int
    inputs: Sequence[tuple[np.ndarray, bool]]
    outputs: Sequence[tuple[np.ndarray, bool]]

    def given(self) -> list[np.ndarray]:
        """The inputs of the step, rows repeated."""
        return [repeated(array, self.repeat if rows else 1) for array, rows in self.inputs]

    def expected(self) -> list[np.ndarray]:
        """The expected outputs of the step, rows repeated."""
        return [repeated(array, self.repeat if rows else 1) for array, rows in self.outputs]

    def write(self, folder: Path) -> Path:
        """Write ``NAME.npz``, compressed; nothing in it is pickled."""
        about = {key: getattr(self, key) for key in ("name", "patterns", "repeat")}
        arrays = {"text": np.frombuffer(self.text.encode(), np.uint8)}
        for kind, values in (("input", self.inputs), ("output", self.outputs)):
            about[f"{kind}_rows"] = [rows for _, rows in values]
            arrays |= {f"{kind}_{k}": array for k, (array, _) in enumerate(values)}
        path = folder / f"{self.name}.npz"
        np.savez_compressed(path, about=np.array(json.dumps(about)), **arrays)
        return path


def read_program(path: Path) -> Program:
    """Read a file of :meth:`Program.write`."""
    with np.load(path) as file:
        about = json.loads(str(file["about"]))
        values = {
            kind: [(file[f"{kind}_{k}"], rows) for k, rows in enumerate(about[f"{kind}_rows"])]
            for kind in ("input", "output")
        }
        text = file["text"].tobytes().decode()
    return Program(about["name"], text, about["patterns"], about["repeat"], values["input"], values["output"])


def repeated(array: np.ndarray, times: int) -> np.ndarray:
    """Return ``(times · B, …)``, all rows of an array ``(B, …)`` repeated in their order."""
    return array if times == 1 else np.concatenate([array] * times)


def worst(values: Arrays, expected: Arrays) -> float:
    """Return the largest difference of any output over its largest magnitude; infinity for another shape."""
    return max(_difference(np.asarray(v), e) for v, e in zip(values, expected, strict=True))


def _difference(values: np.ndarray, expected: np.ndarray) -> float:
    if values.shape != expected.shape or values.dtype != expected.dtype:
        return np.inf
    away = np.abs(values - expected).max(initial=0)
    return float(away / (np.abs(expected).max(initial=0) or 1)) if np.isfinite(away) else np.inf
