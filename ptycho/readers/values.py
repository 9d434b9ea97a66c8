"""What the readers of all formats take from an archive beside patterns and positions.

What is wrong is noted with the archive, and the value is None. Numbers come in the base of their quantity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import h5py
import numpy as np

from ptycho.config.waves import electron_wavelength_m, photon_energy_eV
from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.domain import tell_domain
from ptycho.readers.hdf5_matlab import images_first
from ptycho.readers.quantities import ENERGY, PIXEL, WAVELENGTH, Quantity, first_names

CXI_GOOD = 0x1000  # of CXI's bits of a mask, this one says that a pixel has signal


def read_array(
    file: Archive, key: str | None, kinds: str = "fiu", needed: bool = False, finite: bool = True
) -> np.ndarray | None:
    """Numbers ``(…)`` as float64 or complex64, truth values and integers as they are; all ``finite``."""
    found = None if key is None else file.read(key, kinds, needed)
    if key is None or found is None or found.dtype.kind not in "fc":
        return found
    with np.errstate(over="ignore"):  # what becomes infinite is found
        found = found.astype(np.complex64 if found.dtype.kind == "c" else np.float64)
    wrong = np.argwhere(~np.isfinite(found))
    if not finite or not len(wrong):
        return found
    at = ", ".join(map(str, wrong[0]))
    why = f"{key} {found.shape} has {len(wrong)} values that are not finite, the first at [{at}]"
    file.reject(why, needed)
    return None


def read_unit(file: Archive, key: str, units: dict[str, float], remedy: str = "") -> tuple[str, float] | None:
    """The ``units`` attribute of an array and its size; None: there is none, or it is a problem.

    ``remedy``: what else can be done about one that is not known.
    """
    said = None if "@" in key else file.text(f"{key}@units") or file.text(f"{key}@unit")
    if said is None or not said.strip():
        return None
    said = said.strip().strip("[]()").strip()
    size = units.get(said.lower())
    if size is None:
        file.complain(f"{key}@units={said}: must be one of {', '.join(first_names(units))}{remedy}")
        return None
    return said, size


def read_number(file: Archive, quantity: Quantity, unit: str, *keys: str) -> float | None:
    """The first of some ``keys`` that is there, in the quantity's base; what the user states goes before.

    Args:
        unit: of a number without a ``units`` attribute.
    """
    stated = file.stated.get(quantity.option or "")
    if stated is not None:
        return quantity.from_option(stated)
    for key in keys:
        found = file.read(key)
        if found is not None and found.size:
            return _in_base(file, quantity, unit, key, found.astype(np.float64).ravel())
    return None


def read_plain(file: Archive, *keys: str) -> float | None:
    """The first of some ``keys`` that holds one finite number, of any sign and no unit."""
    for key in keys:
        found = file.read(key)
        if found is not None and found.size == 1 and np.isfinite(found).all():
            return float(found.ravel()[0])
    return None


def read_pair(file: Archive, quantity: Quantity, unit: str, row: str, col: str) -> tuple[float, float] | None:
    """(row, col) at two keys; one stands for both."""
    found = read_number(file, quantity, unit, row), read_number(file, quantity, unit, col)
    known = [value for value in found if value is not None]
    if not known:
        return None
    if len(known) == 1:
        file.notes.append(f"{row if found[0] is None else col} is not there: pixels taken as square")
    return known[0], known[-1]


def read_pitch(file: Archive, key: str | None) -> tuple[float, float] | None:
    """(row, col) of the detector, metres, at a key that holds one length, or both."""
    if (stated := file.stated.get("detector_pixel_m")) is not None:
        return stated, stated
    found = None if key is None else file.read(key)
    if key is None or found is None:
        return None
    if found.size > 2:
        file.complain(
            f"{key} has {found.size} values; must be one length, or (row, col); or set data.detector_pixel_m="
        )
        return None
    lengths = [_in_base(file, PIXEL, "m", key, each) for each in found.astype(np.float64).reshape(-1, 1)]
    known = [length for length in lengths if length is not None]
    return (known[0], known[-1]) if known and len(known) == len(lengths) else None


def read_energy(
    file: Archive,
    unit: str,
    keys: Iterable[str],
    wavelengths: Iterable[str] = (),
    length: str = "m",
    probe: str = "",
) -> float | None:
    """Photon energy in eV at some ``keys``, or ``h·c/λ``; where the text at ``probe`` says so, of electrons.

    Args:
        unit, length: of an energy, and of a wavelength, without a ``units`` attribute.
    """
    energy = read_number(file, ENERGY, unit, *keys)
    said = file.text(probe) if probe and energy is not None and not file.stated.get("energy_eV") else None
    if energy is not None and said is not None and "electron" in said.lower():
        file.notes.append(f"{probe} is {said.strip()}: {energy / 1e3:g} keV is theirs")
        energy = photon_energy_eV(electron_wavelength_m(energy / 1e3))
    if energy is None:
        wavelength = read_number(file, WAVELENGTH, length, *wavelengths)
        energy = None if wavelength is None else photon_energy_eV(wavelength)
    return energy


def read_probe(file: Archive, key: str | None, weights: Iterable[str] = ()) -> np.ndarray | None:
    """Modes ``(K, h, w)`` complex64, from ``(h, w)``, ``(h, w, 1)``, ``(K, h, w)`` or ``(C, K, h, w)``.

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
        found = read_array(file, name)
        if found is not None and found.shape[-1:] == (len(sets),):
            mean = found.reshape(-1, len(sets)).mean(axis=0)
            file.warnings.append(
                f"{key} {probe.shape}: its coherent modes are summed with the mean of {name}"
            )
            return np.tensordot(mean, sets, axes=1).astype(np.complex64)
    file.warnings.append(f"{key} {probe.shape}: the first of its {len(sets)} sets of modes is taken")
    return sets[0]


