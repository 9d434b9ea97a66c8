"""Exported files: what a network states about itself, and the consumer's own runtime that runs it.

The description is JSON inside the file. Each runtime is a function ``(path, threads) → Exported``; its
package is imported when it is needed. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import json
import sys
import typing
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.reading import parse_json, shown

VERSION = 3
ENTRY = "ptycho.json"  # of the archive that a LiteRT file ends with
KEY = "ptycho"  # of ONNX's metadata


@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """Sizes and units of an exported network."""

    name: str  # pinn or baseline
    kind: str  # of its generator
    run: str  # folder
    N: int
    group_size: int  # C
    region_size: int  # R
    batch_size: int  # B
    modes: int  # K of its probe; 0: the probe has no axis of modes
    support: int  # even side of the central square outside which the probe counts as zero
    exact: bool  # fractions of a pixel move the probe rather than the object
    patterns_per_group: int | None  # where C is 1: so many of each group of the data; None: all
    weights_sha256: str  # of the run's weights.npz

    @property
    def probe_shape(self) -> tuple[int, ...]:
        """Shape of the input ``probe``: real and imaginary part first."""
        return (2, *([self.modes] if self.modes else []), self.N, self.N)

    @property
    def signature(self) -> str:
        """Inputs and output with their shapes."""
        groups, probe = (f"{self.batch_size} × {self.group_size}", " × ".join(map(str, self.probe_shape)))
        return (
            f"amplitudes {groups} × {self.N} × {self.N}, offsets {groups} × 2, probe {probe} → "
            f"regions {self.batch_size} × 2 × {self.region_size} × {self.region_size}"
        )

    def to_json(self) -> str:
        """Return one line, which :meth:`from_json` reads back."""
        return json.dumps({"version": VERSION} | asdict(self))

    @staticmethod
    def from_json(text: str | bytes, path: object) -> Description:
        """Return the description in the file ``path``.

        Raises:
            ConfigError: it is damaged, or of another version.
        """
        try:
            values: dict[str, Any] = parse_json(text)
            version = values.pop("version")
            if version != VERSION:
                raise ConfigError(
                    f"model={path}: was exported in version {shown(str(version))} of the format; this "
                    f"program reads version {VERSION}: export it again"
                )
            hints = typing.get_type_hints(Description)
            wrong = [key for key in hints if not isinstance(values[key], hints[key])]
            if wrong or values.keys() != hints.keys():
                raise ValueError(f"wrong keys: {sorted(wrong or values.keys() ^ hints.keys())}")
            return Description(**values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"model={path}: its description is damaged ({shown(str(error))}); export it again"
            ) from error


INPUTS = ("amplitudes", "offsets", "probe")
OUTPUT = "regions"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Exported:
    """An exported network, ready to run."""

    description: Description  # what it states about itself
    run: Callable[[Arrays], np.ndarray]  # inputs by name → regions (B, 2, R, R) float32, real and imaginary

    def __call__(self, amplitudes: np.ndarray, offsets: np.ndarray, probe: np.ndarray) -> np.ndarray:
        """Object regions ``(B, R, R)`` complex64 of one batch.

        Args:
            amplitudes: x, ``(B, C, N, N)`` float32; below zero: not measured.
            offsets: ``(B, C, 2)`` float32.
            probe: ``s·f·P``, ``(N, N)`` or ``(K, N, N)`` complex64.

        Raises:
            ConfigError: an input has another shape than the file was exported for.
        """
        d = self.description
        modes = probe.reshape(-1, d.N, d.N) if probe.shape[-2:] == (d.N, d.N) else probe
        modes = modes if d.modes or len(modes) > 1 else modes[0]
        parts = np.stack([modes.real, modes.imag]).astype(np.float32)
        groups = (d.batch_size, d.group_size)
        inputs = dict(zip(INPUTS, (amplitudes, offsets, parts), strict=True))
        shapes = dict(zip(INPUTS, ((*groups, d.N, d.N), (*groups, 2), d.probe_shape), strict=True))
        for key, shape in shapes.items():
            if inputs[key].shape != shape:
                raise ConfigError(f"{key} has shape {inputs[key].shape}; the model takes {shape}")
        regions = self.run({key: np.ascontiguousarray(value, np.float32) for key, value in inputs.items()})
        return regions[:, 0] + 1j * regions[:, 1]


def open_litert(path: Path, threads: int) -> Exported:
    """Open a LiteRT file, to run on so many ``threads``; ConfigError without the package ai-edge-litert."""
    description = Description.from_json(_last_archive(path), path)
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise _missing(path, "ai-edge-litert") from error
    try:
        interpreter = Interpreter(model_path=str(path), num_threads=threads)
        runner = interpreter.get_signature_runner()
    except (ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error
    return Exported(description, lambda inputs: runner(**inputs)[OUTPUT])


def _last_archive(path: Path) -> bytes:
    """The description behind the model in a LiteRT file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(ENTRY)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError) as error:
        raise ConfigError(
            f"model={path}: is cut short, or was not written by scripts/export_model.py ({shown(str(error))})"
        ) from error


def open_onnx(path: Path, threads: int) -> Exported:
    """Open an ONNX file, to run on so many ``threads``; ConfigError without the package onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise _missing(path, "onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads take no time
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        stated = session.get_modelmeta().custom_metadata_map.get(KEY)
    except Exception as error:  # onnxruntime's errors share no class of their own
        raise _damaged(path, error) from error
    if stated is None:
        raise ConfigError(f"model={path}: was not written by scripts/export_model.py")
    return Exported(Description.from_json(stated, path), lambda inputs: session.run([OUTPUT], inputs)[0])


def _missing(path: Path, package: str) -> ConfigError:
    return ConfigError(
        f"model={path}: needs {package}, which is not installed: {sys.executable} -m pip install {package}"
    )


def _damaged(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"model={path}: is damaged ({shown(str(error))}); export it again")
