"""What the readers of NPZ archives share: small arrays with the checks that all need, and axes told apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import Archive, Header, NpzError
from ptycho.files.text import shown
from ptycho.readers.measurement import listed_keys
from ptycho.readers.scans.quantities import Quantity
from ptycho.readers.scans.raw_scan import OPTIONS, ReadOptions

LONGEST = 300  # letters of a reason: those of a damaged archive may have the archive's bytes in them


@dataclass
class Arrays:
    """The arrays of an open archive, and what is to be said of them.

    Attributes:
        archive: open.
        strict: what is there and cannot be used is an error; otherwise it is passed over with a warning.
        stated: values that the user puts in place of the file's, see :class:`ReadOptions`.
        notes, warnings: lines for a :class:`RawScan`, which reading adds to.
    """

    archive: Archive
    strict: bool = False
    stated: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __contains__(self, key: str) -> bool:
        return key in self.archive.keys

    def require(self, keys: Sequence[str]) -> None:
        """Raise unless all ``keys`` are there, each of them once."""
        lacking = [key for key in keys if key not in self]
        if lacking:
            raise NpzError(f"lacks {', '.join(lacking)}; it has {listed_keys(self.archive)}")
        twice = [key for key in keys if key in self.archive.repeated]
        if twice:
            raise NpzError(f"{', '.join(twice)} is there more than once")

    def header(self, key: str, kinds: str = "fiu") -> Header:
        """What a key that must be there declares."""
        self.require([key])
        try:
            return self.archive.header(key, kinds)
        except KeyError as error:  # it has no word for some kinds
            raise NpzError(f"{key} does not hold numbers") from error

    def finite(self, key: str, kinds: str = "fiu") -> np.ndarray:
        """A whole array that must be there; float64 or complex64 unless it holds integers."""
        array = self.archive.read(self.header(key, kinds))
        with np.errstate(over="ignore"):  # what becomes infinite is found
            if array.dtype.kind in "cf":
                array = array.astype(np.complex64 if array.dtype.kind == "c" else np.float64)
        wrong = np.argwhere(~np.isfinite(array))
        if len(wrong):
            first = ", ".join(map(str, wrong[0]))
            raise NpzError(
                f"{key} {array.shape} has {len(wrong)} values that are not finite, the first at [{first}]"
            )
        return array

    def offered(self, key: str, kinds: str = "fiu") -> np.ndarray | None:
        """An array that may be missing, or that may be of no use."""
        if key not in self and not self.strict:
            return None
        try:
            return self.finite(key, kinds)
        except NpzError as error:
            self.pass_over(str(error))
            return None

    def pass_over(self, why: str) -> None:
        """Warn that something is of no use, or raise."""
        if self.strict:
            raise NpzError(why)
        if (line := f"passed over: {why}") not in self.warnings:
            self.warnings.append(line)

    def quantity(self, key: str, quantity: Quantity) -> float | None:
        """A number that may be missing, in the quantity's base; what the user states goes before."""
        stated = self.stated.get(quantity.option or "")
        if stated is not None:
            return quantity.from_option(stated)
        value = self.scalar(key)
        if value is not None and (problem := quantity.problem(key, value, quantity.base)):
            raise NpzError(problem)
        return value

    def scalar(self, key: str, low: float = 0.0) -> float | None:
        """A number above ``low`` that may be missing."""
        array = self.offered(key)
        if array is None:
            return None
        if array.size != 1 or not array.item() > low:
            held = array.tolist() if array.size < 4 else array.shape
            self.pass_over(f"{key} is {held}; must be one number > {low:g}")
            return None
        return float(array.item())

    def pair(self, row: str, col: str, low: float = 0.0) -> tuple[float, float] | None:
        """Two numbers (row, col) that may be missing."""
        first, second = self.scalar(row, low), self.scalar(col, low)
        return None if first is None or second is None else (first, second)

    def probe(self, key: str) -> np.ndarray | None:
        """Modes ``(K, h, w)`` complex64, from ``(h, w)``, ``(h, w, 1)`` or ``(…, K, h, w)``."""
        array = self.offered(key, "cfiu")
        if array is None:
            return None
        if array.ndim == 3 and array.shape[2] == 1 != array.shape[1]:
            array = array[..., 0]
        if array.ndim < 2 or 0 in array.shape:
            self.pass_over(f"{key} has shape {array.shape}; must be (h, w) or (modes, h, w)")
            return None
        modes = array.reshape(-1, *array.shape[-3:] if array.ndim > 2 else (1, *array.shape))
        if len(modes) > 1:
            self.warnings.append(f"{key} {array.shape}: the first of its {len(modes)} sets of modes is taken")
        return np.asarray(modes[0], np.complex64)

    def object(self, key: str) -> np.ndarray | None:
        """``(h, w)`` complex64, from ``(h, w)``, ``(h, w, 1)``, or the product of ``(…, h, w)``."""
        array = self.offered(key, "cfiu")
        if array is None:
            return None
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        if array.ndim < 2 or 0 in array.shape:
            self.pass_over(f"{key} has shape {array.shape}; must be (h, w) or layers (…, h, w)")
            return None
        layers = array.reshape(-1, *array.shape[-2:])
        if len(layers) > 1:
            self.warnings.append(f"{key} {array.shape}: the product of its {len(layers)} layers is taken")
        return np.asarray(np.prod(layers, axis=0), np.complex64)


