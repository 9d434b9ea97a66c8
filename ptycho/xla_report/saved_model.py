"""Which operations of a saved model XLA cannot compile, and which run nowhere but under XLA."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import kernels

XLA_DEVICES = ("XLA_CPU_JIT", "XLA_GPU_JIT")
# structure of a graph, which the compiler resolves itself
STRUCTURAL = {"Placeholder", "PlaceholderWithDefault", "NoOp", "_Arg", "_Retval", "VarHandleOp", "Const"}
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}


class Findings(NamedTuple):
    """Names of operations, or of functions for ``must_compile``.

    Attributes:
        operations: how often each operation occurs in what the signatures compute.
        without_kernel: for each XLA device, the operations it has no kernel for.
        only_xla: operations with kernels for XLA devices only.
        must_compile: functions marked to run compiled, which fail where XLA is not present.
    """

    operations: dict[str, int]
    without_kernel: dict[str, list[str]]
    only_xla: list[str]
    must_compile: list[str]


def inspect_saved_model(folder: str | Path) -> Findings:
    """Look up the kernels of every operation that the signatures of a SavedModel reach.

    Saving and restoring are left out: they are part of the file, not of the computation.

    Raises:
        FileNotFoundError: ``folder`` holds no ``saved_model.pb``.
    """
    file = Path(folder) / "saved_model.pb"
    if not file.is_file():
        raise FileNotFoundError(f"{folder} is not a SavedModel: it holds no saved_model.pb.")
    model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    counts: dict[str, int] = {}
    must_compile: set[str] = set()
    for graph in model.meta_graphs:
        functions = {f.signature.name: f for f in graph.graph_def.library.function}
        for node in _reached(_signature_nodes(graph), functions):
            counts[node.op] = counts.get(node.op, 0) + 1
            called = functions.get(node.attr["f"].func.name) if "f" in node.attr else None
            if any(_marked(owner) for owner in (node, called) if owner is not None):
                must_compile.add(node.attr["f"].func.name or node.name)
    looked_up = sorted(set(counts) - STRUCTURAL - CALLS)
    on = {op: {k.device_type for k in kernels.get_registered_kernels_for_op(op).kernel} for op in looked_up}
    return Findings(
        dict(sorted(counts.items())),
        {device: [op for op in looked_up if device not in on[op]] for device in XLA_DEVICES},
        [op for op in looked_up if on[op] and not on[op] - set(XLA_DEVICES)],
        sorted(must_compile),
    )


def _marked(owner: Any) -> bool:
    return "_XlaMustCompile" in owner.attr and owner.attr["_XlaMustCompile"].b


def _signature_nodes(graph: Any) -> list[Any]:
    """The nodes of the main graph that the outputs of the signatures depend on."""
    nodes = {n.name: n for n in graph.graph_def.node}
    names = [
        out.name
        for key, s in graph.signature_def.items()
        if not key.startswith("__")
        for out in s.outputs.values()
    ]
    found: dict[str, Any] = {}
    while names:
        name = names.pop().lstrip("^").split(":")[0]
        if name not in found:
            found[name] = nodes[name]
            names += nodes[name].input
    return list(found.values())


def _reached(nodes: list[Any], functions: dict[str, Any]) -> Iterator[Any]:
    """Nodes, and those of every function they call, each function once."""
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attr.values():
            called = [attribute.func.name, *(f.name for f in attribute.list.func)]
            for name in (n for n in called if n in functions and n not in seen):
                seen.add(name)
                waiting += functions[name].node_def
