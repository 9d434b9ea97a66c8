#!/usr/bin/env python
"""How many steps does a fit under a regulariser take to its end, and how low is that?

    python benchmarks/regulariser_steps.py [--only TEXT] [--most 400]

The object of some cells of the panel is fitted under the true beam: without a regulariser, and from there
under each λ. Steps are scaled by three operators: the regulariser's curvature at the present object (as the
program does), its mean weight at all pixels, and pixel by pixel without the regulariser. *Above* is −log p at
the end over the lowest end of the three, as a share of what the regulariser costs there.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy import fft

from benchmarks.panel import cells, scan_of
from benchmarks.tables import markdown
from ptycho.reconstruction import preconditioner
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.preconditioner import Part, regularised
from ptycho.reconstruction.prior import Prior, kind_of
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Fit, Objective, fit

CELLS = ("relief lens 1e+04 12 nothing", "a lens 1e+06 5 nothing", "c lens 1e+04 12 nothing N128")


def by_mean_weight(scale: np.ndarray, stiffness: np.ndarray, curvature: Part) -> Part:
    """Return the operator that solves (H + c s(k)^p) z = g, with one weight c for all pixels."""
    rows, columns = scale.shape

    def mean(wave: np.ndarray) -> np.ndarray:
        return fft.ifft2(stiffness * fft.fft2(wave, stiffness.shape))[:rows, :columns]

    return regularised(scale, stiffness, mean)


def by_pixel(scale: np.ndarray, stiffness: np.ndarray, curvature: Part) -> Part:
    return lambda wave: wave


WAYS: dict[str, Callable[[np.ndarray, np.ndarray, Part], Part]] = {
    "curvature": regularised,
    "mean weight": by_mean_weight,
    "pixels": by_pixel,
}


def ends(objective: Objective, start: Estimate, most: int) -> dict[str, tuple[Fit, float]]:
    """Return the fit, and its seconds, under each of WAYS."""
    found = {}
    for name, way in WAYS.items():
        with patch.object(preconditioner, "regularised", way):
            began = time.perf_counter()
            fitted = fit(objective, start, OBJECT_ALONE, most, FIT.enough)
            found[name] = fitted, time.perf_counter() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cells whose names contain this text")
    parser.add_argument("--most", type=int, default=400, help="steps of a fit (400)")
    options = parser.parse_args()
    rows = []
    for cell in (cell for cell in cells() if cell.name in CELLS and options.only in cell.name):
        data = scan_of(cell)[0]
        likelihood = ScanLikelihood(data, data.normalisation, 1.0, "poisson")
        flat = np.ones((data.object_size,) * 2, np.complex64)
        start = Estimate.of(data, flat, normalisation=data.normalisation)
        start = fit(Objective(likelihood), start, OBJECT_ALONE, options.most).estimate
        for kind in ("quadratic", "edge_preserving", "second_order"):
            last = start
            for strength in kind_of(kind).strengths[:3]:
                prior = Prior(kind, strength)
                found = ends(Objective(likelihood, prior), last, options.most)
                best = min((fitted for fitted, _ in found.values()), key=lambda fitted: fitted.course[-1])
                lowest, cost = best.course[-1], prior(best.estimate.object)[0]
                row = {"cell": cell.name, "regulariser": f"{kind}, λ {strength:g}"}
                for name, (fitted, seconds) in found.items():
                    above = (fitted.course[-1] - lowest) / cost
                    row[name] = f"{len(fitted.course) - 1} steps, {seconds:.1f} s, {100 * above:.2f} % above"
                rows.append(row)
                last = found["curvature"][0].estimate
                print(" | ".join(row.values()), file=sys.stderr, flush=True)
    print(markdown(rows))


if __name__ == "__main__":
    main()
