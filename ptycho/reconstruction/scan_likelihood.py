"""The likelihood of all patterns of a scan: chunk by chunk, with its gradients."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config.memory import CHUNK_PIXELS, KEPT_BYTES, cores
from ptycho.progress import Advance, silent
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.likelihood import UNMEASURED, batch_size, likelihood_step, probes_step
from ptycho.reconstruction.object_windows import has_gpu, windows_of
from ptycho.scan.dataset import Dataset
from ptycho.scan.windows import far_field_ramps


class Cache(Protocol):
    """Arrays by name; what takes less than ``least_seconds`` is computed again rather than kept."""

    @property
    def least_seconds(self) -> float: ...

    def get(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays ``(…)`` kept under a name; None: there are none."""

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep ``arrays (…)`` under a name."""


Case = TypeVar("Case")
Result = TypeVar("Result")
ARGUMENTS = {
    "object": "windows",
    "positions": "fractions",
    "flux": "flux",
    "modes": "modes",
    "background": "background",
    "opr_modes": "opr_modes",
    "opr_weights": "opr_weights",
    "point_spread": "point_spread",
}
"""Part of an estimate to the argument of the compiled step that it enters by, in their order."""


class Amplitudes(Protocol):
    """Source of patterns ``(J, N, N)``, some at a time."""

    def __getitem__(self, part: slice, /) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The deviance of each pattern ``(J,)``, and the gradients of half their sum by the estimate's parts."""

    deviance: np.ndarray
    gradients: dict[str, np.ndarray]

    @property
    def value(self) -> float:
        """Half the summed deviance: −log p, up to a constant."""
        return float(self.deviance.sum()) / 2


@dataclass(frozen=True, eq=False)
class MovedProbes:
    """The probe of each pattern, moved by its fraction of a pixel, of estimates with one beam."""

    beam: Estimate  # whose modes and positions these are
    chunks: list[tf.Tensor]  # ``(chunk, K, N, N)`` complex64 each

    def belong_to(self, estimate: Estimate) -> bool:
        """Return whether an estimate has this beam: the same arrays."""
        parts = ("modes", "positions") + ("opr_modes", "opr_weights") * estimate.varies
        return all(getattr(estimate, part) is getattr(self.beam, part) for part in parts)


