"""NeXus: NXcxi_ptycho, and NXdata with ``data``, ``x`` and ``y`` as Diamond's I08, I13 and I14 write them.

=============================== =========================== ==================================================
under ``entry_1``, ``entry``
=============================== =========================== ==================================================
``definition``                  ``NXcxi_ptycho``            older: ``NXptycho``; Diamond's may have none
``…/data``                      (J, H, W), (A, B, H, W)     intensities; ``detector_1``, ``data_1``, ``data``
``…/translation``               (J, 3), ``units``           **the sample's** (x, y, z); in ``detector_1``,
                                                            ``data_1``, or ``sample_1/geometry_1``
``data/{x,y}``                  (J,), (A, B), or the axes   or in ``sample_1/transformations``
``beam_1/incident_beam_energy`` ``units``                   or ``beam_1/energy``; eV where no units are given.
                                                            ``source_1/energy``, the machine's, is not read;
                                                            that of electrons where ``source_1/probe`` says so
``detector_1/…``                ``units``                   ``distance``, ``{x,y}_pixel_size``,
                                                            ``beam_center_{x,y}`` (pixels, or a length)
``detector_1/pixel_mask``       (H, W)                      0 is good
``detector_1/{dark,flat}field`` (H, W) or (n, H, W)         ``detector_1``, ``beam_1`` are in ``instrument_1``
=============================== =========================== ==================================================

Signs: a file that says NXcxi_ptycho has the sample's positions, which are negated. Other NXdata are taken as
they are, as ptypy takes them. The data's monitor is not applied.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.cxi_parts import translation
from ptycho.readers.scans.hdf5 import Hdf5File, has, here, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import centre_of, columns, frame_of, good_of, only, scan
from ptycho.readers.scans.hdf5_values import number, of_electrons, pair, plain, text_in, unit_of
from ptycho.readers.scans.quantities import DISTANCE, ENERGY, LENGTHS, PIXEL
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import place

NAME = "nexus"
ENTRIES = ("entry_1", "entry", "entry1")
DEFINITIONS = ("nxcxi_ptycho", "nxptycho")
PIXELS = {"pixel": 1.0, "pixels": 1.0, "px": 1.0}


def detect(file: h5py.File) -> bool:
    return any(_defined(file, entry) or _diamond(file, entry) for entry in ENTRIES)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; positions may be in a second one.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "axes", "positions_file")
    with opened(path, options.stated) as file:
        known = [entry for entry in ENTRIES if _defined(file.file, entry) or _diamond(file.file, entry)]
        entry = known[0] if known else ENTRIES[0]
        detector = f"{entry}/instrument_1/detector_1"
        places = [f"{entry}/data/data", f"{detector}/data", f"{entry}/data_1/data"]
        source = patterns(file, file.need("patterns", *places))
        values = _values(file, entry, detector, source)
        if options.positions_file:
            placed = place(file, options, source, values)
            source, positions = placed if placed is not None else (source, None)
        else:
            positions = _positions(file, options, source, entry)
        return scan(file, NAME, source, positions, values)


def _positions(
    file: Hdf5File, options: ReadOptions, source: Hdf5Patterns | None, entry: str
) -> tuple[np.ndarray, str] | None:
    groups = (f"{entry}/instrument_1/detector_1", f"{entry}/data_1", f"{entry}/sample_1/geometry_1")
    moved = tuple(f"{group}/translation" for group in groups)
    motors = next(
        (g for g in (f"{entry}/data", f"{entry}/sample_1/transformations") if _both(file.file, g)), None
    )
    sample = _defined(file.file, entry)
    if file.first(*moved) or motors is None:
        count = None if source is None else source.shape[0]
        return translation(file, options, count, moved, f"{groups[0]}/basis_vectors")
    if source is None:
        return None
    found = columns(file, (f"{motors}/y", f"{motors}/x"), options, source)
    if found is None:
        return None
    file.notes.append(
        "positions are the sample's: negated" if sample else "positions are taken as the probe's"
    )
    return (-found[0], found[1]) if sample else found


def _values(file: Hdf5File, entry: str, detector: str, source: Hdf5Patterns | None) -> dict[str, Any]:
    beam = f"{entry}/instrument_1/beam_1"
    pixel = pair(file, PIXEL, "m", f"{detector}/y_pixel_size", f"{detector}/x_pixel_size")
    centre = tuple(
        _beam(file, f"{detector}/beam_center_{axis}", None if pixel is None else pixel[k])
        for k, axis in enumerate("yx")
    )
    if any(has(file.file, f"{entry}/instrument_1/{name}/data") for name in ("monitor", "monitor_1")):
        file.notes.append("the monitor is not applied")
    mask = file.first(f"{detector}/pixel_mask", f"{detector}/mask")
    energy = number(file, ENERGY, "eV", f"{beam}/incident_beam_energy", f"{beam}/energy")
    return {
        "domain": domain_of(file, source, "intensity"),
        "zero_frequency": centre_of(file, (centre[0], centre[1]), source),
        "energy_eV": of_electrons(file, energy, f"{entry}/instrument_1/source_1/probe"),
        "distance_m": number(file, DISTANCE, "m", f"{detector}/distance"),
        "detector_pixel_m": pixel,
        "good": good_of(file, mask, "bad" if str(mask).endswith("pixel_mask") else "cxi"),
        "dark": frame_of(file, f"{detector}/darkfield"),
        "flat": frame_of(file, f"{detector}/flatfield"),
    }


def _beam(file: Hdf5File, key: str, pixel: float | None) -> float | None:
    """A coordinate of the beam in pixels."""
    value = plain(file, key)
    unit = None if value is None else unit_of(file, key, PIXELS | LENGTHS)
    if value is None or unit is None or unit[0].strip().lower() in PIXELS:
        return value
    return None if pixel is None else value * unit[1] / pixel


def _defined(file: h5py.File, entry: str) -> bool:
    """Whether the entry says that it is NXcxi_ptycho."""
    said = text_in(here(file, f"{entry}/definition"))
    return said is not None and said.strip().lower() in DEFINITIONS


def _diamond(file: h5py.File, entry: str) -> bool:
    return has(file, f"{entry}/data/data") and _both(file, f"{entry}/data")


def _both(file: h5py.File, group: str) -> bool:
    return has(file, f"{group}/x") and has(file, f"{group}/y")
