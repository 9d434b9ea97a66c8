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
``source_1/illumination``       as in CXI                   probe; ``image_1/data``: object; of ``entry_1``
=============================== =========================== ==================================================

Signs: a file that says NXcxi_ptycho has the sample's positions, which are negated. Other NXdata are taken as
they are, as ptypy takes them. The data's monitor is not applied.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.cxi_parts import PROBES, read_result, read_translation
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.places import place_scan
from ptycho.readers.positions import Positions, read_columns
from ptycho.readers.quantities import DISTANCE, LENGTHS, PIXEL
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import (
    check_centre,
    find_domain,
    read_energy,
    read_frame,
    read_good,
    read_number,
    read_pair,
    read_plain,
    read_unit,
)

NAME = "nexus"
ENTRIES = ("entry_1", "entry", "entry1")
DEFINITIONS = ("nxcxi_ptycho", "nxptycho")
PIXELS = {"pixel": 1.0, "pixels": 1.0, "px": 1.0}


def detect(file: Archive) -> bool:
    return any(_defined(file, entry) or _diamond(file, entry) for entry in ENTRIES)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; positions may be in a second one."""
    options.refuse_unused(path, NAME, "unit", "positions_file")
    with Hdf5Archive(path, options) as file:
        known = [entry for entry in ENTRIES if _defined(file, entry) or _diamond(file, entry)]
        entry = known[0] if known else ENTRIES[0]
        detector = f"{entry}/instrument_1/detector_1"
        places = [f"{entry}/data/data", f"{detector}/data", f"{entry}/data_1/data"]
        source = file.patterns(file.need("patterns", *places))
        values = _values(file, entry, detector, source)
        return place_scan(
            file, NAME, options, source, values, lambda: _positions(file, options, source, entry)
        )


def _positions(file: Archive, options: ReadOptions, source: Patterns | None, entry: str) -> Positions | None:
    groups = (f"{entry}/instrument_1/detector_1", f"{entry}/data_1", f"{entry}/sample_1/geometry_1")
    moved = tuple(f"{group}/translation" for group in groups)
    motors = next((g for g in (f"{entry}/data", f"{entry}/sample_1/transformations") if _both(file, g)), None)
    if file.first(*moved) or motors is None:
        return read_translation(file, options, source, moved, f"{groups[0]}/basis_vectors")
    found = None if source is None else read_columns(file, (f"{motors}/y", f"{motors}/x"), options, source)
    if found is None:
        return None
    sample = _defined(file, entry)
    file.notes.append(
        "positions are the sample's: negated" if sample else "positions are taken as the probe's"
    )
    return (-found[0], found[1]) if sample else found


def _values(file: Archive, entry: str, detector: str, source: Patterns | None) -> dict[str, Any]:
    beam = f"{entry}/instrument_1/beam_1"
    pixel = read_pair(file, PIXEL, "m", f"{detector}/y_pixel_size", f"{detector}/x_pixel_size")
    row, col = pixel or (None, None)
    row, col = _beam(file, f"{detector}/beam_center_y", row), _beam(file, f"{detector}/beam_center_x", col)
    if any(file.holds(f"{entry}/instrument_1/{name}/data") for name in ("monitor", "monitor_1")):
        file.notes.append("the monitor is not applied")
    mask = file.first(f"{detector}/pixel_mask", f"{detector}/mask")
    energies = (f"{beam}/incident_beam_energy", f"{beam}/energy")
    return {
        "domain": find_domain(file, source, "intensity"),
        "zero_frequency": check_centre(file, source, row, col),
        "energy_eV": read_energy(file, "eV", energies, probe=f"{entry}/instrument_1/source_1/probe"),
        "distance_m": read_number(file, DISTANCE, "m", f"{detector}/distance"),
        "detector_pixel_m": pixel,
        "good": read_good(file, mask, "bad" if str(mask).endswith("pixel_mask") else "cxi"),
        "dark": read_frame(file, f"{detector}/darkfield"),
        "flat": read_frame(file, f"{detector}/flatfield"),
        **(read_result(file, PROBES[:1]) if entry == ENTRIES[0] else {}),
    }


def _beam(file: Archive, key: str, pixel: float | None) -> float | None:
    """A coordinate of the beam in pixels."""
    value = read_plain(file, key)
    unit = None if value is None else read_unit(file, key, PIXELS | LENGTHS)
    if value is None or unit is None or unit[0].strip().lower() in PIXELS:
        return value
    return None if pixel is None else value * unit[1] / pixel


def _defined(file: Archive, entry: str) -> bool:
    """Whether the entry says that it is NXcxi_ptycho."""
    key = f"{entry}/definition"
    said = file.text(key) if file.holds(key) else None
    return said is not None and said.strip().lower() in DEFINITIONS


def _diamond(file: Archive, entry: str) -> bool:
    return file.holds(f"{entry}/data/data") and _both(file, f"{entry}/data")


def _both(file: Archive, group: str) -> bool:
    return file.holds(f"{group}/x") and file.holds(f"{group}/y")
