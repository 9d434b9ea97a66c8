#!/usr/bin/env python
"""How long does the likelihood with its gradient take, by the threads of an operation, with kept probes?

    python benchmarks/evaluation.py [--patterns 384] [--side 128] [--rounds 5]

Patterns are noise under a probe at fractions of a pixel, because only the time counts. Threads are set when a
process starts: each number has a process of its own, and these take turns. A row has the medians over all
rounds, in milliseconds; the first row is what TensorFlow does by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.tables import markdown
from ptycho.quiet_start import THREADS
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset

EVERYTHING = ("object", "modes", "positions", "flux", "background")


def scan_of(patterns: int, side: int) -> Dataset:
    """Return a scan of ``side``² pixels in a square of steps of a tenth of that."""
    rng, across = np.random.default_rng(0), int(np.ceil(np.sqrt(patterns)))
    places = side / 10 * np.stack(np.divmod(np.arange(patterns), across), -1) + rng.random((patterns, 2))
    axis = np.arange(side) - side / 2
    probe = np.exp(-np.add.outer(axis**2, axis**2) / (side / 6) ** 2).astype(np.complex64)
    return Dataset(
        amplitudes=np.sqrt(rng.poisson(10, (patterns, side, side))).astype(np.float32),
        beam=Beam(probe[None], places.astype(np.float32)),
        image=np.zeros(patterns, np.int32),
        groups=np.arange(patterns, dtype=np.int32)[:, None],
        photon_scale=1.0,
        object_size=int(places.max()) + side + 4,
        region_size=side + 2,
        exact=True,
    )


def measure(patterns: int, side: int, repeats: int = 5) -> dict[str, float]:
    """Return milliseconds of an evaluation, by what is differentiated."""
    data = scan_of(patterns, side)
    found = {}
    for modes in (1, 3):
        image = np.ones((data.object_size,) * 2, np.complex64)
        estimate = Estimate.of(data, image, modes)
        plain = ScanLikelihood(data, data.normalisation)
        keeping = plain.under_beam_of(estimate)
        for name, likelihood, parts in (
            ("object", plain, ("object",)),
            ("object, probes kept", keeping, ("object",)),
            ("everything", plain, EVERYTHING),
        ):
            seconds = []
            for _ in range(repeats + 2):  # the first ones compile
                began = time.perf_counter()
                likelihood.evaluate(estimate, parts)
                seconds.append(time.perf_counter() - began)
            found[f"{name}, {modes} modes"] = 1e3 * float(np.median(seconds[2:]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--patterns", type=int, default=384)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.patterns, options.side)))
        return
    found: dict[str, list[dict[str, float]]] = {"all cores": [], "one": []}
    for _ in range(options.rounds):
        for threads, results in found.items():
            environment = os.environ | {THREADS: "1" if threads == "one" else "0"}
            ran = subprocess.run(
                [sys.executable, *sys.argv, "--measure"], env=environment, capture_output=True
            )
            results.append(json.loads(ran.stdout))
    medians = {
        threads: {name: float(np.median([result[name] for result in results])) for name in results[0]}
        for threads, results in found.items()
    }
    rows = [
        {"threads of an operation": threads} | {name: f"{value:.0f}" for name, value in values.items()}
        for threads, values in medians.items()
    ]
    print(markdown(rows))


if __name__ == "__main__":
    main()
