"""Masters of Dectris detectors (Eiger, Pilatus) with their data in files beside them.

=================================== =============== ==========================================================
``entry/data/data_000001`` …        (n, H, W)       counts, one after the other; external links to files
                                                    beside the master. Or ``entry/data/data``
in ``entry/instrument/detector``
``detector_distance``               metres          or ``distance``
``{x,y}_pixel_size``                metres
``beam_center_{x,y}``               pixels          zero frequency; nought: not set
``detectorSpecific/pixel_mask``     (H, W)          0 is good; also directly in ``detector``
``detectorSpecific/photon_energy``  eV              or ``entry/instrument/beam/incident_wavelength``, angstrom
``…/saturation_value``              counts          or ``countrate_correction_count_cutoff``
=================================== =============== ==========================================================

There are no positions: they come in ``data.positions_file``, or by ``data.keys.positions``. The largest
number of the dtype (Pilatus: a negative one) marks gaps and broken pixels, as in any format.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.places import check_keys, place_scan
from ptycho.readers.positions import KEYS, read_mapped
from ptycho.readers.quantities import DISTANCE, PIXEL
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import (
    check_centre,
    find_domain,
    read_energy,
    read_good,
    read_number,
    read_pair,
    read_plain,
)

NAME = "eiger"
GROUPS = ("entry/data", "entry")
BLOCK = re.compile(r"data_(\d{6})")
DETECTOR = "entry/instrument/detector"
SPECIFIC, BEAM = f"{DETECTOR}/detectorSpecific", "entry/instrument/beam"


def detect(file: Archive) -> bool:
    return bool(_blocks(file)) or (file.holds("entry/data/data") and file.holds(SPECIFIC))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a master; the positions come from elsewhere."""
    options.refuse_unused(path, NAME, "keys", "unit", "axes", "positions_file")
    check_keys(path, options, KEYS)
    with Hdf5Archive(path, options) as file:
        source = file.patterns(*_patterns(file))
        values = _values(file, source)
        return place_scan(file, NAME, options, source, values, lambda: read_mapped(file, options, source))


def _blocks(file: Archive) -> list[str]:
    """The keys ``data_000001`` … of the first group that has such, in their order."""
    listed = (
        [f"{group}/{name}" for name in file.children(group) if BLOCK.fullmatch(name)] for group in GROUPS
    )
    return next((keys for keys in listed if keys), [])


def _patterns(file: Archive) -> list[str | None]:
    keys = _blocks(file)
    if not keys:
        return [file.need("patterns", "entry/data/data", "entry/data/data_000001")]
    numbers = [int(key[-6:]) for key in keys]
    gaps = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    if gaps:
        file.complain(f"has {keys[0]} to {keys[-1]}, but not {', '.join(f'data_{k:06d}' for k in gaps[:5])}")
    return list(keys)


def _values(file: Archive, source: Patterns | None) -> dict[str, Any]:
    centre = tuple(read_plain(file, f"{DETECTOR}/beam_center_{axis}") for axis in "yx")
    mask = file.first(f"{SPECIFIC}/pixel_mask", f"{DETECTOR}/pixel_mask")
    energies = (f"{SPECIFIC}/photon_energy", f"{BEAM}/incident_energy")
    wavelengths = (f"{BEAM}/incident_wavelength", f"{DETECTOR}/incident_wavelength")
    good = read_good(file, mask, "bad")
    _declared(file, source)
    _warn_of_saturation(file, good, source)
    return {
        "domain": find_domain(file, source),
        "zero_frequency": None if centre == (0, 0) else check_centre(file, source, *centre),
        "energy_eV": read_energy(file, "eV", energies, wavelengths, "angstrom"),
        "distance_m": read_number(
            file, DISTANCE, "m", f"{DETECTOR}/detector_distance", f"{DETECTOR}/distance"
        ),
        "detector_pixel_m": read_pair(
            file, PIXEL, "m", f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size"
        ),
        "good": good,
    }


def _warn_of_saturation(file: Archive, good: np.ndarray | None, source: Patterns | None) -> None:
    """Say where the detector saturates, and warn if counts reach that."""
    limit = read_plain(file, f"{SPECIFIC}/saturation_value", f"{SPECIFIC}/countrate_correction_count_cutoff")
    unfit = source is None or (good is not None and good.shape != source.shape[1:])
    if limit is None or unfit or source is None or source.dtype.kind not in "iu":
        return
    largest, peak = np.iinfo(source.dtype).max, 0
    for block in source.samples():
        lit = block[0] if good is None else block[0][good]
        peak = max(peak, int(np.max(lit[lit < largest], initial=0)))
    file.notes.append(f"the detector saturates at {limit:g} counts; the inspected patterns reach {peak}")
    if peak >= limit > 0:
        file.warnings.append(
            f"counts reach {peak}, and the detector saturates at {limit:g}; add data.saturation={limit:g}"
        )


def _declared(file: Archive, source: Patterns | None) -> None:
    """Warn if the master announces another number of patterns."""
    images, triggers = read_plain(file, f"{SPECIFIC}/nimages"), read_plain(file, f"{SPECIFIC}/ntrigger")
    if source is not None and images is not None and images * (triggers or 1) != source.shape[0]:
        file.warnings.append(
            f"the master announces {images * (triggers or 1):g} patterns, and there are {source.shape[0]}"
        )
