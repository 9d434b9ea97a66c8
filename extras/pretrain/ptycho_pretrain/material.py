"""From thickness to transmission of a random material."""

from __future__ import annotations

import numpy as np

from ptycho.config.pretrain_config import MaterialsConfig


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
