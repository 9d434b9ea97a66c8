"""The phase ramp of an object, which belongs to the probe.

    O(r) P(x) = [ O(r) exp(−iq·r) ] · [ P(x) exp(iq·x) ] · exp(iq·r_j),      r = r_j + x

Patterns do not see the last factor, so object and probe share a ramp as they like: a zero frequency that is
off by a part of a pixel, a tilted beam and a wedge of the sample are one thing to them. As is usual, the
object is given without it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import Reconstruction

TOLD = 0.02  # detector pixels; below, nobody would see it


def phase_slope(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Slope (row, col), rad/px, of the plane fitted to ``angle(image)``, where ``image (H, W)`` is not zero.

    The mean phase step between neighbours and the mean phase come off before the fit: this changes nothing
    for angles that stay inside (−π, π), and unwraps a steeper plane.
    """
    steps = np.vdot(image[:-1], image[1:]), np.vdot(image[:, :-1], image[:, 1:])
    coarse = np.angle(np.array(steps))
    residual = image * np.exp(-1j * ramp(coarse, image.shape))
    angle = np.angle(residual * np.conj(residual.sum()))
    weight = np.where(image == 0, 0, weight)
    rows, cols = (ramp(unit, image.shape) for unit in np.eye(2))
    basis = np.stack([rows, cols, np.ones_like(rows)])  # (3, H, W)
    normal = np.einsum("iyx,jyx,yx->ij", basis, basis, weight)
    plane = np.linalg.lstsq(normal, np.einsum("iyx,yx->i", basis, weight * angle), rcond=None)[0]
    return coarse + plane[:2]


def ramp(slope: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """``slope·r`` in rad, ``(H, W)``, zero in the middle; ``slope (2,)`` in rad/px."""
    rows, cols = (np.arange(side) - (side - 1) / 2 for side in shape)
    return slope[0] * rows[:, None] + slope[1] * cols[None, :]


def move_ramp(made: Reconstruction) -> Reconstruction:
    """The same with the ramp of its one object in its probe; what is large enough to be seen is told."""
    assert made.beam is not None
    image = np.where(made.covered, made.object, 0).astype(complex)
    if not image.any():
        return made
    slope = phase_slope(image, np.abs(image) ** 2)
    flat = made.object * np.exp(-1j * ramp(slope, image.shape))
    probe = made.beam.probe * np.exp(1j * ramp(slope, made.beam.probe.shape[-2:]))
    pixels = slope * made.beam.N / (2 * np.pi)
    told = (_finding(pixels),) if np.abs(pixels).max() > TOLD else ()
    return replace(
        made,
        objects=flat[None].astype(np.complex64),
        beam=made.beam.with_probe(probe),
        findings=(*made.findings, *told),
    )


def _finding(pixels: np.ndarray) -> Finding:
    return Finding(
        "phase ramp",
        f"{pixels[0]:.2f}, {pixels[1]:.2f} detector pixels",
        "taken from the object to the probe: beam or zero frequency are off by so much; a wedge of the "
        "sample would look the same",
    )
