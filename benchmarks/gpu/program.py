"""A compiled step in a file: its StableHLO text, its inputs, and the outputs they must give. NumPy alone.

Patterns that a step handles at once are many, and a file holds few of them: arrays with a row a pattern are
repeated ``repeat`` times along their first axis when they are used. Then what a row gives is repeated too.
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
    """A step and what it computes.

    Attributes:
        name: of the step.
        text: StableHLO, whose ``@main`` takes the inputs and returns the outputs in their order.
        patterns: patterns or images that one call handles.
        repeat: how often rows are repeated.
        inputs, outputs: ``(array, whether its first axis is a row a pattern)``, rows not repeated.
    """

    name: str
    text: str
    patterns: int
    repeat: int
    inputs: Sequence[tuple[np.ndarray, bool]]
    outputs: Sequence[tuple[np.ndarray, bool]]

    def given(self) -> list[np.ndarray]:
        """The inputs as the step takes them."""
        return [repeated(array, self.repeat if rows else 1) for array, rows in self.inputs]

    def expected(self) -> list[np.ndarray]:
        """The outputs as the step returns them."""
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
    """Read what :meth:`Program.write` wrote."""
    with np.load(path) as file:
        about = json.loads(str(file["about"]))
        values = {
            kind: [(file[f"{kind}_{k}"], rows) for k, rows in enumerate(about[f"{kind}_rows"])]
            for kind in ("input", "output")
        }
        text = file["text"].tobytes().decode()
    return Program(about["name"], text, about["patterns"], about["repeat"], values["input"], values["output"])


def repeated(array: np.ndarray, times: int) -> np.ndarray:
    """``(B, …)`` to ``(times · B, …)``, all rows in their order again and again."""
    return array if times == 1 else np.concatenate([array] * times)


def worst(values: Arrays, expected: Arrays) -> float:
    """Return the largest difference of any output over its largest magnitude; infinity for another shape."""
    return max(_difference(np.asarray(v), e) for v, e in zip(values, expected, strict=True))


def _difference(values: np.ndarray, expected: np.ndarray) -> float:
    if values.shape != expected.shape or values.dtype != expected.dtype:
        return np.inf
    away = np.abs(values - expected).max(initial=0)
    return float(away / (np.abs(expected).max(initial=0) or 1)) if np.isfinite(away) else np.inf
