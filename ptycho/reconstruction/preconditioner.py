"""Preconditioner of a fit: the inverse of an approximate curvature of its objective.

In the units of :mod:`~ptycho.reconstruction.parameters` the diagonal of the Hessian of −log p is one. Two
parts of the Hessian are far from diagonal, and a diagonal alone would need hundreds of steps for them:

**A regulariser** is stiff at high spatial frequencies, and much less where the object has edges. With H the
diagonal of the likelihood's Hessian in each pixel and R that of the regulariser at the present object
(:meth:`~.prior.Prior.curvature`), the step solves

    (H + R) z = g        by a few steps of conjugate gradients,

which are themselves scaled in Fourier space, by ``1/(max H + c s(k)^p)``: c is the mean weight of the
regulariser, p the order of its differences, and s(k) = 4 sin²(π k_row) + 4 sin²(π k_column). A mean weight
instead of R would be wrong by δ over the height of an edge, a factor of up to 50.
Source: Vogel & Oman, SIAM J. Sci. Comput. 17 (1996) 227: R is the operator of lagged diffusivity.

**Low spatial frequencies**: a phase that is constant over the probe changes no pattern, and one that varies
little over it shifts the far field by little. Along a phase of k cycles per pixel the curvature is about
H k²/k_c² below k_c, the reciprocal of the probe's diameter. To the step of a pixel is added

    i e O/|O|,   e = m F⁻¹[ 1/((k² + k₀²)/k_c² + stiffness(k)/H) · F (m Im(g conj(O)/|O|)) ],

m one where the object is illuminated, k₀ the reciprocal of its side. This helps once the phases are roughly
known and if patterns overlap well: sparse scans are ambiguous, and long steps end in a worse minimum.

**Depth**: a phase of low spatial frequency that one slice of a thick object adds and another subtracts
changes patterns only as it shifts the beam between them, by F k pixels a radian. A cosine transform along the
beam separates such phases; for all components but the mean, k_c is 1/(4π F q_P), q_P the root mean square of
the probe's spatial frequencies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import fft

from ptycho.config.waves import FreeSpace
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.parameters import Parameters, illuminated, illuminated_pixels, object_illumination
from ptycho.reconstruction.prior import Anchor, Prior
from ptycho.reconstruction.quasi_newton import Operator, plain
from ptycho.scan.probe import energy_diameter


class Preconditioner:
    """The operator of one fit beside ``prior`` and ``anchor``; it follows the object by :meth:`renew`.

    ``between``: from one slice to the next, of an estimate of several.
    """

    def __init__(
        self,
        prior: Prior,
        anchor: Anchor | None,
        refine: Refine,
        start: Estimate,
        between: FreeSpace | None = None,
    ) -> None:
        self._prior, self._anchor, self._between = prior, anchor, between
        self._wanted, self._dense = refine.object, refine.object and overlaps_well(start)
        self._near = bool(np.ptp(start.object.real) > 0)
        self._operator: Operator = plain

    def __call__(self, q: np.ndarray) -> np.ndarray:
        return self._operator(q)

    def renew(self, parameters: Parameters, estimate: Estimate, steps: int, far: int = 20) -> None:
        """Take the curvature at an estimate, so many steps from the start of the fit.

        ``far``: steps from a constant, after which phases are known well enough to scale steps by them.
        """
        if not self._wanted:
            return
        scale, anchor = parameters.scales["object"], self._anchor
        stiffness = self._prior.stiffness(estimate.object, fast_shape(estimate.object))
        parts = []
        if stiffness is not None:
            curvature = self._prior.curvature(estimate.object)
            parts.append(regularised(scale, stiffness, curvature))
        if self._dense and (self._near or steps >= far):
            held = 0.0  # what an anchor adds to the curvature along low frequencies, over the patterns'
            if anchor is not None:
                patterns = np.square(scale) - anchor.weight
                held = float(np.median(anchor.weight / np.maximum(patterns, 1e-30)))
            parts.append(low_frequencies(estimate, scale, held, stiffness, self._between))
        self._operator = _of_object(estimate.object.shape, parts, keep=stiffness is None) if parts else plain


Part = Callable[[np.ndarray], np.ndarray]


def fast_shape(image: np.ndarray) -> tuple[int, int]:
    """Return the shape to which images are padded for the FFT, which is slow for large prime factors."""
    rows, columns = map(fft.next_fast_len, image.shape[-2:])
    return rows, columns


def _of_object(shape: tuple[int, ...], parts: list[Part], keep: bool) -> Operator:
    """The sum of some operators on the object, which a vector begins with; ``keep``: and of the identity."""
    count = 2 * int(np.prod(shape))

    def operator(q: np.ndarray) -> np.ndarray:
        wave = np.ascontiguousarray(q[:count]).view(np.complex64).reshape(shape)
        total = sum((part(wave) for part in parts), wave if keep else np.complex64(0))
        scaled = q.copy()
        scaled[:count] = np.asarray(total, np.complex64).view(np.float32).ravel()
        return scaled

    return operator


def overlaps_well(estimate: Estimate, fewest: float = 5.0) -> bool:
    """Return whether enough patterns illuminate a pixel, on average, for steps along low frequencies."""
    area = np.pi * (energy_diameter(estimate.modes) / 2) ** 2
    return len(estimate.positions) * area >= fewest * illuminated_pixels(estimate)


def regularised(scale: np.ndarray, stiffness: np.ndarray, curvature: Part, steps: int = 5) -> Part:
    """Return the operator of a regulariser, of waves ``(M, M)`` complex64 in the units of ``scale``.

    Args:
        scale: √H, ``(M, M)`` float32.
        stiffness: c s(k)^p, of the FFT's shape, which may be larger.
        curvature: R, of waves ``(M, M)``.
        steps: of conjugate gradients (Nocedal & Wright, Numerical Optimization, algorithm 5.3).
    """
    size, padded = scale.shape[-2:], stiffness.shape[-2:]
    gain = (1 / (np.square(scale, dtype=np.float64).max() + stiffness)).astype(np.float32)
    inverse = 1 / scale  # which multiplies complex numbers faster than a number divides them

    def roughly(wave: np.ndarray) -> np.ndarray:
        spectrum = gain * fft.fft2(scale * wave, padded)
        return scale * fft.ifft2(spectrum)[..., : size[0], : size[1]]

    def apply(wave: np.ndarray) -> np.ndarray:
        solution, residual, direction = np.zeros_like(wave), wave, np.zeros_like(wave)
        before = 1.0
        for _ in range(steps):
            scaled = roughly(residual)
            product = float(np.vdot(residual, scaled).real)
            if not product > 0:  # nothing is left
                break
            direction = scaled + np.float32(product / before) * direction
            image = direction + curvature(direction * inverse) * inverse
            length = np.float32(product / np.vdot(direction, image).real)
            solution, residual = solution + length * direction, residual - length * image
            before = product
        return solution

    return apply


def low_frequencies(
    estimate: Estimate,
    scale: np.ndarray,
    held: float,
    stiffness: np.ndarray | None,
    between: FreeSpace | None = None,
    cutoff: float = 0.5,
) -> Part:
    """Return the operator of low frequencies of waves ``(M, M)`` complex64, or slices, in units of ``scale``.

    Args:
        estimate: O and the modes that illuminate it.
        scale: √H, ``(M, M)`` float32.
        held: curvature that is the same at all frequencies, over H.
        stiffness: c s(k)^p, of :func:`fast_shape`; None: no regulariser.
        between: from one slice to the next.
        cutoff: k_c over the reciprocal of the probe's diameter.
    """
    shape, padded, size = estimate.object.shape[-2:], fast_shape(estimate.object), np.abs(estimate.object)
    unit = np.divide(estimate.object, size, out=np.ones_like(estimate.object), where=size > 0)
    illumination = object_illumination(estimate)
    region = illuminated(illumination)
    rows, columns = np.fft.fftfreq(padded[0])[:, None], np.fft.rfftfreq(padded[1])
    squares = rows**2 + columns**2 + max(shape) ** -2.0
    lengths = [energy_diameter(estimate.modes) / cutoff]
    if estimate.slices > 1:
        assert between is not None
        power, q = np.abs(np.fft.fft2(estimate.modes)) ** 2, np.fft.fftfreq(estimate.modes.shape[-1])
        rms = float(np.sqrt(np.sum(power * np.add.outer(q**2, q**2)) / power.sum()))  # q_P
        lengths += [2 * np.pi * between.fresnel * rms / cutoff] * (estimate.slices - 1)
        squares = squares * np.square(lengths)[:, None, None]
    else:
        squares = squares * lengths[0] ** 2
    if stiffness is not None:
        squares = squares + stiffness[..., : len(columns)] / np.median(np.square(scale)[..., region])
    gain, inside = (1 / (squares + held)).astype(np.float32), region.astype(np.float32)

    def smoothed(image: np.ndarray) -> np.ndarray:
        return fft.irfft2(gain * fft.rfft2(image, padded), padded)[..., : shape[0], : shape[1]]

    def apply(wave: np.ndarray) -> np.ndarray:
        sideways = inside * (wave * unit.conj()).imag
        if estimate.slices == 1:
            return 1j * unit * (inside * smoothed(sideways))
        along = smoothed(fft.dct(sideways, axis=0, norm="ortho"))
        return 1j * unit * (inside * fft.idct(along, axis=0, norm="ortho"))

    return apply
