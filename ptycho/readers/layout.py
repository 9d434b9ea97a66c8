"""A format of arrays as one table: where things are, in which units, and by which conventions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ptycho.config.waves import electron_wavelength_m, photon_energy_eV
from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.patterns import Patterns
from ptycho.readers.positions import Placement
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import (
    DISTANCE,
    ENERGY,
    OBJECT_PIXEL,
    PIXEL,
    WAVELENGTH,
    check_centre,
    find_domain,
    read_frame,
    read_good,
    read_number,
    read_object,
    read_pair,
    read_plain,
    read_probe,
)

Keys = tuple[str, ...]


def without_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    raise FileError("has no positions; add data.positions_file=, a product, or a table (CSV, TXT, NPY)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Layout of a format; of several keys for one thing, the first that is there counts.

    Attributes:
        detect: whether a file has it; no link to another file is followed.
        patterns: keys; or a function that opens them.
        any_order: in NPZ, patterns may be the last axis, ``(H, W, J)``, or a raster ``(A, B, H, W)``.
        domain: kind of numbers that the format defines; or a function of a file and its patterns.
        zero_frequency: ``centre`` or ``corner``, if the format defines it.
        centre, object_centre: keys of (row, col), in pixels and metres.
        energy, wavelength: with their units, if the file has no ``units`` attributes.
        wave: key of a word; if that is *electron*, the energy is that of electrons.
        distance, pixel: metres; ``pixel`` of the detector, probe and object: one key, or (row, col).
        weights: of coherent modes of the probe.
        masks: keys, and of which kind each is (:func:`~ptycho.readers.values.read_good`).
        positions: gives them, if they come from nowhere else.
        numbers: key of the numbers by which a product refers to the patterns.
        more: further attributes of a scan, by the file, its patterns, and those that are known.
        variant: the table of this file, where files of one format differ.
        options, keys: attributes of :class:`ReadOptions` and names of ``data.keys`` that are of use.
        pair: keys of patterns that may be in a second file.
        read: reads a file of it; None: :func:`~ptycho.readers.places.read_layout`.
    """

    name: str
    detect: Callable[[Archive], bool] = lambda file: False
    patterns: Keys | Callable[[Archive], Patterns] = ()
    any_order: bool = False
    domain: str | Callable[[Archive, Patterns], str | None] | None = None
    zero_frequency: str | None = None
    centre: Keys = ()
    energy: Keys = ()
    energy_unit: str = "eV"
    wavelength: Keys = ()
    wavelength_unit: str = "m"
    wave: str = ""
    distance: Keys = ()
    pixel: Keys = ()
    probe: Keys = ()
    weights: Keys = ()
    probe_pixel: Keys = ()
    object: Keys = ()
    object_pixel: Keys = ()
    object_centre: Keys = ()
    masks: Mapping[str, str] = field(default_factory=dict)
    dark: Keys = ()
    flat: Keys = ()
    positions: Callable[[Archive, ReadOptions, Patterns], Placement | None] = without_positions
    numbers: str | None = None
    more: Callable[[Archive, Patterns, dict[str, Any]], dict[str, Any]] = lambda file, source, values: {}
    variant: Callable[[Archive], Layout] | None = None
    options: Keys = ("unit", "positions_file")
    keys: Keys = ()
    pair: Keys = ()
    read: Callable[[Path, ReadOptions], RawScan] | None = None

    def source(self, file: Archive) -> Patterns:
        """Return the patterns of a file."""
        if callable(self.patterns):
            return self.patterns(file)
        return file.patterns(file.need("patterns", *self.patterns), any_order=self.any_order)

    def values(self, file: Archive, source: Patterns) -> dict[str, Any]:
        """Return attributes of a :class:`~ptycho.readers.raw_scan.RawScan`, those that are known."""
        row, col = (read_plain(file, key) for key in self.centre) if self.centre else (None, None)
        domain = self.domain if callable(self.domain) else partial(find_domain, said=self.domain)
        values = {
            "domain": file.noted(lambda: domain(file, source)),
            "zero_frequency": self.zero_frequency or check_centre(file, source, row, col),
            **self.described(file),
        }
        return values | (file.noted(lambda: self.more(file, source, values)) or {})

    def described(self, file: Archive) -> dict[str, Any]:
        """Return the attributes that are known and need no patterns."""
        centre = tuple(read_plain(file, key) for key in self.object_centre)
        readers: dict[str, Callable[[], Any]] = {
            "energy_eV": lambda: self._energy(file),
            "distance_m": lambda: read_number(file, DISTANCE, "m", *self.distance),
            "detector_pixel_m": lambda: read_pair(file, PIXEL, *self.pixel),
            "probe": lambda: read_probe(file, file.first(*self.probe), self.weights),
            "probe_pixel_m": lambda: read_pair(file, OBJECT_PIXEL, *self.probe_pixel),
            "object": lambda: read_object(file, file.first(*self.object)),
            "object_pixel_m": lambda: read_pair(file, OBJECT_PIXEL, *self.object_pixel),
            "object_centre_m": lambda: None if None in centre else centre or None,
            "good": lambda: read_good(file, self.masks),
            "dark": lambda: read_frame(file, file.first(*self.dark)),
            "flat": lambda: read_frame(file, file.first(*self.flat)),
        }
        values = {
            name: file.noted(read, needed=name == "good")
            for name, read in readers.items()
            if name not in file.stated
        }
        return {name: value for name, value in values.items() if value is not None} | dict(file.stated)

    def _energy(self, file: Archive) -> float | None:
        """Return the photon energy in eV, from ``h·c/λ`` or that of electrons, if need be."""
        energy = read_number(file, ENERGY, self.energy_unit, *self.energy)
        particle = file.text(self.wave) if self.wave and energy is not None else None
        if energy is not None and particle is not None and "electron" in particle.lower():
            file.notes.append(f"{self.wave} is {particle.strip()}: {energy / 1e3:g} keV is theirs")
            return photon_energy_eV(electron_wavelength_m(energy / 1e3))
        if energy is not None or not self.wavelength:
            return energy
        wavelength = read_number(file, WAVELENGTH, self.wavelength_unit, *self.wavelength)
        return None if wavelength is None else photon_energy_eV(wavelength)
