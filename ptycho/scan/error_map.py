"""How far an object would be another if its scan were measured again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """Standard deviations of the objects of a scan over measurements that differ by their noise alone.

    Attributes:
        amplitude: ``(I, M, M)`` float32, in units of the object; infinite where it is not illuminated.
        phase: ``(I, M, M)`` float32, rad; infinite there, and where any phase is as likely.
    """

    amplitude: np.ndarray
    phase: np.ndarray

    def __repr__(self) -> str:
        return f"ErrorMap(amplitude and phase, {' × '.join(map(str, self.amplitude.shape))})"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the maps as the arrays ``(M, M)`` that files hold."""
        return {"sigma_amplitude": self.amplitude, "sigma_phase": self.phase}
