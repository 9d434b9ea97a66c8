#!/usr/bin/env python
"""How long does the likelihood with its gradient take, by the threads of an operation, with kept probes?

    python benchmarks/evaluation.py [--patterns 384] [--side 128] [--measure]

Patterns are noise under a probe at fractions of a pixel, because only the time counts. Threads are set when a
process starts: each number has a process of its own, and these take turns. A row has the medians over all
rounds, in milliseconds; the first row is what TensorFlow does by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

import numpy as np

from benchmarks import parser
from benchmarks.photographs import dataset
from benchmarks.tables import markdown
from benchmarks.timing import alternated
from ptycho.quiet_start import THREADS
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.scan.dataset import Dataset

ROUNDS = 5
EVERYTHING = ("object", "modes", "positions", "flux", "background")


def scan_of(patterns: int, side: int) -> Dataset:
    """Return a scan of ``side``² pixels in a square of steps of a tenth of that."""
    rng, across = np.random.default_rng(0), int(np.ceil(np.sqrt(patterns)))
    places = side / 10 * np.stack(np.divmod(np.arange(patterns), across), -1) + rng.random((patterns, 2))
    axis = np.arange(side) - side / 2
    probe = np.exp(-np.add.outer(axis**2, axis**2) / (side / 6) ** 2)[None]
    sizes = {"object_size": int(places.max()) + side + 4, "region_size": side + 2}
    amplitudes = np.sqrt(rng.poisson(10, (patterns, side, side)))
    return dataset(amplitudes, probe, places, exact=True, **sizes)


def measure(patterns: int, side: int) -> dict[str, str]:
    """Return milliseconds of an evaluation, by what is differentiated."""
    data = scan_of(patterns, side)
    calls = {}
    for modes in (1, 3):
        estimate = Estimate.of(data, np.ones((data.object_size,) * 2, np.complex64), modes)
        plain = ScanLikelihood(data, data.normalisation)
        calls |= {
            f"object, {modes} modes": partial(plain.evaluate, estimate, ("object",)),
            f"object, probes kept, {modes} modes": partial(
                plain.under_beam_of(estimate).evaluate, estimate, ("object",)
            ),
            f"everything, {modes} modes": partial(plain.evaluate, estimate, EVERYTHING),
        }
    return {name: f"{1e3 * seconds:.0f}" for name, seconds in alternated(calls, 5).items()}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--patterns", type=int, default=384)
    options_of.add_argument("--side", type=int, default=128)
    options_of.add_argument("--measure", action="store_true", help="by the threads of the environment")
    options = options_of.parse_args()
    if options.measure:
        print(json.dumps(measure(options.patterns, options.side)))
        return
    rows = []
    for turn in range(ROUNDS):
        for threads, number in {"all cores": "0", "one": "1"}.items():
            command = [sys.executable, *sys.argv, "--measure"]
            ran = subprocess.run(command, env=os.environ | {THREADS: number}, capture_output=True, check=True)
            rows.append({"round": turn, "threads of an operation": threads} | json.loads(ran.stdout))
    print(markdown(rows))


if __name__ == "__main__":
    main()
