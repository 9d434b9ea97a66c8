"""The distributions that training examples are drawn from, as the tables of kinds have them."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from ptycho.config import check
from ptycho_pretrain.config import KindsConfig, MaterialsConfig, ScansMeasurementConfig
from ptycho_pretrain.kinds import read_entries
from ptycho_pretrain.object_kinds import OBJECT_KINDS
from ptycho_pretrain.probe_kinds import PROBE_KINDS, disturb_phase

Config = TypeVar("Config", bound=KindsConfig)


class Distributions(Generic[Config]):
    """Kinds of probes and objects, and forms of examples, of a configuration.

    Raises:
        ConfigError: a kind or a parameter that there is not, or no form.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.objects = read_entries(OBJECT_KINDS, config.objects, "objects")
        self.probes = read_entries(PROBE_KINDS, config.probes, "probes")
        forms = getattr(config, config.FORMS)
        check(len(forms) > 0, config.FORMS, "{}", "at least one form of examples")
        self.forms = tuple(forms.values())


def disturb_probe(
    probe: np.ndarray, measured: ScansMeasurementConfig, rng: np.random.Generator
) -> np.ndarray:
    """Return ``probe (…, N, N)`` as stated: the true one, or now and then one with a wrong phase."""
    if rng.random() >= measured.probe_error_share:
        return probe
    return disturb_phase(probe, rng.uniform(*measured.probe_error_rad), rng)


def disturb_positions(
    positions: np.ndarray,
    bounds: tuple[float, float],
    measured: ScansMeasurementConfig,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return ``positions (J, 2)`` as stated: true, or now and then wrong ones within ``bounds``."""
    if rng.random() >= measured.position_error_share:
        return positions
    error = rng.uniform(*measured.position_error_px)
    return np.clip(positions + rng.normal(0, error, positions.shape), *bounds)


def transmission(
    thickness: np.ndarray,
    other: np.ndarray,
    materials: MaterialsConfig,
    rng: np.random.Generator,
    bent: float = 0.3,
    floor: float = 0.05,
) -> np.ndarray:
    """Return ``a(t)·exp(iφ(t'))`` of a random material, ``(side, side)`` complex64.

    ``a = 1 − αt``, or ``t`` itself above a ``floor``; with the chance ``1 − bent`` ``φ = β(t' − ½)``, else
    ``β/2·sin(π(t' − ½))``, of any sign. ``t'`` is t or, for some objects, ``other``; β and α are drawn.
    """
    absorption = rng.uniform(*materials.absorption)
    strength = np.exp(rng.uniform(*np.log(materials.phase_rad))) * rng.choice([-1.0, 1.0])
    unrelated, bright, curved = rng.random(3) < (materials.unrelated, materials.bright, bent)
    phase = (other if unrelated else thickness) - 0.5
    phase = 0.5 * np.sin(np.pi * phase) if curved else phase
    amplitude = np.maximum(thickness, floor) if bright else 1 - absorption * thickness
    return (amplitude * np.exp(1j * strength * phase)).astype(np.complex64)
