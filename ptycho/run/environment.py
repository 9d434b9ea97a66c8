"""What a process runs on, for the manifest."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("ptychopinn", "tensorflow", "keras", "numpy", "scipy", "scikit-image", "hydra-core", "matplotlib")


def environment() -> dict[str, Any]:
    """Return versions, machine and peak memory so far (MiB) of this process."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024**2 if sys.platform == "darwin" else 1024
    )
    return {
        "versions": versions,
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "peak_memory_mib": round(peak),
    }
