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
number of the dtype (Pilatus: a negative one) marks gaps and broken pixels; a pixel that holds it in every
pattern looked at is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has, here, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import centre_of, good_of, only, scan
from ptycho.readers.scans.hdf5_values import energy_of, number, pair, plain
from ptycho.readers.scans.quantities import DISTANCE, ENERGY, PIXEL, WAVELENGTH
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import KEYS, by_keys, check_keys, place

NAME = "eiger"
GROUPS = ("entry/data", "entry")
BLOCK = re.compile(r"data_(\d{6})")
DETECTOR = "entry/instrument/detector"
SPECIFIC, BEAM = f"{DETECTOR}/detectorSpecific", "entry/instrument/beam"


def detect(file: h5py.File) -> bool:
    return any(blocks_in(file, group) for group in GROUPS) or (
        has(file, "entry/data/data") and has(file, SPECIFIC)
    )


def blocks_in(file: h5py.File, group: str) -> list[str]:
    """The keys ``data_000001`` … of a group, in their order."""
    node = here(file, group)
    names = [name for name in node if BLOCK.fullmatch(name)] if isinstance(node, h5py.Group) else []
    return [f"{group}/{name}" for name in sorted(names)]


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a master; the positions come from elsewhere.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "keys", "unit", "axes", "positions_file")
    check_keys(path, options, KEYS)
    with opened(path, options.stated) as file:
        source = patterns(file, *_patterns(file))
        values = _values(file, source)
        if options.positions_file:
            placed = place(file, options, source, values)
            source, positions = placed if placed is not None else (source, None)
        else:
            positions = None if source is None else by_keys(file, options, source)
        return scan(file, NAME, source, positions, values)


def _patterns(file: Hdf5File) -> list[str | None]:
    keys = next((found for group in GROUPS if (found := blocks_in(file.file, group))), [])
    if not keys:
        return [file.need("patterns", "entry/data/data", "entry/data/data_000001")]
    numbers = [int(key[-6:]) for key in keys]
    gaps = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    if gaps:
        file.complain(f"has {keys[0]} to {keys[-1]}, but not {', '.join(f'data_{k:06d}' for k in gaps[:5])}")
    return list(keys)


def _values(file: Hdf5File, source: Hdf5Patterns | None) -> dict[str, Any]:
    centre = plain(file, f"{DETECTOR}/beam_center_y"), plain(file, f"{DETECTOR}/beam_center_x")
    mask = file.first(f"{SPECIFIC}/pixel_mask", f"{DETECTOR}/pixel_mask")
    energy = number(file, ENERGY, "eV", f"{SPECIFIC}/photon_energy", f"{BEAM}/incident_energy")
    wavelength = (f"{BEAM}/incident_wavelength", f"{DETECTOR}/incident_wavelength")
    if energy is None:
        energy = energy_of(number(file, WAVELENGTH, "angstrom", *wavelength))
    _declared(file, source)
    return {
        "domain": domain_of(file, source),
        "zero_frequency": None if centre == (0, 0) else centre_of(file, centre, source),
        "energy_eV": energy,
        "distance_m": number(file, DISTANCE, "m", f"{DETECTOR}/detector_distance", f"{DETECTOR}/distance"),
        "detector_pixel_m": pair(file, PIXEL, "m", f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size"),
        "good": _good(file, good_of(file, mask, "bad"), source),
    }


def _good(file: Hdf5File, good: np.ndarray | None, source: Hdf5Patterns | None) -> np.ndarray | None:
    """Without the pixels that mark themselves as broken; a warning of those that are saturated."""
    if (
        source is None
        or source.dtype.kind not in "iu"
        or (good is not None and good.shape != source.shape[1:])
    ):
        return good
    largest = np.iinfo(source.dtype).max
    marked, peak = np.ones(source.shape[1:], bool), 0
    for block in source.looked():
        marked &= ((block == largest) | (block < 0)).all(axis=0)
        lit = block[0] if good is None else block[0][good]
        peak = max(peak, int(np.max(lit[lit < largest], initial=0)))
    limit = plain(file, f"{SPECIFIC}/saturation_value", f"{SPECIFIC}/countrate_correction_count_cutoff")
    if limit is not None:
        file.notes.append(f"the detector saturates at {limit:g} counts; those looked at reach {peak}")
    if limit is not None and peak >= limit > 0:
        file.warnings.append(
            f"counts reach {peak}, and the detector saturates at {limit:g}; add data.saturation={limit:g}"
        )
    if not marked.any():
        return good
    file.notes.append(
        f"mask: {int(marked.sum())} pixels hold {largest}, or less than 0, in the patterns looked at"
    )
    return ~marked if good is None else good & ~marked


def _declared(file: Hdf5File, source: Hdf5Patterns | None) -> None:
    """Warn if the master announces another number of patterns."""
    images, triggers = plain(file, f"{SPECIFIC}/nimages"), plain(file, f"{SPECIFIC}/ntrigger")
    if source is not None and images is not None and images * (triggers or 1) != source.shape[0]:
        file.warnings.append(
            f"the master announces {images * (triggers or 1):g} patterns, and there are {source.shape[0]}"
        )
