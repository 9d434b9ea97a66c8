"""Simulated scans: object + probe + positions + random numbers → photon counts → a dataset."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config import RunConfig
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import draw_groups
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import make_scan
from ptycho.scan.probe import energy_diameter, make_probe
from ptycho.scan.tiling import nested_tiling
from ptycho.scan.windows import cut_windows
from ptycho.simulation.objects import make_object

log = logging.getLogger(__name__)

ROLES = ("train", "val", "test")
STREAMS = ("object", "jitter", "noise", "draw")
CHUNK = 512


def child_rng(seed: int, role: str, image: int, stream: str) -> np.random.Generator:
    """A generator of its own for every (seed, role, image, stream), independent of all the others."""
    key = (ROLES.index(role), image, STREAMS.index(stream))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def simulate(config: RunConfig) -> dict[str, Dataset]:
    """The training, validation and test datasets of a run; they share no object and no pattern.

    The photon scale is set by the training scan, ``s² = nphotons / ⟨Σ|Ψ|²⟩``, and used for all three.
    """
    probes = {role: make_probe(config.probe_of(role), config.N) for role in ROLES}
    log.info("probe: %.1f pixels across (90 %% of its energy)", energy_diameter(probes["train"]))
    if config.test_probe is not None:
        log.info("probe of the test scan: %.1f pixels across", energy_diameter(probes["test"]))
    clean = {role: _noise_free(config, role, probes[role]) for role in ROLES}
    mean_energy = np.mean(np.sum(np.square(clean["train"].amplitudes, dtype=np.float64), axis=(1, 2)))
    scale = float(np.sqrt(config.nphotons / mean_energy))
    return {role: _add_counting_noise(data, scale, config.seed, role) for role, data in clean.items()}


def _noise_free(config: RunConfig, role: str, probe: np.ndarray) -> Dataset:
    """The dataset of one role with amplitudes |Ψ| and a photon scale of one."""
    n_images = {"train": config.nimgs_train, "val": 1, "test": config.nimgs_test}[role]
    limit = {"train": config.max_groups_train, "val": config.train.val_groups, "test": None}[role]
    rngs = {s: [child_rng(config.seed, role, i, s) for i in range(n_images)] for s in STREAMS}
    objects = np.stack(
        [make_object(config.object, config.size, config.set_phi, rng) for rng in rngs["object"]]
    )
    scan = make_scan(config, role, n_images, rngs["jitter"])
    scan = scan.select(draw_groups(len(scan.groups), limit, rngs["draw"][0]))
    amplitudes = np.empty((len(scan.positions), config.N, config.N), np.float32)
    for image, truth in enumerate(objects):
        chosen = np.flatnonzero(scan.image == image)
        amplitudes[chosen] = noise_free_amplitudes(truth, probe, scan.positions[chosen])
    return Dataset(
        amplitudes=Patterns(amplitudes),
        positions=scan.positions,
        image=scan.image,
        groups=scan.groups,
        probe=probe,
        photon_scale=1.0,
        object_size=config.size,
        region_size=config.region_size,
        objects=objects,
        stated_tiling=nested_tiling(config, role),
    )


def noise_free_amplitudes(truth: np.ndarray, probe: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """``|F(P · O[r : r + N])|`` at every position.

    Args:
        truth: the object, ``(M, M)`` complex64.
        probe: ``(N, N)`` complex64.
        positions: ``(K, 2)`` float32, within ``[0, M − N]``.

    Returns:
        ``(K, N, N)`` float32.
    """
    N = probe.shape[0]
    amplitudes = np.empty((len(positions), N, N), np.float32)
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        whole = np.floor(chunk).astype(np.int64)
        windows = cut_windows(truth, whole, N + 1)
        fraction = tf.constant((chunk - whole)[:, None], tf.float32)
        waves = physics.diffract(tf.constant(windows), fraction, tf.constant(probe))
        amplitudes[start : start + CHUNK] = waves.numpy()[:, 0]
    return amplitudes


def _add_counting_noise(clean: Dataset, scale: float, seed: int, role: str) -> Dataset:
    """Replace |Ψ| by ``√n``, ``n ~ Poisson(s²|Ψ|²)``, drawn image by image."""
    amplitudes = np.empty_like(clean.amplitudes)
    for image in range(clean.n_images):
        chosen = np.flatnonzero(clean.image == image)
        rng = child_rng(seed, role, image, "noise")
        for start in range(0, len(chosen), CHUNK):
            part = chosen[start : start + CHUNK]
            mean_counts = np.square(scale * clean.amplitudes[part].astype(np.float64))
            amplitudes[part] = np.sqrt(rng.poisson(mean_counts))
    return replace(clean, amplitudes=Patterns(amplitudes), photon_scale=scale)
