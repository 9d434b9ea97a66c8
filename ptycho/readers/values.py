"""Read the values that all formats have besides patterns and positions, in the base units of quantities.

A value that is not there is None. Whether a detector's numbers are counts, intensities
or amplitudes follows from the numbers (:func:`tell_domain`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import h5py
import numpy as np

from ptycho.config.data import RANGES
from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive, UnusableError
from ptycho.readers.patterns import Patterns

CXI_GOOD = 0x1000  # of CXI's bits of a mask, this one says that a pixel has signal
Pair = tuple[float, float]


def read_array(file: Archive, key: str | None, kinds: str = "fiu", finite: bool = True) -> np.ndarray | None:
    """Read numbers ``(…)`` as float64 or complex64, truth values and integers as they are; all ``finite``."""
    array = None if key is None else file.read(key, kinds)
    if array is None or array.dtype.kind not in "fc":
        return array
    with np.errstate(over="ignore"):  # what becomes infinite is found
        array = array.astype(np.complex64 if array.dtype.kind == "c" else np.float64)
    wrong = np.argwhere(~np.isfinite(array))
    if not finite or not len(wrong):
        return array
    at = ", ".join(map(str, wrong[0]))
    raise UnusableError(
        f"{key} {array.shape} has {len(wrong)} values that are not finite, the first at [{at}]"
    )


def read_unit(file: Archive, key: str, units: dict[str, float], remedy: str = "") -> tuple[str, float] | None:
    """Read the ``units`` attribute of an array and its size; None: there is none."""
    unit = None if "@" in key else file.text(f"{key}@units") or file.text(f"{key}@unit")
    unit = (unit or "").strip().strip("[]()").strip()
    if not unit:
        return None
    if unit.lower() not in units:
        raise FileError(f"{key}@units={unit}: must be one of {', '.join(first_names(units))}{remedy}")
    return unit, units[unit.lower()]


def read_number(file: Archive, quantity: Quantity, unit: str, *keys: str) -> float | None:
    """Read the first of some ``keys`` that is there, in the quantity's base.

    ``unit``: of a number without a ``units`` attribute.
    """
    for key in keys:
        numbers = file.noted(partial(file.read, key))
        if numbers is not None and numbers.size:
            return _in_base(file, quantity, unit, key, numbers.astype(np.float64).ravel())
    return None


def read_plain(file: Archive, *keys: str) -> float | None:
    """Read the first of some ``keys`` that holds one finite number, of any sign and no unit."""
    for key in keys:
        number = file.noted(partial(file.read, key))
        if number is not None and number.size == 1 and np.isfinite(number).all():
            return float(number.ravel()[0])
    return None


def read_pair(file: Archive, quantity: Quantity, *keys: str) -> Pair | None:
    """Read (row, col) in metres, at two keys, of which one stands for both; or at one with one or two."""
    if len(keys) == 2:
        pair = [read_number(file, quantity, "m", key) for key in keys]
        if (pair[0] is None) != (pair[1] is None):
            file.notes.append(f"{keys[pair[1] is None]} is not there: pixels taken as square")
    else:
        lengths = file.read(keys[0]) if keys else None
        if lengths is None:
            return None
        if lengths.size > 2:
            remedy = f"; or set data.{quantity.option}=" if quantity.option else ""
            raise FileError(f"{keys[0]} has {lengths.size} values; must be one length, or (row, col){remedy}")
        parts = lengths.astype(np.float64).reshape(-1, 1)
        pair = [_in_base(file, quantity, "m", keys[0], part) for part in parts]
    known = [value for value in pair if value is not None]
    return (known[0], known[-1]) if known else None


def read_probe(file: Archive, key: str | None, weights: Iterable[str] = ()) -> np.ndarray | None:
    """Read modes ``(K, h, w)`` complex64, from ``(h, w)``, ``(h, w, 1)``, ``(K, h, w)`` or ``(C, K, h, w)``.

    Coherent modes C are summed with the mean over the scan of their weights ``(…, C)``, at the first of some
    keys; without these the first is taken.
    """
    probe = _read_images(file, key)
    if probe is None:
        return None
    sets = probe.reshape(-1, *((1, *probe.shape) if probe.ndim == 2 else probe.shape[-3:]))
    if len(sets) == 1:
        return sets[0]
    for name in weights:
        array = file.noted(partial(read_array, file, name))
        if array is not None and array.shape[-1:] == (len(sets),):
            mean = array.reshape(-1, len(sets)).mean(axis=0)
            file.warnings.append(
                f"{key} {probe.shape}: its coherent modes are summed with the mean of {name}"
            )
            return np.tensordot(mean, sets, axes=1).astype(np.complex64)
    file.warnings.append(f"{key} {probe.shape}: the first of its {len(sets)} sets of modes is taken")
    return sets[0]


def read_object(file: Archive, key: str | None) -> np.ndarray | None:
    """Read ``(h, w)`` complex64, from ``(h, w)``, ``(h, w, 1)``, or the product of layers ``(…, h, w)``."""
    images = _read_images(file, key)
    if images is None:
        return None
    layers = images.reshape(-1, *images.shape[-2:])
    if len(layers) > 1:
        file.warnings.append(f"{key} {images.shape}: the product of its {len(layers)} layers is taken")
    return np.asarray(np.prod(layers, axis=0))


def read_good(file: Archive, masks: Mapping[str, str]) -> np.ndarray | None:
    """Read a mask ``(H, W)``, True for good pixels, at the first of some keys that is there.

    It is ``(J, H, W)`` if that of each pattern is another. ``masks``: key and kind of each: ``good``, ``bad``
    (nonzero) or ``cxi`` bits.
    """
    key = file.first(*masks)
    mask = None if key is None else file.read(key, "fiub")
    if key is None or mask is None:
        return None
    kind = masks[key]
    if kind == "cxi" and mask.dtype.kind in "iu":
        good = (mask & ~mask.dtype.type(CXI_GOOD) if mask.dtype.itemsize > 1 else mask) == 0
    else:
        good = (mask != 0) == (kind == "good")
    stack = _stack(file, key, good)
    good, ever = np.logical_and.reduce(stack), np.logical_or.reduce(stack)
    several = f", {np.count_nonzero(ever & ~good)} more in some patterns" if np.any(good != ever) else ""
    file.notes.append(f"mask: {key}, {np.count_nonzero(~ever)} of {ever.size} pixels are bad{several}")
    return stack if several else good


def read_frame(file: Archive, key: str | None) -> np.ndarray | None:
    """Read ``(H, W)`` float64: a dark or flat field, or the mean of several."""
    images = read_array(file, key)
    return None if key is None or images is None else _stack(file, key, images).mean(axis=0, dtype=np.float64)


def images_first(array: np.ndarray) -> np.ndarray:
    """Return images ``(…, h, w)`` of MATLAB's ``(h, w, …)``; or ``(K, h, w)``, if the last two are square."""
    already = array.ndim < 3 or (array.ndim == 3 and array.shape[1] == array.shape[2] != array.shape[0])
    return array if already else array.T.swapaxes(-1, -2)


