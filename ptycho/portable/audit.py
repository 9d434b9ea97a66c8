"""Every operation of a graph, alone, tried with every consumer."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from ptycho.portable.consumers import CONSUMERS, tried
from ptycho.portable.formats import to_tflite
from ptycho.portable.network import Portable

log = logging.getLogger(__name__)

STRUCTURE = ("Placeholder", "Const", "Identity", "NoOp")  # of a graph, and no computation
AGREES = 1e-5  # of the largest magnitude


@dataclass(frozen=True)
class Row:
    """An operation, how often it occurs, and what each consumer says: empty where it agrees."""

    operation: str
    dtype: str
    count: int
    says: dict[str, str]


def audited(network: Portable) -> list[str]:
    """The audit of a network as lines of Markdown."""
    d, rng = network.description, np.random.default_rng(0)
    groups = (d.batch_size or 1, d.group_size)
    probe = np.stack([d.probe.real, d.probe.imag])
    inputs = (
        np.abs(rng.normal(size=(*groups, d.N, d.N))),
        rng.uniform(-1, 1, (*groups, 2)),
        np.broadcast_to(probe[:, None] if d.modes else probe, d.probe_shape),
    )
    rows = audit(network.serve, [np.asarray(value, np.float32) for value in inputs])
    return [*table(rows), "", *summary(rows, custom_operations(to_tflite(network.serve)))]


def audit(serve: Any, inputs: Sequence[np.ndarray]) -> list[Row]:
    """A row for every kind of operation and dtype in a frozen function, with values that it meets there."""
    flat = convert_variables_to_constants_v2(serve.get_concrete_function())
    operations = [op for op in flat.graph.get_operations() if op.type not in STRUCTURE and op.outputs]
    key = {op: (op.type, op.outputs[0].dtype.name) for op in operations}
    examples = {key[op]: op for op in operations}
    wanted = [tensor for op in examples.values() for tensor in (*op.inputs, op.outputs[0])]
    values = flat.prune(flat.inputs, wanted)(*map(tf.constant, inputs))
    known = {tensor.ref(): value.numpy() for tensor, value in zip(wanted, values, strict=True)}
    counts = Counter(key.values())
    rows = []
    for (kind, dtype), op in sorted(examples.items()):
        log.info("%s %s", kind, dtype)
        says = tried_alone(op, [known[tensor.ref()] for tensor in op.inputs], known[op.outputs[0].ref()])
        rows.append(Row(kind, dtype, counts[kind, dtype], says))
    return rows


def tried_alone(op: tf.Operation, values: list[np.ndarray], expected: np.ndarray) -> dict[str, str]:
    """What each consumer says to one operation, that gives ``expected (…)``; constant inputs stay so."""
    open_ = [k for k, tensor in enumerate(op.inputs) if tensor.op.type != "Const"]
    node = tf.compat.v1.NodeDef()
    node.CopyFrom(op.node_def)
    graph = tf.compat.v1.GraphDef(node=[node])
    node = graph.node[0]
    node.name = "alone"
    del node.input[:]
    for k, value in enumerate(values):
        node.input.append(f"input_{k}")
        source = tf.compat.v1.NodeDef(name=f"input_{k}", op="Placeholder" if k in open_ else "Const")
        source.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
        if k not in open_:
            source.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        graph.node.append(source)

    def function(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        given = {f"input_{k}:0": tensor for k, tensor in zip(open_, inputs, strict=True)}
        return {"result": tf.graph_util.import_graph_def(graph, given, ["alone:0"], name="")[0]}

    signature = [tf.TensorSpec(values[k].shape, values[k].dtype, name=f"input_{k}") for k in open_]
    serve = tf.function(function, input_signature=signature, autograph=False)
    inputs = [values[k] for k in open_]
    says = {}
    for name in CONSUMERS:
        difference, reason = tried(name, serve, inputs, expected)
        wrong = difference is not None and not difference <= AGREES
        says[name] = f"differs by {difference:.0e}" if wrong else reason
    return says


def table(rows: list[Row]) -> list[str]:
    """The rows as a table."""
    names = list(CONSUMERS)
    lines = [f"| operation | dtype | count | {' | '.join(names)} |", f"|{'---|' * (len(names) + 3)}"]
    for row in rows:
        cells = ["yes" if not row.says[name] else f"no: {row.says[name][:60]}" for name in names]
        safe = [cell.replace("|", "/") for cell in cells]
        lines.append(f"| {row.operation} | {row.dtype} | {row.count} | {' | '.join(safe)} |")
    return lines


def summary(rows: list[Row], custom: int) -> list[str]:
    """How many operations there are, and how many each consumer refuses."""
    total = sum(row.count for row in rows)
    refused = {name: sum(bool(row.says[name]) for row in rows) for name in CONSUMERS}
    listed = ", ".join(f"{name} {count}" for name, count in refused.items())
    return [
        f"{total} operations of {len(rows)} kinds; kinds refused: {listed}",
        f"LiteRT: {custom} operations that are not built in (Flex or custom)",
    ]


def custom_operations(content: bytes) -> int:
    """How many operations of a LiteRT flatbuffer are not built in."""
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    codes = [code.builtinCode for code in model.operatorCodes]
    custom = schema.BuiltinOperator.CUSTOM
    return sum(codes[op.opcodeIndex] == custom for graph in model.subgraphs for op in graph.operators)
