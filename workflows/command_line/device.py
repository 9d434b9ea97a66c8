"""What the workflows ask of TensorFlow, and what they note of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import keras
import tensorflow as tf

from ptycho.config import XlaConfig


def prepare_tensorflow() -> None:
    """Forget earlier models of the process, and keep float32 at 24 bits on every device."""
    keras.backend.clear_session()
    tf.config.experimental.enable_tensor_float_32_execution(False)


def device_facts(xla: XlaConfig) -> dict[str, Any]:
    """Devices and effective switches, for the manifest."""
    devices = [f"{d.device_type}:{i}" for i, d in enumerate(tf.config.list_logical_devices())]
    return {
        "device": next((d for d in devices if d.startswith("GPU")), devices[0]),
        "devices": devices,
        "xla": asdict(xla),
    }