def _stack(file: Archive, key: str, images: np.ndarray) -> np.ndarray:
    """One image of a detector, or several, ``(n, H, W)``; of fewer axes than two, ``(1, …)``."""
    entry = file.entry(key)
    images = images_first(images) if entry and entry.columns_first else images
    return images.reshape(-1, *images.shape[-2:]) if images.ndim > 1 else images[None]


def read_whole(file: Archive, key: str, counts: tuple[int, ...], needed: bool = False) -> np.ndarray | None:
    """Read whole numbers of the patterns, ``(J,)`` int64 with J one of ``counts``; None: there are none."""
    numbers = read_array(file, key) if needed else file.noted(partial(read_array, file, key))
    if numbers is None:
        return None
    if numbers.size in counts and np.array_equal(numbers, np.rint(numbers)):
        return numbers.ravel().astype(np.int64)
    wrong = f"{key} has shape {numbers.shape} of {numbers.dtype}; must be ({counts[0]},) whole numbers"
    if needed:
        raise FileError(wrong)
    file.notes.append(f"ignored: {wrong}")
    return None


def read_object_in_pixels(
    file: Archive, key: str, unit: str, offset: np.ndarray | float = 0.0
) -> dict[str, Any]:
    """Return the object at a key and, if positions are in its pixels, the position of its middle.

    That is ``(h/2, w/2)`` less an ``offset`` of (row, col).
    """
    image = file.noted(lambda: read_object(file, file.first(key)))
    if image is None:
        return {}
    row, col = np.array(image.shape) / 2 - offset
    return {"object": image} | ({"object_centre_m": (float(row), float(col))} if unit == "px" else {})


