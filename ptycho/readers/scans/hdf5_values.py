"""Small things in an HDF5 file: arrays, complex arrays, text, and numbers with their units.

A key is a path, ``entry/data/x``, or that of an attribute, ``entry/data@Pixel_size``; ``@name`` is one of the
root. What is wrong becomes a problem of the file, and the value is None.
"""

from __future__ import annotations

import math
from typing import Any

import h5py
import numpy as np

from ptycho.config.waves import electron_wavelength_m, photon_energy_eV
from ptycho.readers.scans.hdf5 import DAMAGE, Hdf5File, one_line
from ptycho.readers.scans.hdf5_storage import examine
from ptycho.readers.scans.quantities import Quantity, first_names

IN_MEMORY = 2**31  # bytes of one array
KINDS = {"fiu": "real numbers", "fiub": "numbers or truth values", "cfiu": "complex or real numbers"}


def raw(file: Hdf5File, key: str, kinds: str) -> np.ndarray | None:
    """The numbers at ``key``, in native byte order; ``kinds`` are NumPy's letters of dtypes that will do."""
    path, _, attribute = key.partition("@")
    try:
        if attribute:
            node = file.node(path or "/")
            found = None if node is None or attribute not in node.attrs else np.asarray(node.attrs[attribute])
        else:
            dataset = file.dataset(path)
            found = None if dataset is None else _whole(file, dataset, path)
    except DAMAGE as error:
        file.complain(f"{key} cannot be read ({one_line(error)})")
        return None
    if found is None:
        return None
    found = _complex(found) if "c" in kinds else found
    if found.dtype.kind not in kinds:
        file.complain(f"{key} {found.shape} is {_called(found.dtype)}; must be {KINDS[kinds]}")
        return None
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def array(file: Hdf5File, key: str | None, kinds: str = "fiu") -> np.ndarray | None:
    """Real numbers as float64, truth values and integers as they are; every one of them finite."""
    found = None if key is None else raw(file, key, kinds)
    if found is None or found.dtype.kind not in "fc":
        return found
    wrong = np.argwhere(~np.isfinite(found))
    if len(wrong):
        at = ", ".join(map(str, wrong[0]))
        file.complain(f"{key} {found.shape} has {len(wrong)} values that are not finite, the first at [{at}]")
        return None
    return found.astype(np.complex64 if found.dtype.kind == "c" else np.float64)


def image(file: Hdf5File, key: str | None, kinds: str = "cfiu") -> np.ndarray | None:
    """Complex numbers ``(…, h, w)`` complex64, such as a probe; text (NeXus: *x-ray*) is passed over."""
    node = None if key is None else file.dataset(key)
    if key is None or node is None:
        return None
    if h5py.check_string_dtype(node.dtype) is not None or node.dtype.kind in "SU":
        file.notes.append(f"{key} is text and passed over")
        return None
    found = array(file, key, kinds)
    if found is None:
        return None
    if found.ndim < 2 or 0 in found.shape:
        file.complain(f"{key} has shape {found.shape}; must be (…, rows, columns)")
        return None
    return found.astype(np.complex64)


def text(file: Hdf5File, key: str) -> str | None:
    """A short text, or None."""
    path, _, attribute = key.partition("@")
    node = file.node(path or "/")
    return text_in(node, attribute)


def text_in(node: object, attribute: str = "") -> str | None:
    """The text in a dataset, or in an attribute of a node; None if it is something else, or nothing."""
    found: object = None
    try:
        if attribute:
            found = node.attrs.get(attribute) if isinstance(node, h5py.HLObject) else None
        elif isinstance(node, h5py.Dataset) and node.size == 1 and node.dtype.kind in "OSU":
            found = node[()]
    except DAMAGE:
        return None
    found = found.ravel()[0] if isinstance(found, np.ndarray) and found.size == 1 else found
    found = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
    return found if isinstance(found, str) else None


def unit_of(file: Hdf5File, key: str, units: dict[str, float]) -> tuple[str, float] | None:
    """The ``units`` attribute of a dataset and its size; None: there is none, or it is a problem."""
    said = None if "@" in key else text(file, f"{key}@units") or text(file, f"{key}@unit")
    if said is None or not said.strip():
        return None
    said = said.strip()
    size = units.get(said.lower())
    if size is None:
        file.complain(f"{key}@units={said}: must be one of {', '.join(first_names(units))}")
        return None
    return said, size


