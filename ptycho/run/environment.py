"""What a process runs on, for the manifest; TensorFlow is imported by the functions that need it."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ptycho.config import XlaConfig

PACKAGES = ("ptychopinn", "tensorflow", "keras", "numpy", "scipy", "scikit-image", "hydra-core", "matplotlib")


def environment() -> dict[str, Any]:
    """Return versions, machine and peak memory so far (MiB) of this process."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    kib = 1024 if sys.platform == "darwin" else 1  # units in a kibibyte
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / kib / 1024
    return {
        "versions": versions,
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "peak_memory_mib": round(peak),
    }


def prepare_tensorflow() -> None:
    """Forget earlier models of the process, and keep float32 at 24 bits on every device."""
    import keras
    import tensorflow as tf

    keras.backend.clear_session()
    tf.config.experimental.enable_tensor_float_32_execution(False)


def device_facts(xla: XlaConfig) -> dict[str, Any]:
    """Return the devices of TensorFlow and the effective switches, for the manifest."""
    import tensorflow as tf

    devices = [f"{d.device_type}:{i}" for i, d in enumerate(tf.config.list_logical_devices())]
    first = next((d for d in devices if d.startswith("GPU")), devices[0])
    return {"device": first, "devices": devices, "xla": asdict(xla)}
