"""How close are the scores of tests to their limits, for some numbers of threads, with and without oneDNN?

    python -m benchmarks.score_limits [TESTS …] [--threads 1 2 4] [--onednn 0 1]

The order of the sums in a training depends on the number of threads and on oneDNN, and so does its result.
Every score that a test checks by ``within`` is printed with its smallest and largest value, its limit, and
the distance of the nearest value from the limit in units of the spread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import parser
from benchmarks.tables import markdown

TESTS = ("learning", "probe_learning", "pretraining", "general_network", "generators", "training")
TESTS += ("workflow", "zero_shot")
ROOT = Path(__file__).parents[1]
COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


class Scores:
    """A pytest plugin that runs only the tests with scores, and collects the scores as ``rows``."""

    def __init__(self):
        self.rows = []

    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if "within" in item.fixturenames]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.rows += [(report.nodeid, name, *bounds) for name, bounds in report.user_properties]


def measure(tests: list[str]) -> None:
    """Run the tests in this process, and print the collected scores as the last line."""
    import pytest

    scores = Scores()
    pytest.main(["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", *tests], plugins=[scores])
    print("\n" + json.dumps(scores.rows))


def measured(tests: list[str], threads: int, onednn: int) -> list[list]:
    """Run :func:`measure` in a separate process, because TensorFlow reads its settings once."""
    environment = os.environ | dict.fromkeys(COUNTS, str(threads)) | {"TF_ENABLE_ONEDNN_OPTS": str(onednn)}
    command = [sys.executable, "-m", "benchmarks.score_limits", "--here", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(key: tuple, values: list[float], above: float | None, below: float | None) -> dict[str, str]:
    """Return a row for one score: its range, its limit, and their distance in units of the spread."""
    low, high = min(values), max(values)
    room = min(low - above if above is not None else 1e300, below - high if below is not None else 1e300)
    return {
        "test": Path(key[0]).name.removeprefix("test_").replace(".py::test_", ": "),
        "score": key[1],
        "values": f"{low:.5g} to {high:.5g}",
        "limit": f"> {above:g}" if above is not None else f"< {below:g}",
        "spread": f"{high - low:.2g}",
        "room, in spreads": f"{room / (high - low):.1f}" if high > low else "–",
    }


def main() -> None:
    options_of = parser(__doc__)
    default = [str(path) for name in TESTS for path in (ROOT / "tests").glob(f"*/test_{name}.py")]
    options_of.add_argument("tests", nargs="*", default=default)
    options_of.add_argument("--threads", nargs="+", type=int, default=[1, 2, 4])
    options_of.add_argument("--onednn", nargs="+", type=int, default=[0, 1])
    options_of.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = options_of.parse_args()
    if options.here:
        return measure(options.tests)
    scores: dict[tuple, list] = {}
    for threads, onednn in itertools.product(options.threads, options.onednn):
        counted: dict[tuple, int] = {}
        for test, name, value, *limits in measured(options.tests, threads, onednn):
            counted[test, name] = counted.get((test, name), 0) + 1  # a name in a loop
            scores.setdefault((test, name, counted[test, name]), []).append((value, *limits))
        print(f"{threads} threads, oneDNN {onednn}: {sum(counted.values())} scores", file=sys.stderr)
    print(markdown([row(key, [v for v, *_ in every], *every[0][1:]) for key, every in scores.items()]))


if __name__ == "__main__":
    main()
