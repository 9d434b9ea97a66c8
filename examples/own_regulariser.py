"""Your own regulariser of the object.

    ptycho scan data.file=scan.cxi solver.regulariser=own_regulariser:CAUCHY output_dir=outputs/cauchy

It has a term, the object's part of −log p at λ = 1, with its gradient ∂/∂re + i ∂/∂im; the largest curvature
of the term in a pixel; and the λ that are tried on held-out patterns. This one is the logarithm of a Cauchy
distribution of the differences of neighbouring pixels, so that a step costs hardly more the higher it is:

    λ Σ log(1 + |∇O|²/δ²),      ∂/∂O = λ ∇ᵀ (2/δ² · ∇O / (1 + |∇O|²/δ²))
"""

import numpy as np

from ptycho.reconstruction.prior import Differences, Kind

DELTA = 0.1  # δ


def cauchy(square: np.ndarray) -> tuple[float, np.ndarray]:
    """The sum, and the weight of ∇O in the gradient, for ``|∇O|² (M, M)``."""
    share = square / np.float32(DELTA**2)
    return float(np.log1p(share).sum(dtype=float)), np.float32(2 / DELTA**2) / (1 + share)


CAUCHY = Kind(Differences(cauchy), curvature=8 / DELTA**2, strengths=(0.3, 1.0, 3.0, 10.0))