@contextlib.contextmanager
def opened(
    path: str | Path, strict: bool = False, stated: Mapping[str, float] | None = None
) -> Iterator[Arrays]:
    """The arrays of an NPZ archive; whatever is wrong with it becomes one line that names the file.

    Raises:
        ConfigError: it is no archive, or lacks something, or something in it cannot be used.
    """
    try:
        with Archive(path) as archive:
            yield Arrays(archive, strict, stated or {})
    except NpzError as error:
        raise ConfigError(f"{path}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Why a file could not be read, in one line of ``LONGEST`` letters at most."""
    return shown(str(getattr(error, "strerror", None) or error), LONGEST) or type(error).__name__


def only(path: str | Path, name: str, options: ReadOptions, *used: str) -> None:
    """Refuse options that a format has no use for, so that none is dropped in silence."""
    for key, said in OPTIONS.items():
        value = getattr(options, key)
        if value and key not in used:
            value = ", ".join(value) if key == "keys" else value
            raise ConfigError(f"{path}: {said}={value}: the format {name} says this itself; leave it out")


def flattened(header: Header, raster: bool = False) -> Header:
    """A member of three axes: without further ones of length one, first or last, or a raster as one list."""
    shape = header.shape
    while len(shape) > 3 and shape[0] == 1:
        shape = shape[1:]
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if raster and len(shape) == 4 and not header.fortran:
        shape = (shape[0] * shape[1], *shape[2:])
    if len(shape) != 3 or 0 in shape:
        raise NpzError(f"{header.key} has shape {header.shape}; must be (patterns, rows, columns)")
    return replace(header, shape=shape)


def same_number(header: Header, count: int) -> None:
    """Raise unless ``(J, H, W)`` has a pattern for each of ``count`` positions."""
    if header.shape[0] != count:
        raise NpzError(
            f"{header.key} {header.shape} holds {header.shape[0]} patterns, and there are {count} positions; "
            "leave out those that have no counterpart"
        )


def order_of(header: Header, count: int, warnings: list[str]) -> str:
    """Which axes of ``(J, H, W)`` or ``(H, W, J)`` a member has, told by the number of positions.

    Raises:
        NpzError: neither fits.
    """
    first, _, last = header.shape
    if count not in (first, last):
        raise NpzError(
            f"{header.key} {header.shape} has {count} positions along neither its first axis nor its last; "
            "leave out those patterns or positions that have no counterpart"
        )
    if first == last:
        warnings.append(f"{header.key} {header.shape} may lie (J, H, W) or (H, W, J): the first is taken")
    return "phw" if count == first else "hwp"


def places(row: np.ndarray, col: np.ndarray, keys: tuple[str, str]) -> np.ndarray:
    """Positions ``(J, 2)`` float64, (row, col), of the arrays under two ``keys``."""
    if row.ndim != 1 or row.shape != col.shape or not len(row):
        raise NpzError(f"{keys[0]} {row.shape} and {keys[1]} {col.shape} must be one list (J,) each")
    return np.stack([row, col], axis=1).astype(np.float64)
