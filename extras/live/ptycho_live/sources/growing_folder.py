"""A folder into which a detector writes a file for each frame: TIFF, or NPY.

The last number in a file's name is its index. A file is taken once it can be read completely; one that is cut
short is read again until it has not changed for a while. Positions come in a table that is extended
(``data.positions_file``, or ``positions.csv`` in the folder), in the format of
:mod:`~ptycho.readers.positions_table`, with a column ``index`` or ``frame``; without one, its lines are those
of the frames 0, 1, 2, …. A last line without an end is still being written. A file ``END`` in the folder
marks the scan as complete.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import numpy as np

from ptycho.config.data import DataConfig
from ptycho.readers.positions_table import in_one_unit, read_text
from ptycho.readers.tiff import SUFFIXES, read_image
from ptycho_live.arrivals import NO_POSITIONS, Arrivals, Description, Frame, Has, Source, make_positions

TABLE, FINISHED = "positions.csv", "END"
NUMBER = re.compile(r"(\d+)(?!.*\d)")
INDEX = re.compile(r"(?<![a-z_])(frame_index|frame_number|index|frame)(?![a-z_])", re.IGNORECASE)
HEADER = re.compile(r"\s*(?!nan|inf)([#%]|['\"]?[^\W\d])", re.IGNORECASE)


class GrowingFolder(Source):
    """Source that reads a folder while files are added to it, ``at_once`` bytes in a call.

    An incomplete file that does not change for ``patience_s`` is given up.
    """

    def __init__(
        self, path: Path, config: DataConfig, has: Has, patience_s: float = 10.0, at_once: int = 2**25
    ) -> None:
        self._path, self._config, self._has, self._patience = path, config, has, patience_s
        self._at_once, self._table = at_once, Path(config.positions_file or path / TABLE)
        self._done: set[str] = set()
        self._broken: dict[str, tuple[int, float]] = {}  # size of a file that is not whole, and since when
        self._read_to, self._lines, self._header = 0, 0, ""  # of the table: bytes, lines of numbers

    def poll(self) -> Arrivals:
        faults: Counter[str] = Counter()
        if not self._path.is_dir():
            return Arrivals()
        finished = (self._path / FINISHED).exists()  # checked first: no file is added after it
        frames, more = self._new_frames(faults)
        positions = self._new_positions(faults)
        over = finished and not (more or self._broken or frames or len(positions))
        return Arrivals(tuple(frames), positions, faults, over)

    def _new_frames(self, faults: Counter[str]) -> tuple[list[Frame], bool]:
        """Return the frames that can be read completely now, and whether more files wait."""
        kinds = (*SUFFIXES, ".npy")
        paths = [p for p in self._path.iterdir() if p.suffix.lower() in kinds and p.name not in self._done]
        frames, size = list[Frame](), 0
        for path in sorted(paths, key=lambda p: (len(p.name), p.name)):
            number = NUMBER.search(path.stem)
            known = number is not None and self._has(int(number[1])) and path.name not in self._broken
            if path.name.startswith(".") or number is None or known:
                faults["file without a number"] += number is None
                self._done.add(path.name)
            elif (data := self._whole(path, faults)) is not None:
                frames.append(Frame(int(number[1]), data))
                self._done.add(path.name)
                size += data.nbytes
            if size > self._at_once:
                return frames, True
        return frames, False

    def _whole(self, path: Path, faults: Counter[str], most_bytes: int = 2**30) -> np.ndarray | None:
        """Return the frame ``(H, W)`` of a file; None: it is not whole yet, or never will be."""
        try:
            if path.stat().st_size > most_bytes:
                raise ValueError("too large")
            if path.suffix.lower() == ".npy":
                data = np.array(np.load(path, mmap_mode="r", allow_pickle=False))  # mapped: of its own size
            else:
                data = read_image(path)
            if not data.size:
                raise ValueError("empty")
        except Exception:  # a file that is being written raises whatever its bytes lead to
            self._wait_for(path, faults)
            return None
        self._broken.pop(path.name, None)
        return data if data.ndim == 2 else data.reshape([n for n in data.shape if n != 1])

    def _wait_for(self, path: Path, faults: Counter[str]) -> None:
        """Let a file be read again later; give it up if it has not changed for long."""
        size, now = path.stat().st_size if path.exists() else -1, time.monotonic()
        before, since = self._broken.get(path.name, (None, now))
        if size != before:
            self._broken[path.name] = size, now
        elif now - since > self._patience:
            faults["frame cut short"] += 1
            self._done.add(path.name)
            del self._broken[path.name]

    def _new_positions(self, faults: Counter[str]) -> np.ndarray:
        """Those of the whole lines that were added to the table."""
        try:
            with self._table.open("rb") as file:
                if file.seek(0, 2) < self._read_to:
                    faults["table of positions replaced"] += 1
                    self._read_to, self._lines, self._header = 0, 0, ""
                file.seek(self._read_to)
                content = file.read(self._at_once)
        except FileNotFoundError:
            return NO_POSITIONS
        content = content[: content.rfind(b"\n") + 1]
        self._read_to += len(content)
        lines = [line for line in content.decode("latin-1").splitlines() if line.strip()]
        self._header = self._header or "".join(f"{line}\n" for line in lines if HEADER.match(line))
        numbers = [line for line in lines if not HEADER.match(line)]
        first, self._lines = self._lines, self._lines + len(numbers)  # one that is dropped has a frame, too
        return self._parse(numbers, first, faults) if numbers else NO_POSITIONS

    def _parse(self, lines: list[str], first: int, faults: Counter[str]) -> np.ndarray:
        """Positions of lines, of which the first is the line ``first`` of the table; bad ones are dropped."""
        config = self._config
        try:
            text = self._header + "\n".join(lines)
            values, columns = read_text(self._table, text, config.position_axes, config.position_columns)
            values, unit, _ = in_one_unit(self._table, values, columns, config.unit)
            index = list(range(first, first + len(lines)))
            if named := INDEX.search(self._header):
                index = [int(row) for row, _ in read_text(self._table, text, "rc", (named[0], named[0]))[0]]
        except (ValueError, OverflowError, IndexError) as error:  # a ConfigError is a ValueError
            if len(lines) > 1:
                parts = [self._parse([line], first + k, faults) for k, line in enumerate(lines)]
                return np.concatenate(parts)
            faults["line of the table dropped"] += 1
            self.problem = str(error)
            return NO_POSITIONS
        if self.description.unit is None:
            self.description = Description(unit=unit)
        return make_positions(index, values[:, 0], values[:, 1])