def number(file: Hdf5File, quantity: Quantity, unit: str, *keys: str) -> float | None:
    """The first of some ``keys`` that is there, in the quantity's base; what the user states goes before.

    Args:
        unit: of a number without a ``units`` attribute.
    """
    stated = file.stated.get(quantity.option or "")
    if stated is not None:
        return quantity.from_option(stated)
    for key in keys:
        found = raw(file, key, "fiu")
        if found is not None and found.size:
            return _in_base(file, quantity, unit, key, found.astype(np.float64).ravel())
    return None


def plain(file: Hdf5File, *keys: str) -> float | None:
    """The first of some ``keys`` that holds one finite number, of any sign and no unit."""
    for key in keys:
        found = raw(file, key, "fiu")
        if found is not None and found.size == 1 and np.isfinite(found).all():
            return float(found.ravel()[0])
    return None


def pair(file: Hdf5File, quantity: Quantity, unit: str, row: str, col: str) -> tuple[float, float] | None:
    """(row, col) at two keys; one stands for both."""
    found = number(file, quantity, unit, row), number(file, quantity, unit, col)
    known = [value for value in found if value is not None]
    if not known:
        return None
    if len(known) == 1:
        file.notes.append(f"{row if found[0] is None else col} is not there: pixels taken as square")
    return known[0], known[-1]


def energy_of(wavelength: float | None) -> float | None:
    """``E = h·c/λ``, in eV."""
    return None if wavelength is None else photon_energy_eV(wavelength)


def of_electrons(file: Hdf5File, energy: float | None, probe: str) -> float | None:
    """A stated energy; where the text at ``probe`` says electrons, that of photons of their wavelength."""
    said = text(file, probe)
    if energy is None or file.stated.get("energy_eV") or said is None or "electron" not in said.lower():
        return energy
    file.notes.append(f"{probe} is {said.strip()}: {energy / 1e3:g} keV is theirs")
    return photon_energy_eV(electron_wavelength_m(energy / 1e3))


def _in_base(file: Hdf5File, quantity: Quantity, unit: str, key: str, found: np.ndarray) -> float | None:
    before = len(file.problems)
    said, size = unit_of(file, key, quantity.units) or (unit, quantity.units[unit.lower()])
    value = float(np.median(found))
    if len(file.problems) > before:
        return None
    if not (math.isfinite(value) and value > 0):
        file.warnings.append(f"{key}={value:g}: no {quantity.name}; taken as not given")
        return None
    if np.ptp(found) > 1e-3 * value:
        file.warnings.append(f"{key} varies from {found.min():g} to {found.max():g}: {value:g} is taken")
    if problem := quantity.problem(key, value, said, "correct it or its units attribute"):
        file.complain(problem)
        return None
    return value * size


def _whole(file: Hdf5File, dataset: h5py.Dataset, key: str) -> np.ndarray | None:
    if dataset.shape is None:
        file.complain(f"{key} is empty")
        return None
    size = dataset.size * dataset.dtype.itemsize
    if size > IN_MEMORY:
        file.complain(f"{key} {dataset.shape} takes {size} bytes; at most {IN_MEMORY} are read at once")
        return None
    before = len(file.problems)
    examine(file, dataset, key)
    return np.asarray(dataset[()]) if len(file.problems) == before else None


def _complex(found: np.ndarray) -> np.ndarray:
    """A compound of two real numbers (MATLAB: ``real``, ``imag``) as complex numbers."""
    names = found.dtype.names or ()
    if [name.lower()[:1] for name in names] != ["r", "i"]:
        return found
    if any(found.dtype[name].kind not in "fiu" or found.dtype[name].shape for name in names):
        return found
    return np.asarray(found[names[0]] + 1j * found[names[1]])


def _called(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "OSU":
        return "text or references"
    if dtype.names:
        return f"a compound of {', '.join(dtype.names)}"
    return str(dtype)
