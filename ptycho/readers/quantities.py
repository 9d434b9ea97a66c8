"""Energies and lengths that a scan can have, and the units that files state them in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptycho.config.data import RANGES
from ptycho.config.waves import wavelength_m

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

    Attributes:
        option: key of the section ``data`` that takes precedence over the file; None: there is none.
        from_option: its value as this quantity.
    """

    name: str
    base: str
    low: float
    high: float
    units: dict[str, float]
    option: str | None = None
    from_option: Callable[[float], float] = float

    def problem(self, key: str, value: float, unit: str, remedy: str = "correct it") -> str | None:
        """Return what is wrong with a number at ``key``, in one of ``units``; None: nothing.

        Args:
            remedy: what can be done in the file.
        """
        if self.low <= value * self.units[unit.lower()] <= self.high:
            return None
        if self.option is not None:
            remedy += f", or set data.{self.option}="
        return (
            f"{key}={value:g} {unit}: a {self.name} must be from {self.low:g} to {self.high:g} {self.base}; "
            f"{self._likely(value)}{remedy}"
        )

    def _likely(self, value: float) -> str:
        """The units, each by its first name, in which a number would be possible."""
        units = {name: size for name, size in self.units.items() if self.low <= value * size <= self.high}
        return f"is it in {' or '.join(first_names(units))}? " if units else ""


def first_names(units: dict[str, float]) -> list[str]:
    """Return one name for each of some units, the first."""
    names: dict[float, str] = {}
    for name, size in units.items():
        names.setdefault(size, {"ev": "eV", "kev": "keV", "j": "J"}.get(name, name))
    return list(names.values())


ENERGY = Quantity("photon energy", "eV", *RANGES["energy_eV"], ENERGIES, "energy_eV")
WAVELENGTH = Quantity("wavelength", "m", *RANGES["wavelength_m"], LENGTHS, "energy_eV", wavelength_m)
DISTANCE = Quantity("distance", "m", *RANGES["distance_m"], LENGTHS, "distance_m")
PIXEL = Quantity("pixel size", "m", *RANGES["detector_pixel_m"], LENGTHS, "detector_pixel_m")
OBJECT_PIXEL = Quantity("pixel size", "m", 1e-13, 1e-3, LENGTHS)
