"""The formats of portable networks, one table. TensorFlow is imported where a network is written."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ptycho.config import ConfigError
from ptycho.files.atomic import write_atomically, write_text
from ptycho.portable.description import ENTRY, KEY
from ptycho.portable.runtimes import Exported, open_litert, open_onnx
from ptycho.portable.stored_weights import onnx_weights, tflite_weights

if TYPE_CHECKING:
    import tensorflow as tf

    from ptycho.portable.network import Portable

ONNX_OPSET = 17
PRECISIONS = ("float32", "float16")


@contextlib.contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Keep the warnings of converters from the terminal; their errors are raised."""
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def write_saved_model(network: Portable, target: Path) -> None:
    """A SavedModel with the signature ``serving_default``; it loads with TensorFlow alone."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export.") as scratch:
        folder = Path(scratch) / "model"
        save(network.serve, folder)
        extra = folder / "assets.extra"
        extra.mkdir()
        (extra / ENTRY).write_text(network.description.to_json(), encoding="utf-8")
        old = Path(scratch) / "old"
        if target.exists():
            target.rename(old)
        try:
            folder.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


def save(serve: Any, folder: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.serve = serve
    with _quiet("absl", "tensorflow"):
        tf.saved_model.save(module, str(folder), signatures=serve)


def write_litert(network: Portable, target: Path) -> None:
    """A LiteRT file of built-in operations alone; behind it an archive with the description."""
    content = io.BytesIO(tflite_weights(to_tflite(network.serve), network.description.precision))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(ENTRY, network.description.to_json())
    write_atomically(target, lambda file: file.write(content.getvalue()))


def to_tflite(serve: Any) -> bytes:
    """The flatbuffer; what is not among the built-in operations is an error of the converter."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as scratch, _quiet("absl", "tensorflow"):
        save(serve, Path(scratch) / "model")
        converter = tf.lite.TFLiteConverter.from_saved_model(f"{scratch}/model")
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        return converter.convert()


def write_onnx(network: Portable, target: Path) -> None:
    """An ONNX file; the description is in its metadata."""
    model = onnx_weights(to_onnx(network.serve), network.description.precision)
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, network.description.to_json()
    write_atomically(target, lambda file: file.write(model.SerializeToString()))


def to_onnx(serve: Any) -> Any:
    """The ONNX ModelProto."""
    import tf2onnx

    with _quiet("tf2onnx", "tensorflow"):
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


def write_stablehlo(network: Portable, target: Path) -> None:
    """StableHLO text, ``@main`` with the inputs in their order; the description is its first line."""
    text = f"// {KEY}: {network.description.to_json()}\n{to_stablehlo(network.serve)}"
    write_text(target, text)


def to_stablehlo(serve: Any) -> str:
    """The module as text, without what only TensorFlow's own compiler reads."""
    import tensorflow as tf

    (name,) = serve.get_concrete_function().structured_outputs
    compiled = tf.function(
        lambda *inputs: serve(*inputs)[name],
        input_signature=serve.input_signature,
        autograph=False,
        jit_compile=True,
    )
    return stablehlo_text(compiled, [tf.zeros(spec.shape, spec.dtype) for spec in serve.input_signature])


def stablehlo_text(compiled: Any, examples: Sequence[tf.Tensor]) -> str:
    """The text of a ``tf.function(jit_compile=True)`` for inputs like ``examples``."""
    text = compiled.experimental_get_compiler_ir(*examples)(stage="stablehlo")
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    text = re.sub(r' loc\((?:"[^"]*"|[^()"]|\([^()]*\))*\)', "", text)
    text = re.sub(r" \{mhlo\.frontend_attributes = \{[^}]*\}\}", "", text)
    return re.sub(r"module @\S+ attributes \{.*\} \{", "module @ptycho {", text)


def open_exported(path: str | Path, threads: int | None = None) -> Exported:
    """The network in an exported file.

    Args:
        path: of a ``.tflite`` or ``.onnx`` file.
        threads: of the runtime; None: one for each processor that this process may use.

    Raises:
        ConfigError: there is no such file, it is damaged or of another version, or its runtime is missing.
    """
    path = Path(path)
    runtimes = {form.suffix: form.open for form in FORMATS.values() if form.open is not None}
    if path.suffix.lower() not in runtimes:
        raise ConfigError(
            f"model={path}: cannot be run here; it must be a {' or '.join(runtimes)} file. A SavedModel is "
            "run by TensorFlow, StableHLO by the compiler that reads it"
        )
    if not path.is_file():
        raise ConfigError(f"model={path}: no such file")
    return runtimes[path.suffix.lower()](path, threads or len(os.sched_getaffinity(0)))


class Format(NamedTuple):
    """A format of exported networks.

    Attributes:
        suffix: of its names; empty for a folder.
        write: ``(network, target)``; targets appear whole or not.
        open: ``(path, threads)``, where it can be run here.
        precisions: ways to store the weights.
        any_batch: the batch may stay open.
        package: that must be installed to write it.
    """

    suffix: str
    write: Callable[[Portable, Path], None]
    open: Callable[[Path, int], Exported] | None = None
    precisions: tuple[str, ...] = ("float32",)
    any_batch: bool = False
    package: str | None = None


FORMATS = {
    "saved_model": Format("", write_saved_model, any_batch=True),
    "litert": Format(".tflite", write_litert, open_litert, PRECISIONS),
    "onnx": Format(".onnx", write_onnx, open_onnx, PRECISIONS, package="tf2onnx"),
    "stablehlo": Format(".mlir", write_stablehlo),
}
