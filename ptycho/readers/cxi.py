"""CXI 1.x (CXIDB), as cdtools, PyNX and the ALS use it for ptychography; and NeXus.

Patterns are intensities; ``translation`` (J, 3) is **the sample's** (x, y, z): where the sample goes, the
probe goes the other way over the object. Rows and columns are along ``basis_vectors``, (2, 3) or (3, 2), the
steps of a row and a column; without them, down (−y) and to the right as the beam sees it (−x), as cdtools has
it. In ``mask`` 0 and 0x1000 (has signal) are good. Where ``image_1`` is the probe, ``image_2`` is the object.
A second file for patterns, as the products that ptychodus writes in CXI, has what is not of the detector, and
the numbers of the patterns.

NeXus: NXcxi_ptycho, and NXdata with ``data``, ``x`` and ``y`` as Diamond's I08, I13 and I14 write them.

A file that says NXcxi_ptycho (older: NXptycho) has **the sample's** positions, which are negated; other
NXdata are taken as they are, as ptypy takes them. ``source_1/energy``, the machine's, and the monitor are not
read; ``beam_center_{x,y}`` are pixels or lengths; in ``pixel_mask`` 0 is good. In ``entry_1`` probe and
object are as in CXI.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Patterns
from ptycho.readers.positions import PIXELS, Placement, read_columns, read_rows
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import (
    LENGTHS,
    check_centre,
    read_array,
    read_object,
    read_plain,
    read_unit,
    read_whole,
)

DETECTOR, SOURCE = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
PATTERNS = ("entry_1/data_1/data", f"{DETECTOR}/data")
TRANSLATIONS = tuple(f"{g}/translation" for g in ("entry_1/data_1", "entry_1/sample_1/geometry_1", DETECTOR))
BASIS = f"{DETECTOR}/basis_vectors"
ILLUMINATION = f"{SOURCE}/illumination"
PROBES = (ILLUMINATION, f"{SOURCE}/probe", f"{DETECTOR}/probe")
OBJECTS = ("entry_1/image_1/data", "entry_1/image_2/data")
INDEXES = "entry_1/ptychodus/probe_position_indexes"
UPRIGHT = np.array([[0.0, -1, 0], [-1, 0, 0]])  # directions of a row, a column; y is up, z along the beam


def read_translation(
    file: Archive,
    options: ReadOptions,
    counts: tuple[int, ...],
    keys: tuple[str, ...] = TRANSLATIONS,
    basis: str = BASIS,
) -> Placement:
    """Read positions ``(J, 2)`` of the probe: ``−t·e``, t the sample's translation, e the detector's axes."""
    key = file.need("translations (data.positions_file= may have positions),", *keys)
    translations = read_rows(file, key, options, counts, (3, 2))
    vectors = _basis(file, basis)
    along = f"the axes of {basis}" if vectors is not None else "rows down (−y) and columns along −x"
    vectors = UPRIGHT if vectors is None else vectors
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    file.notes.append(f"positions: {key} is the sample's: negated, along {along}, in {translations.unit}")
    return Placement(
        -translations.positions @ axes[:, : translations.positions.shape[1]].T, translations.unit
    )


def read_product(file: Archive, options: ReadOptions) -> Placement:
    """Read positions by the numbers of their patterns, and what is described."""
    entry = file.entry(file.first(*TRANSLATIONS) or "")
    count = max(entry.shape or (0,), default=0) if entry else 0
    placement = read_translation(file, options, (count,))
    image = find_object(file)
    values = RESULT.described(file) | ({} if image is None else {"object": image})
    return replace(placement, numbers=read_whole(file, INDEXES, (count,), needed=True), values=values)


def find_object(file: Archive) -> np.ndarray | None:
    """Return the first image that is not the probe, if it is complex: real ones are of something else."""
    probe, first = file.first(*PROBES), file.entry(OBJECTS[0])
    key = OBJECTS[1] if probe and first and file.is_same(probe, OBJECTS[0]) else OBJECTS[0]
    entry = file.entry(key)
    dtype = np.dtype(float) if entry is None or entry.dtype is None else entry.dtype
    return read_object(file, key) if dtype.kind == "c" or dtype.names else None


def _basis(file: Archive, key: str) -> np.ndarray | None:
    """``(2, 3)``, steps of a row and of a column, from ``(2, 3)``, ``(3, 2)``, or one of these a pattern."""
    array = read_array(file, key)
    if array is None or array.ndim < 2 or array.shape[-2:] not in ((2, 3), (3, 2)) or not array.size:
        return None
    first = array.reshape(-1, *array.shape[-2:])[0]
    vectors = first.T if first.shape == (3, 2) else first
    return vectors if np.linalg.norm(vectors, axis=1).all() else None


def _find_pixel(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    """The object, and the pitch of the detector: where it is not stated, the length of the basis vectors."""
    vectors = None if "detector_pixel_m" in values else _basis(file, BASIS)
    steps = {} if vectors is None else {"detector_pixel_m": tuple(np.linalg.norm(vectors, axis=1).tolist())}
    return {"object": find_object(file)} | steps


RESULT = Layout(
    name="cxi",
    energy=(f"{SOURCE}/energy",),
    energy_unit="J",
    wavelength=(f"{SOURCE}/wavelength",),
    wave=f"{SOURCE}/probe",
    distance=(f"{DETECTOR}/distance",),
    probe=PROBES,
)
LAYOUT = replace(
    RESULT,
    detect=lambda file: file.holds_any(*PATTERNS),
    patterns=PATTERNS,
    domain="intensity",
    centre=(f"{DETECTOR}/beam_center_y", f"{DETECTOR}/beam_center_x"),
    pixel=(f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size"),
    masks={f"{DETECTOR}/mask": "cxi"},
    dark=(f"{DETECTOR}/data_dark",),
    positions=lambda file, options, source: read_translation(file, options, source.counts),
    more=_find_pixel,
)


ENTRIES = ("entry_1", "entry", "entry1")
DEFINITIONS = ("nxcxi_ptycho", "nxptycho")


def _known(file: Archive) -> list[str]:
    """The entries that say that they are NXcxi_ptycho, or look like those of Diamond."""
    return [
        e for e in ENTRIES if _defined(file, e) or file.holds(*(f"{e}/data/{k}" for k in ("data", "x", "y")))
    ]


def _defined(file: Archive, entry: str) -> bool:
    definition = file.text(f"{entry}/definition") if file.holds(f"{entry}/definition") else None
    return definition is not None and definition.strip().lower() in DEFINITIONS


def _of_entry(entry: str) -> Layout:
    detector, beam = f"{entry}/instrument_1/detector_1", f"{entry}/instrument_1/beam_1"
    centre = f"{detector}/beam_center_y", f"{detector}/beam_center_x"

    def positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
        groups = (detector, f"{entry}/data_1", f"{entry}/sample_1/geometry_1")
        moved = tuple(f"{group}/translation" for group in groups)
        places = (f"{entry}/data", f"{entry}/sample_1/transformations")
        motors = next((group for group in places if file.holds(f"{group}/x", f"{group}/y")), None)
        if file.first(*moved) or motors is None:
            return read_translation(file, options, source.counts, moved, f"{detector}/basis_vectors")
        placement = read_columns(file, (f"{motors}/y", f"{motors}/x"), options, source)
        sample = _defined(file, entry)
        file.notes.append(f"positions are {'the sample’s: negated' if sample else 'taken as the probe’s'}")
        return replace(placement, positions=-placement.positions) if sample else placement

    def more(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
        pitch = values.get("detector_pixel_m", (None, None))
        row, col = (_in_pixels(file, *place) for place in zip(centre, pitch, strict=True))
        if file.holds_any(*(f"{entry}/instrument_1/{name}/data" for name in ("monitor", "monitor_1"))):
            file.notes.append("the monitor is not applied")
        described = {"object": find_object(file)} if entry == ENTRIES[0] else {}
        return described | {"zero_frequency": check_centre(file, source, row, col)}

    return replace(
        NEXUS,
        patterns=(f"{entry}/data/data", f"{detector}/data", f"{entry}/data_1/data"),
        domain="intensity",
        energy=(f"{beam}/incident_beam_energy", f"{beam}/energy"),
        wave=f"{entry}/instrument_1/source_1/probe",
        distance=(f"{detector}/distance",),
        pixel=(f"{detector}/y_pixel_size", f"{detector}/x_pixel_size"),
        masks={f"{detector}/pixel_mask": "bad", f"{detector}/mask": "cxi"},
        dark=(f"{detector}/darkfield",),
        flat=(f"{detector}/flatfield",),
        probe=(ILLUMINATION,) if entry == ENTRIES[0] else (),
        positions=positions,
        more=more,
    )


def _in_pixels(file: Archive, key: str, pixel: float | None) -> float | None:
    """A coordinate of the beam in pixels, which may be stated as a length."""
    value = read_plain(file, key)
    unit = None if value is None else read_unit(file, key, dict.fromkeys(PIXELS, 1.0) | LENGTHS)
    if value is None or unit is None or unit[0].lower() in PIXELS:
        return value
    return None if pixel is None else value * unit[1] / pixel


NEXUS = Layout(
    name="nexus",
    detect=lambda file: bool(_known(file)),
    variant=lambda file: _of_entry(next(iter(_known(file)), ENTRIES[0])),
)