@dataclass(eq=False)
class ScanLikelihood:
    """Likelihood of the patterns of one object under an estimate."""

    data: Dataset  # the patterns
    normalisation: float  # f, in whose units estimates are
    unit: float = 1.0  # amplitude of one (effective) photon; see :mod:`~ptycho.reconstruction.likelihood`
    noise: str = "poisson"  # of a pixel
    compile_xla: bool = True  # compile with XLA
    # amplitudes ``(J, N, N)`` float32 in place of the dataset's, UNMEASURED where those are negative
    instead: Amplitudes | None = None
    advance: Advance = silent  # called with the number of patterns after each chunk
    cache: Cache | None = None  # where fits under this likelihood are kept
    chunk_pixels: int = CHUNK_PIXELS  # of the patterns that are handled at once
    # of patterns that are kept in memory, and of probes; more are read or computed again each time
    kept_bytes: int = KEPT_BYTES
    moved_probes: MovedProbes | None = field(default=None, init=False)  # see :meth:`under_beam_of`

    @cached_property
    def chunk(self) -> int:
        """Number of patterns handled at once: one size, so that few functions are compiled."""
        pixels = self.chunk_pixels * (16 if has_gpu() else 1)  # a GPU needs more work at once
        return max(1, pixels // self.data.N**2)

    @property
    def photon(self) -> float:
        """Normalised amplitude of one (effective) photon."""
        return self.normalisation * self.unit

    @cached_property
    def pixels(self) -> np.ndarray:
        """Number of pixels of each pattern that were measured, ``(J,)``, one at least."""
        good = self.data.N**2 if self.data.good is None else np.count_nonzero(self.data.good)
        return np.maximum(good - self.data.amplitudes.statistics.lacking, 1)

    def evaluate(
        self, estimate: Estimate, parts: tuple[str, ...] = (), corners: np.ndarray | None = None
    ) -> Evaluation:
        """Evaluate an estimate; gradients are computed of ``parts``, names of its attributes.

        ``corners (J, 2)`` int64: of the windows, near the positions; None: the nearest.
        """
        N, count = self.data.N, len(estimate.positions)
        corners, fractions = self.places(estimate, corners)
        probes = self.moved_probes
        if probes is not None and not (parts == ("object",) and probes.belong_to(estimate)):
            probes = None
        moved = probes is None and ("positions" in parts or bool(fractions.any()))
        wanted = {ARGUMENTS[part] for part in parts}
        computed = computed_with(wanted, estimate.varies, estimate.has_point_spread)
        fresnel, batch = self.data.fresnel, None if has_gpu() else batch_size(self.chunk, estimate.modes.size)
        step = likelihood_step(self.noise, computed, moved, self.compile_xla, fresnel, batch)
        modes = tf.constant(estimate.modes)
        opr_modes = tf.constant(estimate.opr_modes if probes is None else estimate.opr_modes[:0])
        background, sigma = tf.constant(estimate.background), self.point_spread(estimate)
        photon, transfer = tf.constant(self.photon, tf.float32), self.transfer(estimate)
        windows = windows_of(estimate.object, N)
        own = [name for name in parts if name != "object"]
        total = {name: np.zeros_like(getattr(estimate, name), order="C") for name in own}

        def of_chunk(part: slice) -> tuple[np.ndarray, dict[str, np.ndarray], Any]:
            beam = fractions[part], estimate.flux[part], estimate.opr_weights[part, : len(opr_modes)]
            places, *filled = self.filled(corners[part], *beam)
            offsets, flux, weights = map(tf.constant, filled)
            own_modes = modes if probes is None else probes.chunks[part.start // self.chunk]
            known = offsets, flux, own_modes, background, opr_modes, weights, sigma
            batches = 1 if batch is None else -(-(part.stop - part.start) // batch)
            given = self.measured(part), photon, self.ramps(part), transfer, tf.constant(batches)
            values, gradients = step(windows.cut(places), *known, *given)
            images = gradients.get(ARGUMENTS["object"])
            if images is not None:
                images = windows.part(images, corners[part])
            slopes = {name: gradients[ARGUMENTS[name]].numpy() for name in own}
            return values.numpy(), slopes, images

        if self.keeps:
            _ = self._chunks  # read once, not by every thread
        deviance = np.zeros(count)
        chunks = self.slices
        for part, (values, slopes, piece) in zip(chunks, side_by_side(of_chunk, chunks), strict=True):
            size = part.stop - part.start
            deviance[part] = values[:size]
            if piece is not None:
                windows.add(piece)
            for name, gradient in slopes.items():
                if name in ("positions", "flux", "opr_weights"):
                    total[name][part] = gradient[:size]
                else:
                    total[name] += gradient
            self.advance(size)
        if "object" in parts:
            total["object"] = windows.sum
        return Evaluation(deviance, total)

    def under_beam_of(self, estimate: Estimate) -> ScanLikelihood:
        """Return the same likelihood, which keeps the probe of each pattern for fits of the object alone.

        To move the probe by fractions of a pixel takes a third of the time of such an evaluation. Nothing is
        kept where the probes exceed ``kept_bytes``, where all positions are whole pixels, or in a near field,
        because there the wave on the detector depends on the fractions, too.
        """
        fractions, size = self.places(estimate)[1], 8 * len(estimate.positions) * estimate.modes.size
        if self.data.fresnel is not None or size > self.kept_bytes or not fractions.any():
            return self
        modes, opr_modes = tf.constant(estimate.modes), tf.constant(estimate.opr_modes)

        def of_chunk(part: slice) -> tf.Tensor:
            offsets, weights = map(tf.constant, self.filled(fractions[part], estimate.opr_weights[part]))
            return probes_step(self.compile_xla)(modes, opr_modes, weights, offsets)

        if self.keeps:
            _ = self._chunks  # read once, for both
        likelihood = copy.copy(self)
        likelihood.moved_probes = MovedProbes(estimate, list(side_by_side(of_chunk, self.slices)))
        return likelihood

    def probe_gradients(self, estimate: Estimate) -> np.ndarray:
        """Return the gradient of half the deviance by the first mode of each pattern: ``(J, N, N)``.

        Not compiled, because it is called once.
        """
        corners, fractions = self.places(estimate)
        step = likelihood_step(self.noise, ("modes",), bool(fractions.any()), None, self.data.fresnel)
        photon, transfer = tf.constant(self.photon, tf.float32), self.transfer(estimate)
        windows, background = windows_of(estimate.object, self.data.N), tf.constant(estimate.background)
        no_modes = tf.constant(estimate.opr_modes[:0])
        no_weights = tf.zeros((self.chunk, 0), tf.complex64)
        gradients = np.empty((len(corners), *estimate.modes.shape[1:]), np.complex64)
        for part in self.slices:
            given = self.filled(corners[part], fractions[part], estimate.flux[part], estimate.probes(part))
            offsets, flux, probes = map(tf.constant, given[1:])
            known = offsets, flux, probes, background, no_modes, no_weights, self.point_spread(estimate)
            beside = self.measured(part), photon, self.ramps(part), transfer, tf.constant(1)
            _, slopes = step(windows.cut(given[0]), *known, *beside)
            gradients[part] = slopes["modes"][: part.stop - part.start, 0]
        return gradients

    @staticmethod
    def places(estimate: Estimate, corners: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return whole positions ``(J, 2)`` int64, by default the nearest, and what is left, float32."""
        if corners is None:
            corners = np.floor(estimate.positions + 0.5).astype(np.int64)
        return corners, (estimate.positions - corners).astype(np.float32)

    def ramps(self, part: slice) -> tf.Tensor:
        """Return the phase ramps by which a chunk's far fields are shifted to where they were measured:
        ``(chunk, 2, N)`` complex64, or ``(chunk, 0, N)``, if none is.
        """
        N, shifts = self.data.N, self.data.amplitudes.shifts
        if shifts is None:
            return tf.zeros((self.chunk, 0, N), tf.complex64)
        return tf.constant(far_field_ramps(self.filled(shifts[part])[0], N, N))

    def transfer(self, estimate: Estimate) -> tf.Tensor:
        """Return the transfer function ``(N, N)`` between slices, or ``(0, 0)`` of a thin object."""
        return self._between_slices if estimate.slices > 1 else tf.zeros((0, 0), tf.complex64)

    @staticmethod
    def point_spread(estimate: Estimate) -> tf.Tensor:
        """Return σ of the detector's point spread ``(2,)``, or ``(0,)``: there is none."""
        return tf.constant(estimate.point_spread if estimate.has_point_spread else np.zeros(0, np.float32))

    @cached_property
    def _between_slices(self) -> tf.Tensor:
        assert self.data.between is not None
        return physics.transfer_of(self.data.between, self.data.N)

    @property
    def slices(self) -> list[slice]:
        """Slices of the patterns, one for each chunk."""
        count = len(self.data.positions)
        return [slice(k, min(k + self.chunk, count)) for k in range(0, count, self.chunk)]

    def filled(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Fill ``arrays (n, …)`` of the last chunk by zeros: patterns without data, under no illumination."""
        short = self.chunk - len(arrays[0])
        if not short:
            return arrays
        return tuple(np.concatenate([a, np.zeros((short, *a.shape[1:]), a.dtype)]) for a in arrays)

    @property
    def keeps(self) -> bool:
        """Whether the patterns stay in memory once they are read; else they are read each time."""
        return 4 * self.data.N**2 * len(self.data.positions) <= self.kept_bytes

    def in_memory(self) -> ScanLikelihood:
        """Return the same likelihood with the patterns of its data read."""
        return replace(self, data=replace(self.data, amplitudes=self.data.amplitudes.in_memory()))

    def amplitudes(self, part: slice) -> np.ndarray:
        """Return some patterns ``(n, N, N)`` float32 as they are fitted, UNMEASURED in single frames."""
        if self.instead is not None:
            return self.instead[part]
        amplitudes = self.data.amplitudes[part]
        return np.where(amplitudes < 0, np.float32(UNMEASURED), amplitudes)

    def measured(self, part: slice) -> tf.Tensor:
        """Return a chunk of amplitudes ``(chunk, N, N)`` float32 in units of one (effective) photon."""
        return self._chunks[part.start // self.chunk] if self.keeps else self._read(part)

    @cached_property
    def _chunks(self) -> list[tf.Tensor]:
        """All patterns, where TensorFlow computes."""
        return [self._read(part) for part in self.slices]

    def _read(self, part: slice) -> tf.Tensor:
        """Zero frequency at sample 0, UNMEASURED where nothing was and in what fills the last chunk."""
        amplitudes, good = self.amplitudes(part) / np.float32(self.unit), self.data.good
        if good is not None:
            amplitudes = np.where(good, amplitudes, np.float32(UNMEASURED))
        amplitudes = np.fft.ifftshift(amplitudes, axes=(-2, -1)).astype(np.float32)
        short = self.chunk - (part.stop - part.start)
        return tf.constant(np.pad(amplitudes, ((0, short), (0, 0), (0, 0)), constant_values=UNMEASURED))


def computed_with(wanted: set[str], varies: bool = False, point_spread: bool = False) -> tuple[str, ...]:
    """Return which gradients are computed where some are wanted: few sets, for few compiled functions.

    ``varies``: the probe does, so that it has OPR modes. ``point_spread``: the detector has one.
    """
    there = {"opr_modes": varies, "opr_weights": varies, "point_spread": point_spread}
    every = tuple(name for name in ARGUMENTS.values() if there.get(name, True))
    sets: tuple[tuple[str, ...], ...] = ((), ("windows",), ("windows", "modes"), every)
    return next(names for names in sets if wanted <= set(names))


def side_by_side(
    function: Callable[[Case], Result], cases: Sequence[Case], ahead: int = 8
) -> Iterator[Result]:
    """Yield the results in order, so that sums are the same on any number of cores.

    Each call has a core. Where there are more cores than calls, calls of this function within them are done
    side by side, too; else one after the other. ``ahead``: calls for each core that are begun together. What
    has begun goes on to its end where another call fails.
    """
    count, depth = getattr(_of_thread, "cores", cores()), getattr(_of_thread, "depth", 0)
    if len(cases) == 1 or count == 1:
        yield from map(function, cases)
        return

    def on_its_share(case: Case) -> Result:
        _of_thread.cores, _of_thread.depth = -(-count // len(cases)), depth + 1
        return function(case)

    pool = _workers(cores(), depth)
    for k in range(0, len(cases), ahead * count):
        yield from pool.map(on_its_share, cases[k : k + ahead * count])


def fits_of(
    function: Callable[[Case], Result], cases: Sequence[Case], pixels: int, most: int = 2**20
) -> Iterable[Result]:
    """Return what fits of objects of so many ``pixels`` give: side by side, if their memory is small."""
    return (side_by_side if pixels <= most else map)(function, cases)


_of_thread = threading.local()  # the ``cores`` among which its calls are divided, and their ``depth``


@cache
def _workers(count: int, depth: int) -> ThreadPoolExecutor:
    """Threads that stay: to start some for each evaluation takes a tenth of a small scan's time.

    Those that wait for others must not be among them, hence the ``depth`` of calls in calls.
    """
    return ThreadPoolExecutor(count, f"side_by_side_{depth}")


def likelihood_of(data: Dataset, advance: Advance = silent) -> ScanLikelihood:
    """Return the likelihood of a scan of one object: of photons, else of amplitudes of one variance."""
    if data.counts:
        return ScanLikelihood(data, data.normalisation, advance=advance)
    return ScanLikelihood(data, data.normalisation, noise_unit(data), "gaussian", advance=advance)


def noise_unit(data: Dataset, noise: float = 0.1) -> float:
    """Return the amplitude of one effective photon for noise that is a share of the rms: twice the noise."""
    return 2 * noise * float(np.sqrt(data.amplitudes.statistics.mean_energy)) / data.N
