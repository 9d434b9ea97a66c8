"""The command line as a user has it: in this process, which is fast, or in a fresh one."""

import contextlib
import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "grid_lines_workflow.py"

# The smallest run that goes through everything: 16 training groups, 49 test groups.
TINY = (
    "N=32",
    "size=96",
    "nimgs_train=1",
    "nimgs_test=1",
    "nepochs=1",
    "batch_size=4",
    "max_groups_train=16",
    "train.val_groups=4",
)
TINY_UNROLLED = ("model.stages=2", "model.width=8", "model.blocks=1")

# Runs several programs one after the other in one process; argv: of each its script and words, as one line.
SEVERAL = f"""
import runpy, sys
for line in sys.argv[1:]:
    script, *words = line.split()
    sys.argv = [{str(ROOT / "scripts")!r} + f"/{{script}}.py", *words]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stop:
        print("exit", stop.code, "tensorflow" in sys.modules, flush=True)
"""


def fresh(cwd, *arguments, **environment):
    """Run Python with some arguments in a fresh process and folder; return the completed process."""
    clean = {key: value for key, value in os.environ.items() if key not in ("XLA_FLAGS", "HYDRA_FULL_ERROR")}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=clean | {"TF_CPP_MIN_LOG_LEVEL": "2"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@contextlib.contextmanager
def small_disk(size):
    """Let no file become larger than ``size`` bytes, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def files(folder):
    """Return every file, link and empty folder below a folder, by relative path, with its hash."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not path.is_dir():
            found[name] = "neither a file nor a folder"
        elif not any(path.iterdir()):
            found[name + "/"] = ""
    return found
