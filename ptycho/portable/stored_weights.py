"""Weights of the convolutions as float16: stored so, computed with in float32.

The matrices of the Fourier transform and the activations stay float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FLOAT32 = "float32"


def onnx_weights(model: Any, precision: str) -> Any:
    """The ONNX model with the weights of its convolutions stored as ``precision`` says."""
    if precision == FLOAT32:
        return model
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    used = {node.input[1] for node in graph.node if node.op_type == "Conv"}
    first = []
    for tensor in [each for each in graph.initializer if each.name in used]:
        weights, name = numpy_helper.to_array(tensor), f"{tensor.name}_stored"
        graph.initializer.remove(tensor)
        graph.initializer.append(numpy_helper.from_array(weights.astype(np.float16), name))
        first.append(helper.make_node("Cast", [name], [tensor.name], to=TensorProto.FLOAT))
    for node in reversed(first):
        graph.node.insert(0, node)
    return model


def tflite_weights(content: bytes, precision: str) -> bytes:
    """The LiteRT model with the weights of its convolutions stored as ``precision`` says."""
    if precision == FLOAT32:
        return content
    import flatbuffers
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    graph, codes = model.subgraphs[0], [code.builtinCode for code in model.operatorCodes]
    convolutions = [op for op in graph.operators if codes[op.opcodeIndex] == schema.BuiltinOperator.CONV_2D]
    model.operatorCodes.append(_dequantize(schema))
    first = []
    for index in dict.fromkeys(op.inputs[1] for op in convolutions):
        tensor = graph.tensors[index]
        source = model.buffers[tensor.buffer]
        data = np.frombuffer(bytes(source.data), "<f4").reshape(tensor.shape)
        stored, buffer = schema.TensorT(), schema.BufferT()
        stored.shape, stored.name = tensor.shape, tensor.name + b"_stored"
        stored.type = schema.TensorType.FLOAT16
        buffer.data = np.frombuffer(data.astype("<f2").tobytes(), np.uint8)
        model.buffers.append(buffer)
        graph.tensors.append(stored)
        stored.buffer, tensor.buffer, source.data = len(model.buffers) - 1, 0, None  # float32: computed
        op = schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = len(codes), [len(graph.tensors) - 1], [index]
        first.append(op)
    graph.operators = first + graph.operators
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _dequantize(schema: Any) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE
    code.version = 5
    return code
