"""Run LSQ-ML of pty-chi on a dataset: the same patterns, probe and positions, in a process of its own.

The process (:mod:`ptycho_lsqml.process`) may use another Python than this one, in which pty-chi is
installed and TensorFlow is not; its threads and its memory are its own. Symbols are those of :mod:`ptycho`.
The process receives the first line and returns the second:

    patterns A²,  probe k·s·P,  k² = Σ n / Σ |F(s·P)|² over measured pixels    (pty-chi starts with |O| = 1)
    object O_p → k·O_p,   probe P_p → P_p / (k·s)                              so that s·P·O is what it was
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import LsqmlConfig, check
from ptycho.files.npz import Blocks, read_all, write_npz
from ptycho.files.reading import FileError, parse_json
from ptycho.progress import Advance, silent
from ptycho.reconstruction.lsqml import LsqmlError, LsqmlResult
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import covered_part

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("process.py")
INSTALL = "pip install -c constraints.txt -e 'extras/lsqml[ptychi]'"
KINDS = {"object": "c", "origin": "iu", "probe": "c", "positions": "f", "r_factors": "f"}
KINDS |= {"seconds": "f", "version": "U"}
TOOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # whose threads a variable sets


def available(python: str | None = None) -> str | None:
    """Return None if ``python`` (None: this interpreter) can import pty-chi; else what to do, in a line."""
    interpreter = python or sys.executable
    command = [interpreter, str(PROGRAM), "--check"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=_environment(python, None)
        )
    except OSError as error:
        return f"iterative.python={interpreter}: cannot be run ({error.strerror}); {_advice()}"
    if done.returncode == 0:
        return None
    return f"lsqml: {interpreter} cannot import pty-chi ({_last_words(done.stderr)}); {_advice()}"


def reconstruct(
    data: Dataset, settings: LsqmlConfig, seed: int, advance: Advance = silent, scratch: Path | None = None
) -> LsqmlResult:
    """See :func:`ptycho.reconstruction.lsqml.reconstruct`."""
    images = len(np.unique(data.image))
    check(images == 1, "data", f"patterns of {images} objects", "patterns of one object")
    if data.amplitudes.shifts is not None:
        log.warning("lsqml: the patterns are used as measured, without data.pattern_shift")
    if (some := np.count_nonzero(data.amplitudes.statistics.lacking)) > 0:
        log.warning("lsqml: guesses take the place of pixels that %d patterns have not measured", some)
    probe, scale = _starting_probe(data, settings.modes)
    with tempfile.TemporaryDirectory(prefix="lsqml-", dir=scratch) as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        _write(source, data, probe, settings, seed)
        _run([str(PROGRAM), str(source), str(target)], settings, lambda: advance(len(data.positions)))
        try:
            arrays = read_all(target, KINDS)
        except FileError as error:
            raise LsqmlError(f"lsqml: its result cannot be read: {error}") from error
    return _result(arrays, data, scale)


def _starting_probe(data: Dataset, modes: int) -> tuple[np.ndarray, float]:
    """Modes ``k·s·P`` that pty-chi starts from, and ``k·s``."""
    known = data.probe
    given = known[:modes] if modes <= len(known) else known[:1]  # pty-chi makes all but the first
    good = np.ones((data.N,) * 2, bool) if data.good is None else data.good
    far = np.abs(np.fft.fftshift(np.fft.fft2(given.astype(complex), norm="ortho"), axes=(-2, -1))) ** 2
    measured = data.amplitudes.statistics.mean_intensity[good].sum()
    scale = float(np.sqrt(measured / far[:, good].sum()))
    return (scale * given).astype(np.complex64), scale


def _write(target: Path, data: Dataset, probe: np.ndarray, settings: LsqmlConfig, seed: int) -> None:
    """``in.npz``; memory holds one block of patterns."""
    keys = {
        "epochs": settings.epochs,
        "early": settings.early,
        "modes": settings.modes,
        "refine_positions": settings.positions,
        "start_positions": settings.start_positions,
        "threads": settings.threads,
        "seed": seed,
    }
    squares = (np.square(block) for block in data.amplitudes.blocks())
    arrays: dict[str, np.ndarray | Blocks] = {
        "patterns": Blocks(data.amplitudes.shape, np.dtype("<f4"), squares),
        "positions": data.positions.astype(np.float64),
        "probe": probe,
        "good": np.ones((data.N,) * 2, bool) if data.good is None else data.good,
        "settings": np.array(json.dumps(keys)),
    }
    with target.open("wb") as file:
        write_npz(file, arrays)


def _run(arguments: list[str], settings: LsqmlConfig, after_epoch: Callable[[], object]) -> None:
    """Run the process to its end; it ends with this one, whose end closes its standard input."""
    command = [settings.python or sys.executable, *arguments]
    with tempfile.TemporaryFile("w+") as words:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env=_environment(settings.python, settings.threads),
            )
        except OSError as error:
            raise LsqmlError(f"iterative.python={command[0]}: cannot be run ({error.strerror})") from error
        with process:
            assert process.stdout is not None
            try:
                for epoch in _epochs(process.stdout):
                    log.debug("lsqml: epoch %d, R %.4f", epoch["epoch"], epoch["r_factor"])
                    after_epoch()
                code = process.wait()
            finally:
                process.kill()
        words.seek(0)
        if code != 0:
            raise LsqmlError(f"lsqml: pty-chi ended with code {code}: {_last_words(words.read())}")


def _epochs(lines: Any) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("{"):
            yield parse_json(line)


def _environment(python: str | None, threads: int | None) -> dict[str, str]:
    """Of the process: another interpreter does not get this one's packages."""
    inherited = {"PYTHONPATH", "PYTHONHOME"} if python is not None else set()
    kept = {key: value for key, value in os.environ.items() if key not in inherited}
    return kept | ({} if threads is None else dict.fromkeys(TOOLS, str(threads)))


def _result(arrays: dict[str, np.ndarray], data: Dataset, scale: float) -> LsqmlResult:
    """Return pty-chi's result on the dataset's canvas and in its units; ``scale`` is k·s."""
    positions = np.clip(arrays["positions"], 0, data.object_size - data.N).astype(np.float32)
    beam = Beam((arrays["probe"] / scale).astype(np.complex64), positions)
    image = _cut(arrays["object"], arrays["origin"], data.object_size)
    reconstruction = covered_part(scale / data.photon_scale * image, data.under(beam))
    program = f"pty-chi {arrays['version']}"
    seconds, r_factors = float(arrays["seconds"]), arrays["r_factors"].astype(np.float64)
    return LsqmlResult(replace(reconstruction, seconds=seconds, program=program), r_factors)


def _cut(image: np.ndarray, origin: np.ndarray, side: int) -> np.ndarray:
    """``image[origin : origin + side]``, ``(side, side)``; one where it does not reach."""
    row, col = origin + side
    return np.pad(image, side, constant_values=1)[row : row + side, col : col + side]


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _advice() -> str:
    return f"install it with {INSTALL}, or name a Python that has it: iterative.python=/path/to/python"
