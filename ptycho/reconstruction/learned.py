"""Plug-and-play regularisation: a denoiser estimates the object, and a penalty keeps the fit near it.

    Z = D(O, −σ² ∂(−log p)/∂O, σ),      1/σ² = 2 Σ_j Σ_m |c_j P_m|² / f²
    minimise  −log p + R(O) + ½ Σ w |O − Z|²,  w = κ/σ²

in turns (half-quadratic splitting), with a classical regulariser R. σ is the photon noise of a pixel, so that
κ is the weight of the prior relative to that of the patterns, the same everywhere. Under stronger
illumination the prior has less influence, because the network changes an object with less noise by less.
Sources: Zoran & Weiss, ICCV 2011; Venkatakrishnan et al., GlobalSIP 2013; a network whose input has the
gradient of the data term: Aggarwal et al., IEEE Trans. Med. Imaging 38 (2019) 394.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import tensorflow as tf

from ptycho.networks.denoiser import REACH, WEIGHTS, Denoiser, load_denoiser
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.prior import Anchor
from ptycho.reconstruction.scan_likelihood import ScanLikelihood

STRENGTHS = (0.5, 2.0, 8.0)  # κ that are tried if none is specified
Network = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class ViewOptions:
    """Which part of an object a network is shown; shares are of the strongest illumination."""

    least: float = 0.02  # above which pixels are changed
    bright: float = 0.1  # above which they determine the noise
    span: float = 3.0  # of the logarithm of a pixel's noise over the mean


VIEW = ViewOptions()


@dataclass(frozen=True, eq=False)
class Learned:
    """A prior that a network has learned, of strength κ."""

    network: Network
    strength: float


@dataclass(frozen=True, eq=False)
class View:
    """Input of a network, from an estimate: see :func:`view`."""

    inputs: np.ndarray  # x ``(H, W, 4)`` float32, object and request in units of ``noise``, real parts first
    relative: np.ndarray  # ν ``(H, W, 1)`` float32, the logarithm of each pixel's noise over ``noise``
    noise: float  # σ₀, the root mean square of σ where the object is illuminated
    deviation: np.ndarray  # σ, ``(M, M)`` float32
    illumination: np.ndarray  # over the strongest, ``(M, M)`` float32
    # illuminated rows and columns of the object, whose size is (H, W) or, at most three pixels, less
    box: tuple[slice, slice]


def view(likelihood: ScanLikelihood, estimate: Estimate, options: ViewOptions = VIEW) -> View:
    """Return the illuminated part of an object, and ``−σ²`` times the gradient of −log p there."""
    curvature = (2 / likelihood.photon**2) * object_illumination(estimate)
    illumination = curvature / curvature.max()
    deviation = 1 / np.sqrt(curvature.max() * np.maximum(illumination, options.least**2))
    gradient = likelihood.evaluate(estimate, ("object",)).gradients["object"]
    illuminated = illumination > options.least
    rows, columns = (np.flatnonzero(illuminated.any(axis=axis)) for axis in (1, 0))
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    noise = float(np.sqrt(np.mean(deviation[illumination > options.bright] ** 2)))
    object_, request = (
        _filled(np.where(illuminated, wave, 0)[box]) / noise
        for wave in (estimate.object, -(deviation**2) * gradient)
    )
    inputs = np.stack([object_.real, request.real, object_.imag, request.imag], axis=-1)
    relative = np.clip(np.log(_filled(deviation[box], "edge") / noise), -options.span, options.span)
    shown = inputs.astype(np.float32), relative[..., None].astype(np.float32)
    return View(*shown, noise, deviation, illumination, box)


def denoiser_term(
    learned: Learned, likelihood: ScanLikelihood, estimate: Estimate, options: ViewOptions = VIEW
) -> Anchor:
    """Return a network's output for the object, as a penalty on the distance to it.

    Where the illumination is weak the object is held as it is, by the weight of a tenth of the strongest.
    """
    shown = view(likelihood, estimate, options)
    change = apply(learned.network, shown.inputs, shown.relative)
    height, width = estimate.object[shown.box].shape
    change = shown.noise * (change[:height, :width, 0] + 1j * change[:height, :width, 1])
    share = np.clip((shown.illumination[shown.box] - options.least) / (options.bright - options.least), 0, 1)
    target = estimate.object.copy()
    target[shown.box] += (share * change).astype(np.complex64)
    brightest = np.min(shown.deviation) ** -2
    weight = learned.strength * np.maximum(shown.illumination, options.bright) * brightest
    return Anchor(target, weight.astype(np.float32))


def apply(
    network: Network, inputs: np.ndarray, relative: np.ndarray, tile: int = 512, reach: int = REACH
) -> np.ndarray:
    """Return a network's output ``(H, W, 2)`` float32, tile by tile; as of the whole but for rounding.

    ``inputs (H, W, 4)``, ``relative (H, W, 1)`` float32; H and W multiples of 4. ``reach``: how far the
    network depends on its input.
    """
    height, width, _ = inputs.shape
    output = np.zeros((height, width, 2), np.float32)
    for top, left in itertools.product(range(0, height, tile), range(0, width, tile)):
        first = max(top - reach, 0), max(left - reach, 0)  # of the input on which the output depends
        around = np.s_[first[0] : top + tile + reach, first[1] : left + tile + reach]
        part = network(*(tf.constant(a[None, *around]) for a in (inputs, relative))).numpy()[0]
        inner = part[top - first[0] :, left - first[1] :][:tile, :tile]
        output[top : top + tile, left : left + tile] = inner
    return output


def _filled(image: np.ndarray, mode: str = "constant") -> np.ndarray:
    """``(H, W)`` with sides that are multiples of 4."""
    return np.pad(image, [(0, -n % 4) for n in image.shape], mode=mode)  # type: ignore[call-overload]


@dataclass(frozen=True)
class StoredNetwork:
    """A network of stored weights, read when used: ``(x (1, H, W, 4), ν (1, H, W, 1)) → (1, H, W, 2)``."""

    file: Path = WEIGHTS

    def __call__(self, x: tf.Tensor, nu: tf.Tensor) -> tf.Tensor:
        return _read(self.file)(x, nu)


@lru_cache(2)
def _read(file: Path) -> Network:
    return compiled(load_denoiser(file))


def compiled(network: Denoiser) -> Network:
    return tf.function(lambda x, nu: network([x, nu]), reduce_retracing=True, autograph=False)
