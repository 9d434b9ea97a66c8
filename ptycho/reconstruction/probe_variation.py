"""A probe that varies along the scan: orthogonal probe relaxation.

    P_j = P_0 + Σ_k w_jk V_k,   Σ_j w_jk = 0,   Σ_j conj(w_jk) w_jl = J δ_kl,   ⟨V_k, V_l⟩ = 0 for k ≠ l

for the first mode in pattern j; other modes do not vary. So ``|V_k|²`` is the power by which P_j differs
from P_0 on average. An overall factor of P_j changes no pattern but for the flux, which is refined, too, and
takes what a V_k has along P_0.

New V_k are found where −log p falls fastest. With g_j its gradient by P_j and H the mean curvature, the steps
``−g_j / H``, without their mean and what lies along P_0, are weighted by √H and, since a probe varies where
it is, by |P_0|; of these rows V_k are the leading singular vectors. The score test is the power of the first
over that of one in the bulk: about one, where noise is all that is left. A slow drift shows earlier in the
slowest cosines over the scan: there the test is the largest power over the mean of all.

Source: Odstrčil, Baksh, Boden, Card, Chad, Frey & Brocklesby, Opt. Express 24 (2016) 8360.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.parameters import cosines, floored, probe_curvature, weight_curvature
from ptycho.reconstruction.scan_likelihood import ScanLikelihood


def add_variation(
    likelihood: ScanLikelihood, estimate: Estimate, count: int = 1, bulk: int = 10, slow: int = 4
) -> tuple[Estimate, float]:
    """Return an estimate with ``count`` more OPR modes, and the score test of the first of them.

    ``bulk``: number of the singular value, by size, that noise alone gives. ``slow``: number of cosines over
    the scan that describe a drift.
    """
    brightness = floored(probe_curvature(estimate) / len(estimate.positions))
    step = likelihood.probe_gradients(estimate) * np.float32(-(likelihood.photon**2) / 4) / brightness
    first = estimate.modes[0]
    step -= (np.tensordot(step, first.conj(), 2) / np.vdot(first, first).real)[:, None, None] * first
    root = np.sqrt(brightness) * np.abs(first) / np.abs(first).max()
    rows = ((step - step.mean(axis=0)) * root).reshape(len(step), -1)
    powers, vectors = _leading(rows, max(bulk, count))
    strength = float(powers[0] / max(powers[:bulk][-1], 1e-30))
    waves = cosines(len(rows), slow)
    (drift, *_), turns = _leading(waves.T @ rows, 1)
    drift = float(drift * len(rows) / max(np.vdot(rows, rows).real, 1e-30))
    if count == 1 and drift > strength:
        vectors, strength = waves @ turns, drift
    left = vectors[:, :count] * np.float32(np.sqrt(len(rows)))
    new = (left.conj().T @ rows / len(rows)).reshape(-1, *first.shape) / np.sqrt(brightness)
    varied = replace(
        estimate,
        opr_modes=np.concatenate([estimate.opr_modes, new]).astype(np.complex64),
        opr_weights=np.concatenate([estimate.opr_weights, left], axis=1).astype(np.complex64),
    )
    return varied, strength


def weigh_variation(likelihood: ScanLikelihood, estimate: Estimate) -> Estimate:
    """Return an estimate with the OPR weights of a Gauss-Newton step from zero, all else being known."""
    start = estimate.varied_by(estimate.opr_modes)
    slope = likelihood.evaluate(start, ("opr_weights",)).gradients["opr_weights"]
    weights = -(likelihood.photon**2) / 4 * slope / np.maximum(weight_curvature(start), 1e-30)
    return estimate.varied_by(estimate.opr_modes, weights.astype(np.complex64))


def _leading(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest squared singular values ``(k,)`` of ``rows (J, n)``, and left vectors ``(J, k)``."""
    tall = len(rows) > rows.shape[1]
    gram = rows.conj().T @ rows if tall else rows @ rows.conj().T
    last = len(gram) - 1
    values, vectors = eigh(gram, subset_by_index=(max(last - count + 1, 0), last))
    values, vectors = np.maximum(values[::-1], 1e-30), vectors[:, ::-1]
    return values, rows @ vectors / np.sqrt(values) if tall else vectors


def centre_variation(estimate: Estimate) -> Estimate:
    """Return the same probes, weights of mean zero and power one, OPR modes orthogonal, the strongest first.

    Their phases are such that ``Σ_j w_jk²`` is positive: weights of a drift along a line are real.

    If the first mode is the only one, what OPR modes have along it goes to the flux.
    """
    weights, varied = estimate.opr_weights.astype(complex), estimate.opr_modes.astype(complex)
    first = estimate.modes[0] + np.tensordot(weights.mean(axis=0), varied, 1)
    weights, flux = weights - weights.mean(axis=0), estimate.flux
    if len(estimate.modes) == 1:
        along = np.tensordot(varied, first.conj(), 2) / np.vdot(first, first).real
        factor = 1 + weights @ along
        varied = varied - along[:, None, None] * first
        weights, flux = weights / factor[:, None], flux * np.abs(factor).astype(np.float32)
    columns, corner = np.linalg.qr(varied.reshape(len(varied), -1).T)
    left, values, right = np.linalg.svd(weights @ corner.T, full_matrices=False)
    root = np.sqrt(len(weights))
    turn = np.exp(0.5j * np.angle(np.sum(left**2, axis=0)))  # so that weights are real, where they can be
    modes = (turn[:, None] * (values[:, None] / root * right @ columns.T)).reshape(varied.shape)
    return replace(
        estimate,
        modes=np.concatenate([first[None], estimate.modes[1:]]).astype(np.complex64),
        flux=flux,
        opr_modes=modes.astype(np.complex64),
        opr_weights=(root * left / turn).astype(np.complex64),
    )
