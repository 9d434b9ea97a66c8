"""A reconstruction: the objects of a scan and the beam that explains the patterns with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptycho.config.waves import FreeSpace
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import intensity_of


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


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Result of every method, which is stored, assessed and drawn.

    Attributes:
        objects: ``(I, M, M)`` complex64, zero where not covered.
        mask: ``(I, M, M)`` bool, what the scan covers.
        beam: that goes with the objects, of all patterns; None: the initial one.
        disagreement: ``(I,)``, how much regions differ where they overlap, over all regions and pixels
            ``√(Σ w_g |c_g·O_g − O|² / Σ w_g |O − Ō|²)``; None where the objects are not made of regions.
        errors: how far the objects would be others if the scan were measured again; None: unknown.
        decisions: what was decided on the way, warnings among them.
        seconds: that it took.
        program: name and version, where a program of others made it.
        general: made by a network for many scans.
        course: the objective, −log p, at the start and after every step of the fit, if it is one.
        converged: more steps would gain nothing.
        fit: what the method can go on from, if it can.
        slices: of the first object, ``(L, M, M)`` complex64, whose product it is; None: it is thin.
        uncut: the first object, ``(M, M)`` complex64, with what lies outside the mask, where the probe is
            faint: it predicts the patterns; None: nothing is known there, or there are slices.
        between: free space from one slice to the next.
        before: the same before the patterns that were held out were fitted, too; it is assessed by them.
    """

    objects: np.ndarray
    mask: np.ndarray
    beam: Beam | None = None
    disagreement: np.ndarray | None = None
    errors: ErrorMap | None = None
    decisions: tuple[Finding, ...] = ()
    seconds: float = 0.0
    program: str | None = None
    general: bool = False
    course: tuple[float, ...] = ()
    converged: bool = True
    fit: object | None = None
    slices: np.ndarray | None = None
    uncut: np.ndarray | None = None
    between: FreeSpace | None = None
    before: Reconstruction | None = None

    def __repr__(self) -> str:
        size, share = " × ".join(map(str, self.objects.shape)), 100 * self.mask.mean()
        return f"Reconstruction(objects {size}, {share:.0f} % covered, beam {self.beam})"

    @property
    def object(self) -> np.ndarray:
        """``(M, M)`` complex64, the first of the objects; a measured scan has no other."""
        return self.objects[0]

    @property
    def layers(self) -> np.ndarray:
        """Return what predicts patterns: the slices ``(L, M, M)``, or the object ``(M, M)``."""
        return next(image for image in (self.slices, self.uncut, self.object) if image is not None)

    @property
    def covered(self) -> np.ndarray:
        """``(M, M)`` bool, the mask of :attr:`object`."""
        return self.mask[0]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what files hold: object, amp, phase, mask ``(I, M, M)``; slices, errors and beam if any."""
        objects = {"object": self.objects, "amp": np.abs(self.objects), "phase": np.angle(self.objects)}
        beam = {} if self.beam is None else self.beam.arrays()
        errors = {} if self.errors is None else self.errors.arrays()
        slices = {} if self.slices is None else {"slices": self.slices}
        return objects | {"mask": self.mask} | slices | errors | beam


def covered(data: Dataset, share: float = 1e-3, island: float = 0.02) -> np.ndarray:
    """Return where objects are covered, ``(I, M, M)`` bool: illumination above ``share`` of its maximum.

    ``island``: a region of fewer pixels than this share of a probe's is left out: a noisy pixel of a probe
    makes one in every pattern.
    """
    from skimage.morphology import remove_small_objects

    masks, probe = illuminated_area(illumination(data), share), intensity_of(data.probe)
    least = int(island * np.count_nonzero(probe > share * probe.max()))
    return np.stack([remove_small_objects(mask, max_size=least) for mask in masks])


def illuminated_area(dose: np.ndarray, share: float = 1e-3) -> np.ndarray:
    """Return where a summed illumination ``(I, M, M)`` is above ``share`` of its maximum."""
    return dose > share * dose.max()


def values_per_parameter(data: Dataset, others: int = 0) -> float:
    """Return how many values were measured for each real parameter: of the object, and so many ``others``."""
    good = data.N**2 if data.good is None else int(data.good.sum())
    return len(data.positions) * good / (2 * int(covered(data).sum()) + others)


def covered_part(image: np.ndarray, data: Dataset) -> Reconstruction:
    """Return an object ``(M, M)`` of a dataset of one, zero where it is not covered."""
    mask, image = covered(data), image.astype(np.complex64, copy=False)
    return Reconstruction(np.where(mask, image, 0), mask, data.beam, uncut=image)


def illumination(data: Dataset) -> np.ndarray:
    """Return ``Σ_k Σ_m |P_m|²`` at the nearest whole positions, ``(I, M, M)`` float32."""
    dose = np.zeros((data.n_images, data.object_size, data.object_size), np.float32)
    intensity = intensity_of(data.probe).astype(np.float32)
    for image, (row, col) in zip(data.image, np.round(data.positions).astype(int), strict=True):
        dose[image, row : row + data.N, col : col + data.N] += intensity
    return dose


def photon_noise(data: Dataset) -> np.ndarray:
    """Return the standard deviation that photon noise leaves in real and imaginary part of each object pixel.

        σ = 1 / (s √(2 Σ_k Σ_m |P_m|²))

    √n of n photons has the standard deviation ½. Its derivative to the wave is s times the part along the
    wave's phase, half of the power of any change; so the information on each part of O is
    ``4 s² · ½ · Σ|P|²``, by Parseval's theorem: a bound for unbiased estimates whose pixels are independent.

    Returns:
        ``(I, M, M)`` float32, infinite where nothing is illuminated.
    """
    with np.errstate(divide="ignore"):
        return (1 / (data.photon_scale * np.sqrt(2 * illumination(data)))).astype(np.float32)
