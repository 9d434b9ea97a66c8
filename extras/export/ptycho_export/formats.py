"""The formats of portable networks, one table. TensorFlow is imported where a network is written."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ptycho.config import ConfigError
from ptycho.files.atomic import write_atomically
from ptycho_export.runtimes import ENTRY, KEY, Description, Exported, open_litert, open_onnx

ONNX_OPSET = 17


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings of converters from the terminal; their errors are raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def write_litert(serve: Any, description: Description, target: Path) -> None:
    """Write a LiteRT file of built-in operations alone; behind it an archive with the description."""
    content = io.BytesIO(to_tflite(serve))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(ENTRY, description.to_json())
    write_atomically(target, lambda file: file.write(content.getvalue()))


def to_tflite(serve: Any) -> bytes:
    """Return the flatbuffer; what is not among the built-in operations is an error of the converter."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as scratch, _quiet():
        module = tf.Module()
        module.serve = serve
        tf.saved_model.save(module, f"{scratch}/model", signatures=serve)
        converter = tf.lite.TFLiteConverter.from_saved_model(f"{scratch}/model")
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        return converter.convert()


def write_onnx(serve: Any, description: Description, target: Path) -> None:
    """Write an ONNX file; the description is in its metadata."""
    model = to_onnx(serve)
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, description.to_json()
    write_atomically(target, lambda file: file.write(model.SerializeToString()))


def to_onnx(serve: Any) -> Any:
    """Return the ONNX ModelProto."""
    import tf2onnx

    with _quiet():
        model, _ = tf2onnx.convert.from_function(
            serve, input_signature=serve.input_signature, opset=ONNX_OPSET
        )
    _share_constants(model.graph)
    return model


def _share_constants(graph: Any) -> None:
    """Store equal constants once: every transform has brought its own copy of its matrices."""
    names: dict[tuple, str] = {}
    instead = {}
    for tensor in list(graph.initializer):
        content = (tensor.data_type, tuple(tensor.dims), tensor.raw_data)
        if tensor.raw_data and names.setdefault(content, tensor.name) != tensor.name:
            instead[tensor.name] = names[content]
            graph.initializer.remove(tensor)
    for node in graph.node:
        node.input[:] = [instead.get(name, name) for name in node.input]


def open_exported(path: str | Path, threads: int | None = None) -> Exported:
    """Open the network in an exported file.

    Args:
        path: of a ``.tflite`` or ``.onnx`` file.
        threads: of the runtime; None: one for each processor that this process may use.

    Raises:
        ConfigError: there is no such file, it is damaged or of another version, or its runtime is missing.
    """
    path = Path(path)
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise ConfigError(f"model={path}: must be a {' or '.join(FORMATS)} file")
    if not path.is_file():
        raise ConfigError(f"model={path}: no such file")
    return form.open(path, threads or len(os.sched_getaffinity(0)))


class Format(NamedTuple):
    """A format of exported networks."""

    write: Callable[[Any, Description, Path], None]  # (network as a function, description, target)
    open: Callable[[Path, int], Exported]  # (path, threads), by the format's own runtime
    package: str | None = None  # that must be installed to write it


FORMATS = {".tflite": Format(write_litert, open_litert), ".onnx": Format(write_onnx, open_onnx, "tf2onnx")}
"""By the endings of their files."""