def read_object(file: Archive, key: str | None, kinds: str = "cfiu") -> np.ndarray | None:
    """``(h, w)`` complex64, from ``(h, w)``, ``(h, w, 1)``, or the product of layers ``(…, h, w)``."""
    found = _read_images(file, key, kinds)
    if found is None:
        return None
    layers = found.reshape(-1, *found.shape[-2:])
    if len(layers) > 1:
        file.warnings.append(f"{key} {found.shape}: the product of its {len(layers)} layers is taken")
    return np.asarray(np.prod(layers, axis=0))


def read_good(file: Archive, key: str | None, kind: str, needed: bool = True) -> np.ndarray | None:
    """``(H, W)``, True where a pixel counts, from a mask: ``good``, ``bad`` (not nought), or ``cxi`` bits."""
    mask = None if key is None else file.read(key, "fiub", needed)
    if mask is None:
        return None
    if kind == "cxi" and mask.dtype.kind in "iu":
        good = (mask & ~mask.dtype.type(CXI_GOOD) if mask.dtype.itemsize > 1 else mask) == 0
    else:
        good = (mask != 0) == (kind == "good")
    good = images_first(good) if key is not None and file.columns_first(key) else good
    if good.ndim > 2:
        stack = good.reshape(-1, *good.shape[-2:])
        good = stack.all(axis=0)
        if differ := int(np.count_nonzero(good != stack.any(axis=0))):
            file.warnings.append(
                f"{key} {mask.shape}: {differ} pixels are bad in some patterns, and masked in all"
            )
    file.notes.append(f"mask: {key}, {int(np.count_nonzero(~good))} of {good.size} pixels are bad")
    return good


def read_frame(file: Archive, key: str | None) -> np.ndarray | None:
    """``(H, W)`` float64: a dark or flat field, or the mean of several."""
    found = read_array(file, key)
    if found is not None and key is not None and file.columns_first(key):
        found = images_first(found)
    return None if found is None else found.reshape(-1, *found.shape[-2:]).mean(axis=0, dtype=np.float64)


def check_centre(
    file: Archive, source: Patterns | None, row: float | None, col: float | None
) -> tuple[float, float] | None:
    """(row, col) of the zero frequency in pixels, if both are known and on the detector."""
    if row is None or col is None or source is None:
        return None
    if 0 < row < source.shape[1] and 0 < col < source.shape[2]:
        return row, col
    file.warnings.append(
        f"the beam's centre ({row:g}, {col:g}) is not on {source.shape[1:]}; taken as not given"
    )
    return None


def find_domain(file: Archive, source: Patterns | None, said: str | None = None, key: str = "") -> str | None:
    """What patterns are, by themselves or their ``key``, else ``said`` by the format; None: unknown."""
    if source is None:
        return None
    name, why, likely = tell_domain(source.dtype, source.samples(), key)
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


def _read_images(file: Archive, key: str | None, kinds: str = "cfiu") -> np.ndarray | None:
    """``(…, h, w)`` complex64; text (NeXus: *x-ray*) is passed over."""
    entry = None if key is None else file.entry(key)
    if key is None or entry is None:
        return None
    if entry.dtype is not None and (h5py.check_string_dtype(entry.dtype) or entry.dtype.kind in "SU"):
        file.notes.append(f"{key} is text, and ignored")
        return None
    found = read_array(file, key, kinds)
    if found is not None and found.ndim > 2 and file.columns_first(key):
        found = images_first(found)
    if found is not None and found.ndim == 3 and found.shape[2] == 1 != found.shape[1]:
        found = found[..., 0]
    if found is not None and (found.ndim < 2 or 0 in found.shape):
        file.reject(f"{key} has shape {found.shape}; must be (h, w), or several of them")
        return None
    return None if found is None else found.astype(np.complex64)


def _in_base(file: Archive, quantity: Quantity, unit: str, key: str, found: np.ndarray) -> float | None:
    before = len(file.problems)
    said, size = read_unit(file, key, quantity.units) or (unit, quantity.units[unit.lower()])
    value = float(np.median(found))
    if len(file.problems) > before:
        return None
    if not (math.isfinite(value) and value > 0):
        note = file.complain if file.strict else file.warnings.append
        note(f"{key}={value:g}: no {quantity.name}; {'correct it' if file.strict else 'taken as not given'}")
        return None
    if np.ptp(found) > 1e-3 * value:
        file.warnings.append(f"{key} varies from {found.min():g} to {found.max():g}: {value:g} is taken")
    if problem := quantity.problem(key, value, said, "correct it or its units attribute"):
        file.complain(problem)
        return None
    return value * size