def check_centre(file: Archive, source: Patterns, row: float | None, col: float | None) -> Pair | None:
    """Return (row, col) of the zero frequency in pixels, if both are known and on the detector."""
    if row is None or col is None:
        return None
    if 0 < row < source.shape[1] and 0 < col < source.shape[2]:
        return row, col
    file.warnings.append(
        f"the beam's centre ({row:g}, {col:g}) is not on {source.shape[1:]}; taken as not given"
    )
    return None


def find_domain(file: Archive, source: Patterns, said: str | None = None) -> str | None:
    """Return what patterns are, by themselves or their key, else ``said`` by the format; None: unknown."""
    name, why, likely = tell_domain(source.dtype, source.samples(), source.key.rpartition("/")[2])
    if name is None and likely is None:
        file.warnings.append(f"{why}, in the inspected patterns")
    if (name is None and said == "intensity" and likely == "amplitude") or (
        name is not None and said not in (None, name) and (said, name) != ("intensity", "counts")
    ):
        file.warnings.append(f"the format says {said}, but {why}")
    if name is None and said is not None:
        name, why = said, "stated by the format"
    file.notes.append(f"{name or 'domain unknown'}: {why}")
    return name


def _read_images(file: Archive, key: str | None) -> np.ndarray | None:
    """Return ``(…, h, w)`` complex64; text (NeXus: *x-ray*) is skipped."""
    entry = None if key is None else file.entry(key)
    if key is None or entry is None:
        return None
    if entry.dtype is not None and (h5py.check_string_dtype(entry.dtype) or entry.dtype.kind in "SU"):
        file.notes.append(f"{key} is text, and ignored")
        return None
    images = read_array(file, key, "cfiu")
    if images is not None and images.ndim > 2 and entry.columns_first:
        images = images_first(images)
    if images is not None and images.ndim == 3 and images.shape[2] == 1 != images.shape[1]:
        images = images[..., 0]
    if images is not None and (images.ndim < 2 or 0 in images.shape):
        raise UnusableError(f"{key} has shape {images.shape}; must be (h, w), or several of them")
    return None if images is None else images.astype(np.complex64)


def _in_base(file: Archive, quantity: Quantity, unit: str, key: str, numbers: np.ndarray) -> float | None:
    unit_of_file, size = read_unit(file, key, quantity.units) or (unit, quantity.units[unit.lower()])
    value = float(np.median(numbers))
    if not (math.isfinite(value) and value > 0):
        fault = f"{key}={value:g}: no {quantity.name}"
        if file.strict:
            raise FileError(f"{fault}; correct it")
        file.warnings.append(f"{fault}; taken as not given")
        return None
    if np.ptp(numbers) > 1e-3 * value:
        file.warnings.append(f"{key} varies from {numbers.min():g} to {numbers.max():g}: {value:g} is taken")
    if not quantity.low <= value * size <= quantity.high:
        raise FileError(f"{key}={value:g} {unit_of_file}: {quantity.remedy(value)}")
    return value * size


ELECTRON = 1.602176634e-19  # joule in an electronvolt
LENGTHS = {
    "m": 1.0, "metre": 1.0, "metres": 1.0, "meter": 1.0, "meters": 1.0,
    "cm": 1e-2,
    "mm": 1e-3, "millimetre": 1e-3, "millimeter": 1e-3, "millimeters": 1e-3,
    "um": 1e-6, "µm": 1e-6, "μm": 1e-6, "micron": 1e-6, "microns": 1e-6, "micrometer": 1e-6,
    "micrometre": 1e-6, "micrometers": 1e-6,
    "nm": 1e-9, "nanometer": 1e-9, "nanometre": 1e-9, "nanometers": 1e-9,
    "angstrom": 1e-10, "angstroms": 1e-10, "å": 1e-10, "a": 1e-10, "pm": 1e-12,
}  # fmt: skip
ENERGIES = {"ev": 1.0, "kev": 1e3, "j": 1 / ELECTRON, "joule": 1 / ELECTRON, "joules": 1 / ELECTRON}


