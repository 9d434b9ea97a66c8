"""Build hook: in the wheel, the package ``workflows`` is named ``ptycho_workflows``.

Others have a package named ``workflows``, and two packages of one name in an environment mix their files.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "ptycho_workflows"
IMPORT = re.compile(r"\bworkflows(?=\.[a-z]| import )")


class RenamedWorkflows(BuildHookInterface):
    """Copies ``workflows``, with ``conf`` and ``scripts`` in it, under the installed name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the renamed copy to a wheel; an editable installation uses the checkout as it is."""
        if self.target_name != "wheel" or version == "editable":
            return
        root, copy = Path(self.root), Path(self.directory) / f".{NAME}"
        shutil.rmtree(copy, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(root / "workflows", copy, ignore=ignored)
        for name in ("conf", "scripts"):
            shutil.copytree(root / name, copy / name, ignore=ignored)
        for path in copy.rglob("*.py"):
            path.write_text(IMPORT.sub(NAME, path.read_text(encoding="utf-8")), encoding="utf-8")
        build_data["force_include"][str(copy)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy."""
        shutil.rmtree(Path(self.directory) / f".{NAME}", ignore_errors=True)
