"""From thickness to transmission: what a random material does to the wave."""

from __future__ import annotations

import numpy as np

from ptycho.config.pretrain_config import MaterialsConfig

LEAST = 0.05  # amplitude where a bright object has nothing
BENT = 0.3  # share of objects whose phase is no linear function of thickness


def transmission(
    thickness: np.ndarray, other: np.ndarray, materials: MaterialsConfig, rng: np.random.Generator
) -> np.ndarray:
    """``a(t)·exp(iφ(t'))`` of a random material, ``(side, side)`` complex64.

    ``a = 1 − αt``, or ``t`` itself above a floor; ``φ = β(t' − ½)``, or ``β/2·sin(π(t' − ½))``, of any sign.
    ``t'`` is t or, for some objects, the map ``other``; β and α are drawn.
    """
    absorption = rng.uniform(*materials.absorption)
    strength = np.exp(rng.uniform(*np.log(materials.phase_rad))) * rng.choice([-1.0, 1.0])
    unrelated, bright, bent = rng.random(3) < (materials.unrelated, materials.bright, BENT)
    phase = (other if unrelated else thickness) - 0.5
    phase = 0.5 * np.sin(np.pi * phase) if bent else phase
    amplitude = np.maximum(thickness, LEAST) if bright else 1 - absorption * thickness
    return (amplitude * np.exp(1j * strength * phase)).astype(np.complex64)
