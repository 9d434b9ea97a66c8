"""A folder into which a detector writes a file for each frame: TIFF, or NPY.

The last number in a file's name is its index. It is taken when it reads whole: one that is cut short is
looked at again until it has not changed for a while. Positions come in a table that grows
(``data.positions_file``, or ``positions.csv`` in the folder): as :mod:`~ptycho.readers.positions_table` has
it, with a column ``index`` or ``frame``; without one, its lines are those of the frames 0, 1, 2, …. A last
line without an end is being written. A file ``END`` in the folder says that the scan is complete.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import numpy as np

from ptycho.live.arrivals import Arrivals, Description, Frame, Place
from ptycho.live.sources import Watching
from ptycho.readers.positions_table import read_table
from ptycho.readers.tiff import SUFFIXES, read_image

TABLE, FINISHED = "positions.csv", "END"
NUMBER = re.compile(r"(\d+)(?!.*\d)")
GIVEN_UP_S = 10.0  # of a file that does not read whole and does not change
AT_ONCE = 2**25  # bytes of files that are read in one look
LARGEST = 2**30  # bytes of a file


class GrowingFolder:
    """See the module's text; a :class:`~ptycho.live.arrivals.Source`."""

    def __init__(self, path: Path, how: Watching) -> None:
        self._path, self._how = path, how
        self.problem: str | None = None
        stated = how.config.positions_file
        self._table = Path(stated) if stated else path / TABLE
        self._done: set[str] = set()
        self._broken: dict[str, tuple[int, float]] = {}
        self._read_to = 0  # bytes of the table
        self._lines = 0  # of numbers
        self._header = ""
        self._description: Description | None = None

    @property
    def description(self) -> Description | None:
        return self._description

    def poll(self) -> Arrivals:
        faults: Counter[str] = Counter()
        if not self._path.is_dir():
            return Arrivals()
        finished = (self._path / FINISHED).exists()  # asked first: what came before is then all there is
        frames, more = self._new_frames(faults)
        places = self._new_places(faults)
        over = finished and not more and not self._broken
        return Arrivals(tuple(frames), tuple(places), faults, over and not frames and not places)

    def close(self) -> None:
        """Nothing is open."""

    def _new_frames(self, faults: Counter[str]) -> tuple[list[Frame], bool]:
        """Frames that read whole now, and whether there are more to be looked at."""
        names = [
            p
            for p in self._path.iterdir()
            if p.suffix.lower() in (*SUFFIXES, ".npy") and p.name not in self._done
        ]
        found, size = list[Frame](), 0
        for path in sorted(names, key=lambda p: (len(p.name), p.name)):
            number = NUMBER.search(path.stem)
            if path.name.startswith(".") or number is None:
                self._done.add(path.name)
                faults["file without a number"] += number is None
                continue
            if self._how.has(int(number[1])) and path.name not in self._broken:
                self._done.add(path.name)
                continue
            data = self._whole(path, faults)
            if data is not None:
                found.append(Frame(int(number[1]), data))
                self._done.add(path.name)
                size += data.nbytes
            if size > AT_ONCE:
                return found, True
        return found, False

    def _whole(self, path: Path, faults: Counter[str]) -> np.ndarray | None:
        """The frame ``(H, W)`` of a file; None: it is not whole yet, or never will be."""
        try:
            size = path.stat().st_size
            if size > LARGEST:
                raise ValueError("too large")
            if path.suffix.lower() == ".npy":
                data = np.array(np.load(path, mmap_mode="r", allow_pickle=False))  # mapped: of its own size
            else:
                data = read_image(path)
            if not data.size:
                raise ValueError("empty")
            if data.ndim != 2:
                data = data.reshape([n for n in data.shape if n != 1])
        except Exception:  # a file that is being written raises whatever its bytes lead to
            self._wait_for(path, faults)
            return None
        self._broken.pop(path.name, None)
        return data

    def _wait_for(self, path: Path, faults: Counter[str]) -> None:
        """Look at a file again; give it up where it has not changed for long."""
        try:
            size = path.stat().st_size
        except OSError:
            return
        now = time.monotonic()
        before, since = self._broken.get(path.name, (-1, now))
        if size != before:
            self._broken[path.name] = size, now
        elif now - since > GIVEN_UP_S:
            faults["frame cut short"] += 1
            self._done.add(path.name)
            del self._broken[path.name]

    def _new_places(self, faults: Counter[str]) -> list[Place]:
        """The whole lines that were added to the table."""
        try:
            with self._table.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._read_to:
                    faults["table of positions replaced"] += 1
                    self._read_to, self._lines, self._header = 0, 0, ""
                file.seek(self._read_to)
                content = file.read(AT_ONCE)
        except FileNotFoundError:
            return []
        content = content[: content.rfind(b"\n") + 1]
        lines = [line for line in content.decode("latin-1").splitlines() if line.strip()]
        if not lines:
            return []
        self._read_to += len(content)
        names = [] if self._header else [line for line in lines if _is_header(line)]
        self._header = self._header or "\n".join(names)
        found = list[Place]()
        for line in (line for line in lines if not _is_header(line)):
            found += self._place(line, faults)
        return found

    def _place(self, line: str, faults: Counter[str]) -> list[Place]:
        """The position of a line, by the reader of such tables."""
        target, index = self._how.scratch / "line.csv", self._lines
        self._lines += 1  # a line that is dropped was that of a frame, too
        try:
            if (column := _index_column(self._header)) is not None:
                index = int(float([field for field in re.split(r"[;,\t ]+", line.strip()) if field][column]))
            target.write_text(f"{self._header}\n{line}\n", encoding="utf-8")
            table = read_table(target, self._how.config.unit, self._how.config.position_axes)
        except (ValueError, OverflowError, IndexError) as error:  # a ConfigError is a ValueError
            faults["line of the table dropped"] += 1
            self.problem = str(error).replace(str(target), str(self._table))
            return []
        finally:
            target.unlink(missing_ok=True)
        if self._description is None:
            self._description = Description(unit=table.unit)
        row, col = table.positions[0]
        return [Place(index, float(row), float(col))]


def _is_header(line: str) -> bool:
    return line.lstrip()[0] in "#%" or (
        bool(re.match(r"\s*['\"]?[^\W\d]", line)) and not re.match(r"\s*(nan|inf)", line, re.I)
    )


def _index_column(header: str) -> int | None:
    """Which column of a table is the frames' index; None: none."""
    for line in header.splitlines():
        words = [
            word.strip(" '\"#%")
            for word in re.split(r"[;,\t]+| +", line.strip().lstrip("#% "))
            if word.strip()
        ]
        for column, word in enumerate(words):
            if re.fullmatch(r"(index|frame|frame_index|frame_number)", word, re.IGNORECASE):
                return column
    return None
