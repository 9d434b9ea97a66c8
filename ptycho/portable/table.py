"""The formats that a network is exported in, as far as they are known without TensorFlow."""

from __future__ import annotations

from typing import NamedTuple

PRECISIONS = ("float32", "float16")


class Format(NamedTuple):
    """One of :data:`FORMATS`.

    Attributes:
        suffix: of its names; empty for a folder.
        precisions: ways to store the weights.
        any_batch: the batch may stay open.
        package: that must be installed.
    """

    suffix: str
    precisions: tuple[str, ...] = PRECISIONS[:1]
    any_batch: bool = False
    package: str | None = None


FORMATS = {
    "saved_model": Format("", any_batch=True),
    "litert": Format(".tflite", PRECISIONS),
    "onnx": Format(".onnx", PRECISIONS, package="tf2onnx"),
    "stablehlo": Format(".mlir"),
}
"""What writes each is in :data:`ptycho.portable.formats.WRITERS`."""
