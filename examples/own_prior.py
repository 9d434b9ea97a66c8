"""Your own prior of the object.

    python examples/own_prior.py

A prior is a function of |∇O|² that gives its sum and the weight of ∇O in the gradient, with the largest
curvature of a pixel. This one is the logarithm of a Cauchy distribution of the differences of neighbouring
pixels: steps cost hardly more the higher they are.

    λ Σ log(1 + |∇O|²/δ²),      ∂/∂O = λ ∇ᵀ (2/δ² · ∇O / (1 + |∇O|²/δ²))
"""

import numpy as np

import ptycho
from ptycho.config.solver_config import SolverConfig
from ptycho.reconstruction.prior import PRIORS, Kind

STEP = 0.1  # δ


def cauchy(square: np.ndarray) -> tuple[float, np.ndarray]:
    """The term and the weight of ∇O, for ``|∇O|² (M, M)``, at λ = 1."""
    share = square / np.float32(STEP**2)
    return float(np.log1p(share).sum(dtype=float)), np.float32(2 / STEP**2) / (1 + share)


def register() -> None:
    """Its name in the table of priors, and in that of the names that settings may have."""
    PRIORS["cauchy"] = Kind(cauchy, 8 / STEP**2, strengths=(0.3, 1.0, 3.0, 10.0))
    SolverConfig.REGULARISERS = tuple(dict.fromkeys([*SolverConfig.REGULARISERS, "cauchy"]))


def main(N: int = 64, n_positions: int = 400, **solver) -> dict[str, ptycho.Result]:
    register()
    scan = ptycho.simulate(N, n_positions, nphotons=1e4, sample="blobs", seed=5)  # dim: a prior matters
    kinds = ("edge_preserving", "cauchy")
    results = {kind: ptycho.reconstruct(scan, regulariser=kind, **solver) for kind in kinds}
    for kind, result in results.items():
        print(kind, result)
    return results


if __name__ == "__main__":
    main()