@dataclass(frozen=True)
class Quantity:
    """Range of a number: from ``low`` to ``high`` in the unit ``base``, in which ``units`` are sizes.

    ``option``: key of the section ``data`` that goes before the file.
    """

    name: str
    base: str
    low: float
    high: float
    units: dict[str, float]
    option: str | None = None

    def remedy(self, value: float) -> str:
        """Return what is allowed, and what to do about a number that is not, with the units it may have."""
        units = {name: size for name, size in self.units.items() if self.low <= value * size <= self.high}
        likely = f"is it in {' or '.join(first_names(units))}? " if units else ""
        option = "" if self.option is None else f", or set data.{self.option}="
        limits = f"must be from {self.low:g} to {self.high:g} {self.base}"
        return f"a {self.name} {limits}; {likely}correct it or its units attribute{option}"


def first_names(units: dict[str, float]) -> list[str]:
    """Return one name for each of some units, the first."""
    names: dict[float, str] = {}
    for name, size in units.items():
        names.setdefault(size, {"ev": "eV", "kev": "keV", "j": "J"}.get(name, name))
    return list(names.values())


ENERGY = Quantity("photon energy", "eV", *RANGES["energy_eV"], ENERGIES, "energy_eV")
WAVELENGTH = Quantity("wavelength", "m", *RANGES["wavelength_m"], LENGTHS, "energy_eV")
DISTANCE = Quantity("distance", "m", *RANGES["distance_m"], LENGTHS, "distance_m")
PIXEL = Quantity("pixel size", "m", *RANGES["detector_pixel_m"], LENGTHS, "detector_pixel_m")
OBJECT_PIXEL = Quantity("pixel size", "m", 1e-13, 1e-3, LENGTHS)


class Domain(NamedTuple):
    """Domain of the patterns, and why; ``name`` None: undetermined; one is ``likely``, or they are dark."""

    name: str | None
    why: str
    likely: str | None = None


def tell_domain(dtype: np.dtype, blocks: Iterable[np.ndarray], key: str = "", enough: int = 1000) -> Domain:
    """Return what some patterns are: amplitudes by their ``key``, counts if whole, amplitudes if squares are.

    Zero, one and two do not distinguish these, and a frame or a detector's edge may hold nothing else.
    ``blocks``: parts ``(…)`` of them, in any order; no more are taken than are needed. ``enough``: numbers
    above zero that decide, if one of them is above 2.5.
    """
    if key == "diffamp":
        return Domain("amplitude", "the key of the patterns is diffamp")
    if dtype.kind in "iu":
        return Domain("counts", f"the patterns are {dtype}")
    count, largest, whole, roots, n_roots = 0, 0.0, True, True, 0
    for block in blocks:
        numbers = block[np.isfinite(block) & (block != 0)].astype(np.float64)
        count += numbers.size
        largest = max(largest, float(np.max(numbers, initial=0.0)))
        whole = whole and bool(np.all(numbers == np.rint(numbers)))
        are_roots, squares = _roots(numbers)
        roots, n_roots = roots and are_roots, n_roots + squares
        if not (whole or roots) or (count >= enough and largest >= 2.5):
            break
    if not count:
        return Domain(None, "the patterns hold nothing but zeros")
    if whole:
        return Domain("counts", "the patterns are whole numbers")
    if roots and n_roots >= 10:
        return Domain("amplitude", "the squares of the patterns are whole numbers")
    if key == "diffraction":
        return Domain("amplitude", "prepared files hold amplitudes as diffraction")
    likely = "amplitude" if largest <= 50 else "intensity"
    why = f"the patterns are no whole numbers and reach {largest:.4g}; perhaps data.domain={likely}"
    return Domain(None, why, likely)


def _roots(numbers: np.ndarray, largest: float = 1e4) -> tuple[bool, int]:
    """Return whether numbers ``(n,)`` can be roots of counts, and how many of them are not whole."""
    squares = numbers[(numbers != np.rint(numbers)) & (numbers**2 <= largest)] ** 2  # others are too coarse
    return bool(np.all(numbers >= 0)) and np.allclose(np.rint(squares), squares, 1e-6, 0), squares.size
