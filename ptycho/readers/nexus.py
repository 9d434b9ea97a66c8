"""NeXus: NXcxi_ptycho, and NXdata with ``data``, ``x`` and ``y`` as Diamond's I08, I13 and I14 write them.

A file that says NXcxi_ptycho (older: NXptycho) has **the sample's** positions, which are negated; other
NXdata are taken as they are, as ptypy takes them. ``source_1/energy``, the machine's, and the monitor are not
read; ``beam_center_{x,y}`` are pixels or lengths; in ``pixel_mask`` 0 is good. In ``entry_1`` probe and
object are as in CXI.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.cxi import ILLUMINATION, find_object, read_translation
from ptycho.readers.layout import Layout
from ptycho.readers.positions import PIXELS, Placement, read_columns
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import LENGTHS, check_centre, read_plain, read_unit

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

    def positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement | None:
        groups = (detector, f"{entry}/data_1", f"{entry}/sample_1/geometry_1")
        moved = tuple(f"{group}/translation" for group in groups)
        places = (f"{entry}/data", f"{entry}/sample_1/transformations")
        motors = next((group for group in places if file.holds(f"{group}/x", f"{group}/y")), None)
        if file.first(*moved) or motors is None:
            return read_translation(file, options, source.counts, moved, f"{detector}/basis_vectors")
        placement = read_columns(file, (f"{motors}/y", f"{motors}/x"), options, source)
        if placement is None:
            return None
        sample = _defined(file, entry)
        file.notes.append(f"positions are {'the sample’s: negated' if sample else 'taken as the probe’s'}")
        return replace(placement, positions=-placement.positions) if sample else placement

    def more(file: Archive, source: Patterns | None, values: dict[str, Any]) -> dict[str, Any]:
        pitch = values["detector_pixel_m"] or (None, None)
        row, col = (_in_pixels(file, *place) for place in zip(centre, pitch, strict=True))
        if file.holds_any(*(f"{entry}/instrument_1/{name}/data" for name in ("monitor", "monitor_1"))):
            file.notes.append("the monitor is not applied")
        described = find_object(file, source, values) if entry == ENTRIES[0] else {}
        return described | {"zero_frequency": check_centre(file, source, row, col)}

    return replace(
        LAYOUT,
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


LAYOUT = Layout(
    name="nexus",
    detect=lambda file: bool(_known(file)),
    variant=lambda file: _of_entry(next(iter(_known(file)), ENTRIES[0])),
)
