#!/usr/bin/env python
"""Fourier transforms without an FFT: one matrix product per axis, or split by a radix, in every runtime.

    taskset -c 0,1 python benchmarks/fourier_products.py

A far field and a near field of 16 waves, real and imaginary parts as separate tensors. ``product``: the
transform of exported networks. ``radix 2``, ``radix 4``: one step of decimation in frequency per axis, before
shorter products,

    F[r q + s] = DFT_{N/r}( W_N^{s x} Σ_k W_r^{s k} ψ[x + k N/r] ),

with the frequencies left in the order (s, q), which saves a copy. Times in ms are medians of interleaved
rounds. The column FFT is the transform of TensorFlow, in complex numbers.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnxruntime
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from ptycho.physics import Pair, far_field, from_far_field
from ptycho.physics.waves import fourier_matrix, transformed
from ptycho_export.formats import to_onnx, to_tflite
from ptycho_export.network import frozen

WAVES, ROUNDS, THREADS = 16, 15, 2


def split_rows(waves: Pair, radix: int, inverse: bool) -> Pair:
    """Do one step of decimation along the rows, whose number the radix divides; ``inverse`` undoes it."""
    side = waves.shape[-2]
    short = side // radix
    turn = np.exp(-2j * np.pi * np.outer(np.arange(radix), np.arange(radix)) / radix) / radix**0.5
    twist = np.exp(-2j * np.pi * np.outer(np.arange(radix), np.arange(short)) / side)[:, :, None]
    M, T = (turn.conj().T, twist.conj()) if inverse else (turn, twist)
    parts = [waves[..., k * short : (k + 1) * short, :] for k in range(radix)]
    if inverse:
        parts = [_times(part, T[k]) for k, part in enumerate(parts)]
    mixed = [_sum([_scalar(part, M[s, k]) for k, part in enumerate(parts)]) for s in range(radix)]
    if not inverse:
        mixed = [_times(part, T[s]) for s, part in enumerate(mixed)]
    return Pair(*(tf.concat([getattr(part, name) for part in mixed], -2) for name in ("real", "imag")))


def _times(waves: Pair, factor: np.ndarray) -> Pair:
    return waves * Pair(tf.constant(factor.real, tf.float32), tf.constant(factor.imag, tf.float32))


def _scalar(waves: Pair, factor: complex) -> Pair:
    """Multiply waves by a factor 1, −1, i or −i of a butterfly, and the norm."""
    size = abs(factor)
    a, b = round(factor.real / size), round(factor.imag / size)
    real, imag = (waves.real, waves.imag) if a else (-waves.imag, waves.real)
    return Pair(size * (a or b) * real, size * (a or b) * imag)


def _sum(parts: list[Pair]) -> Pair:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _turned(waves: Pair) -> Pair:
    return Pair(*(tf.linalg.matrix_transpose(part) for part in (waves.real, waves.imag)))


def by_radix(waves: Pair, radix: int, inverse: bool) -> Pair:
    """Return the unitary transform in the order (s, q), or its inverse."""
    short = waves.shape[-1] // radix
    M = fourier_matrix(short)
    M = M.conj().T if inverse else M

    def products(given: Pair) -> Pair:
        blocks = (WAVES, radix, short, radix, short)
        parts = [tf.transpose(tf.reshape(p, blocks), (0, 1, 3, 2, 4)) for p in (given.real, given.imag)]
        done = transformed(Pair(*parts), M)
        back = [tf.transpose(p, (0, 1, 3, 2, 4)) for p in (done.real, done.imag)]
        return Pair(*(tf.reshape(p, given.real.shape) for p in back))

    def steps(given: Pair) -> Pair:
        return _turned(split_rows(_turned(split_rows(given, radix, inverse)), radix, inverse))

    return steps(products(waves)) if inverse else products(steps(waves))


def round_trip(kind: str, N: int, n: int):
    def function(values):
        waves = Pair(values[0], values[1])
        if kind == "product":
            waves = from_far_field(far_field(waves, N), n)
        else:
            radix = int(kind[-1])
            before = (N - n) // 2
            edges = [[0, 0], [before, N - n - before], [before, N - n - before]]
            waves = Pair(*(tf.pad(part, edges) for part in (waves.real, waves.imag)))
            waves = by_radix(by_radix(waves, radix, False), radix, True)
            cut = slice(before, before + n)
            waves = waves[:, cut, cut]
        return {"result": tf.stack([waves.real, waves.imag])}

    return frozen(function, {"values": (2, WAVES, n, n)})


def main() -> None:
    print("| N | support | kind | TensorFlow | LiteRT | ONNX | FFT |\n|---|---|---|---|---|---|---|")
    for N, n in ((64, 32), (64, 64), (128, 64), (128, 128), (256, 128), (256, 256)):
        values = np.random.default_rng(0).normal(size=(2, WAVES, n, n)).astype(np.float32)
        wave, before = tf.complex(*values), (N - n) // 2
        edges = [[0, 0], [before, N - n - before], [before, N - n - before]]
        fft = tf.function(lambda w, e=edges: tf.signal.ifft2d(tf.signal.fft2d(tf.pad(w, e))))
        calls = {"FFT": lambda f=fft, w=wave: f(w).numpy()}
        kinds = ("product", "radix 2", "radix 4")
        for kind in kinds:
            serve = round_trip(kind, N, n)
            lite = Interpreter(model_content=to_tflite(serve), num_threads=THREADS).get_signature_runner()
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = THREADS
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            session = onnxruntime.InferenceSession(to_onnx(serve).SerializeToString(), options)
            calls[f"{kind} tf"] = lambda s=serve, v=values: s(tf.constant(v))["result"].numpy()
            calls[f"{kind} lite"] = lambda r=lite, v=values: r(values=v)["result"]
            calls[f"{kind} onnx"] = lambda s=session, v=values: s.run(None, {"values": v})[0]
            for runtime in ("tf", "lite", "onnx"):
                assert np.abs(calls[f"{kind} {runtime}"]() - values).max() < 1e-4, (kind, runtime)
        times: dict[str, list[float]] = {key: [] for key in calls}
        for _ in range(ROUNDS):
            for key, call in calls.items():
                start = time.perf_counter()
                call()
                times[key].append(time.perf_counter() - start)
        ms = {key: 1e3 * np.median(found) for key, found in times.items()}
        for kind in kinds:
            cells = " | ".join(f"{ms[f'{kind} {runtime}']:.1f}" for runtime in ("tf", "lite", "onnx"))
            print(f"| {N} | {n} | {kind} | {cells} | {ms['FFT']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
