"""The phase ramp of an object, which belongs to the probe.

    O(r) P(x) = [ O(r) exp(−iq·r) ] · [ P(x) exp(iq·x) ] · exp(iq·r_j),      r = r_j + x

Patterns do not depend on the last factor, so object and probe share a ramp in any way: a zero frequency that
is off by a part of a pixel, a tilted beam and a wedge of the sample cannot be distinguished. As is usual, the
object is returned without it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.ndimage import center_of_mass

from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import far_field, intensity_of
from ptycho.scan.reconstruction import Reconstruction
from ptycho.scan.windows import bands, inner_product


def phase_slope(image: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the slope (row, col), rad/px, of the plane fitted to ``angle(o conj(t))``, weights ``|t|²``.

    What the product turns by over ever longer ways (:func:`_mean_step`) comes off before the fit, which then
    sees angles inside (−π, π).

    Args:
        image, reference: o and t, complex ``(H, W)``; where either is zero it does not count.
    """
    product = image * reference.conj()
    slope = np.array([_mean_step(product), _mean_step(product.T)])
    for _ in range(2):
        slope = slope + _plane(product, reference, slope)
    return slope


def _mean_step(image: np.ndarray, longest: float = 1 / 8, coherent: float = 0.2) -> float:
    """Return the phase step per row, rad, of ``image (H, W)``: ``angle(Σ conj(a_r) a_{r+L}) / L``.

    L = 1, 2, 4, … up to a share ``longest`` of the image; each unwraps the next. Noise, and waves on one side
    of the spectrum, turn neighbours but not pixels farther apart. It ends where the coherent share of the
    power is below ``coherent``. Source: as Fitz, IEEE Trans. Commun. 42 (1994) 3096, with ways that double.
    """
    power, slope, way = inner_product(image, image).real, 0.0, 1
    while way <= max(1, int(longest * len(image))):
        product = inner_product(image[:-way], image[way:])
        if way > 1 and abs(product) < coherent * power:
            break
        slope += float(np.angle(product * np.exp(-1j * slope * way))) / way
        way *= 2
    return slope


def _plane(product: np.ndarray, reference: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """What the angle of ``product (H, W)``, whose ramp is nearly ``slope``, has of a slope beside it."""
    turns = tilt(-slope, product.shape)
    mean = sum((product[rows] * turns[0][rows] * turns[1]).sum() for rows in bands(product.shape))
    places = [np.arange(side) - (side - 1) / 2 for side in product.shape]
    normal, moments = np.zeros((3, 3)), np.zeros(3)
    for rows in bands(product.shape):
        part = product[rows]
        angle = np.angle(part * turns[0][rows] * turns[1] * np.conj(mean))
        weight = np.where(part == 0, 0, np.abs(reference[rows]) ** 2)
        basis = np.stack([*np.meshgrid(places[0][rows], places[1], indexing="ij"), np.ones_like(angle)])
        normal += np.einsum("iyx,jyx,yx->ij", basis, basis, weight)
        moments += np.einsum("iyx,yx->i", basis, weight * angle)
    return np.linalg.lstsq(normal, moments, rcond=None)[0][:2]


def tilt(slope: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return ``exp(i slope·r)`` as factors of rows ``(H, 1)`` and columns ``(1, W)``; ``slope (2,)``."""
    rows, cols = (np.arange(side) - (side - 1) / 2 for side in shape)
    return np.exp(1j * slope[0] * rows)[:, None], np.exp(1j * slope[1] * cols)[None, :]


def tilted(image: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return ``image (H, W) · exp(i slope·r)``, in the precision of the image."""
    rows, cols = (turn.astype(image.dtype) for turn in tilt(slope, image.shape))
    product = image * rows
    product *= cols
    return product


def levelled(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return ``image (H, W)`` without the slope and the mean of its phase over a mask."""
    inside = np.where(mask & np.isfinite(image), image, 0)
    image = tilted(image, -phase_slope(inside, np.abs(inside)))
    image *= np.exp(-1j * np.angle(np.sum(image, where=inside != 0, dtype=complex))).astype(image.dtype)
    return image


def flat_object(data: Dataset, probe: np.ndarray | None = None) -> np.ndarray:
    """Return an object of amplitude one whose phase ramp shifts the probe's far field onto the patterns.

        O(r) = exp(iq·r),   q = 2π/N · (centre of mass of the patterns − that of the probe's far field)

    The centre of mass of a far field moves by the mean phase gradient of the object, weighted by the exit
    wave (Ehrenfest's theorem). A fit from a constant spends most of its steps on such a ramp. Of few patterns
    it is the slope of a small part of the object, so trials on some patterns begin constant.

    Args:
        data: of a near field the object is constant.
        probe: modes ``(K, N, N)`` in place of the dataset's.

    Returns:
        ``(M, M)`` complex64.
    """
    if data.fresnel is not None:
        return phase_ramp(data.object_size, np.zeros(2))
    good, statistics = data.good, data.amplitudes.statistics
    measured = statistics.mean_intensity - statistics.darkest(good)  # without a background
    expected = intensity_of(far_field(data.probe if probe is None else probe))
    images = [np.where(True if good is None else good, image, 0) for image in (measured, expected)]
    if min(image.sum() for image in images) <= 0:
        return phase_ramp(data.object_size, np.zeros(2))
    here, there = (np.array(center_of_mass(image)) for image in images)
    return phase_ramp(data.object_size, 2 * np.pi / data.N * (here - there))


def phase_ramp(side: int, slope: np.ndarray) -> np.ndarray:
    """Return ``exp(i slope·r)``, ``(side, side)`` complex64; ``slope (2,)`` in rad/px."""
    return tilted(np.ones((side, side), np.complex64), slope)


def move_ramp(reconstruction: Reconstruction, least_px: float = 0.02) -> Reconstruction:
    """Return the same with the ramp of its one object in its probe.

    A finding reports a ramp of more than ``least_px`` detector pixels.

    Of slices it is taken from the first, which the probe meets: so patterns stay as they are.
    """
    assert reconstruction.beam is not None
    image = np.where(reconstruction.covered, reconstruction.object, 0)
    if not image.any():
        return reconstruction
    slope = phase_slope(image, np.abs(image))
    flat = tilted(reconstruction.object, -slope)
    turns = tilt(slope, reconstruction.beam.probe.shape[-2:])
    beam = reconstruction.beam.with_probe(reconstruction.beam.probe * turns[0] * turns[1])
    if beam.opr_modes is not None:
        beam = replace(beam, opr_modes=(beam.opr_modes * turns[0] * turns[1]).astype(np.complex64))
    pixels = slope * reconstruction.beam.N / (2 * np.pi)
    finding = Finding(
        "phase ramp",
        f"{pixels[0]:.2f}, {pixels[1]:.2f} detector pixels",
        "taken from the object to the probe: beam or zero frequency are off by so much; a wedge of the "
        "sample would look the same",
    )
    findings = (finding,) if np.abs(pixels).max() > least_px else ()
    uncut = reconstruction.uncut
    return replace(
        reconstruction,
        objects=flat[None].astype(np.complex64),
        uncut=None if uncut is None else tilted(uncut, -slope),
        beam=beam,
        slices=None
        if reconstruction.slices is None
        else np.stack([tilted(reconstruction.slices[0], -slope), *reconstruction.slices[1:]]),
        decisions=(*reconstruction.decisions, *findings),
    )
