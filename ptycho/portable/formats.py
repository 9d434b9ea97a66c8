"""A portable network in each of the formats of :mod:`ptycho.portable.table`."""

from __future__ import annotations

import io
import logging
import re
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ptycho.files.atomic import write_atomically, write_text
from ptycho.portable.description import ENTRY, KEY
from ptycho.portable.network import Portable
from ptycho.portable.prior import PortablePrior
from ptycho.portable.stored_weights import onnx_weights, tflite_weights

ONNX_OPSET = 17
AnyPortable = Portable | PortablePrior


def write_saved_model(network: AnyPortable, target: Path) -> None:
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
    module = tf.Module()
    module.serve = serve
    with _Quiet("absl", "tensorflow"):
        tf.saved_model.save(module, str(folder), signatures=serve)


def write_litert(network: AnyPortable, target: Path) -> None:
    """A LiteRT file of built-in operations alone; behind it an archive with the description."""
    content = io.BytesIO(tflite_weights(to_tflite(network.serve), network.description.precision))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(ENTRY, network.description.to_json())
    write_atomically(target, lambda file: file.write(content.getvalue()))


def to_tflite(serve: Any) -> bytes:
    """The flatbuffer; what is not among the built-in operations is an error of the converter."""
    with tempfile.TemporaryDirectory() as scratch, _Quiet("absl", "tensorflow"):
        save(serve, Path(scratch) / "model")
        converter = tf.lite.TFLiteConverter.from_saved_model(f"{scratch}/model")
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        return converter.convert()


def write_onnx(network: AnyPortable, target: Path) -> None:
    """An ONNX file; the description is in its metadata."""
    model = onnx_weights(to_onnx(network.serve), network.description.precision)
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, network.description.to_json()
    write_atomically(target, lambda file: file.write(model.SerializeToString()))


def to_onnx(serve: Any) -> Any:
    """The ONNX ModelProto."""
    import tf2onnx

    with _Quiet("tf2onnx", "tensorflow"):
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


def write_stablehlo(network: AnyPortable, target: Path) -> None:
    """StableHLO text, ``@main`` with the inputs in their order; the description is its first line."""
    text = f"// {KEY}: {network.description.to_json()}\n{to_stablehlo(network.serve)}"
    write_text(target, text)


def to_stablehlo(serve: Any) -> str:
    """The module as text, without what only TensorFlow's own compiler reads."""
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


WRITERS: dict[str, Callable[[AnyPortable, Path], None]] = {
    "saved_model": write_saved_model,
    "litert": write_litert,
    "onnx": write_onnx,
    "stablehlo": write_stablehlo,
}
"""``(network, target)``, for each of :data:`ptycho.portable.table.FORMATS`; targets appear whole or not."""


class _Quiet:
    """Converters speak a lot; their warnings are kept from the terminal, their errors are raised."""

    def __init__(self, *names: str) -> None:
        self._levels = {name: logging.getLogger(name).level for name in names}

    def __enter__(self) -> None:
        for name in self._levels:
            logging.getLogger(name).setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
