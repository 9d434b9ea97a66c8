"""What runs exported graphs, as a table: each runs a function of real tensors, or refuses."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ptycho.portable.formats import save, to_onnx, to_stablehlo, to_tflite

Arrays = Sequence[np.ndarray]
STABLEHLO_TEXT = 4  # version of XlaCallModule that takes a module as text


def by_saved_model(serve: Any, inputs: Arrays) -> np.ndarray:
    """TensorFlow without XLA, from a SavedModel."""
    with tempfile.TemporaryDirectory() as folder:
        save(serve, Path(folder) / "model")
        loaded = tf.saved_model.load(f"{folder}/model").signatures["serving_default"]
        names = [spec.name for spec in serve.input_signature]
        found = loaded(**{name: tf.constant(value) for name, value in zip(names, inputs, strict=True)})
        return next(iter(found.values())).numpy()


def by_xla(serve: Any, inputs: Arrays) -> np.ndarray:
    """TensorFlow with XLA."""
    found = tf.function(serve, autograph=False, jit_compile=True)(*map(tf.constant, inputs))
    return next(iter(found.values())).numpy()


def by_litert(serve: Any, inputs: Arrays) -> np.ndarray:
    """LiteRT with its built-in operations."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=to_tflite(serve)).get_signature_runner()
    names = [spec.name for spec in serve.input_signature]
    return next(iter(runner(**dict(zip(names, inputs, strict=True))).values()))


def by_onnx(serve: Any, inputs: Arrays) -> np.ndarray:
    """ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    content = to_onnx(serve).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [spec.name for spec in serve.input_signature]
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]


def by_stablehlo(serve: Any, inputs: Arrays) -> np.ndarray:
    """StableHLO text, parsed and compiled again: what another compiler is given."""
    (spec,) = serve.get_concrete_function().structured_outputs.values()
    return run_stablehlo(to_stablehlo(serve), inputs, [(tuple(spec.shape), spec.dtype)])[0]


def run_stablehlo(text: str, inputs: Arrays, outputs: Sequence[tuple[tuple[int, ...], Any]]) -> Arrays:
    """Return what StableHLO ``text`` computes; ``outputs`` are their shapes and dtypes."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    shapes, dtypes = zip(*outputs, strict=True)
    found = gen_xla_ops.xla_call_module(
        args=list(map(tf.constant, inputs)),
        version=STABLEHLO_TEXT,
        module=text.encode(),
        Sout=list(shapes),
        Tout=list(dtypes),
        platforms=["CPU"],
    )
    return [value.numpy() for value in found]


CONSUMERS: dict[str, Callable[[Any, Arrays], np.ndarray]] = {
    "TensorFlow": by_saved_model,
    "TensorFlow XLA": by_xla,
    "LiteRT": by_litert,
    "ONNX Runtime": by_onnx,
    "StableHLO": by_stablehlo,
}


def tried(consumer: str, serve: Any, inputs: Arrays, expected: np.ndarray) -> tuple[float | None, str]:
    """The largest difference from ``expected (…)``, of its largest magnitude; or None, and why it refuses."""
    try:
        found = CONSUMERS[consumer](serve, inputs)
    except Exception as error:  # whatever a converter or a runtime raises is the finding
        return None, f"{type(error).__name__}: {' '.join(str(error).split())}"
    if found.shape != expected.shape:
        return None, f"gives the shape {found.shape} and not {expected.shape}"
    values, expected = np.asarray(found, complex), np.asarray(expected, complex)
    largest = float(np.abs(expected).max(initial=0)) or 1.0
    difference = np.abs(values - expected).max(initial=0)
    return float(difference / largest), ""
