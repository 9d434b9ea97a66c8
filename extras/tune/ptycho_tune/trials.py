"""One trial: reconstruct the scan with some settings, and score it on the held-out patterns.

TensorFlow is imported with this module, and with no other one of this package.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.align.aligned import RunContext
from ptycho.align.cached import align
from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.methods.assessment import assess_fit
from ptycho.methods.prepared import Prepared, prepare
from ptycho.methods.table import METHODS, SOLVER, MethodInputs
from ptycho.preparation.prepare import interpret
from ptycho.progress import OnEvent, ignore
from ptycho.readers.table import open_raw
from ptycho_tune.space import with_settings
from ptycho_tune.study import Outcome


class Bench:
    """Reconstructs one scan again and again; what does not depend on the settings is done once."""

    def __init__(self, scratch: Path, values: Mapping[str, Any]) -> None:
        self._scratch, self._values = scratch, values
        self._ready: dict[str, Prepared] = {}

    def run(self, settings: Mapping[str, Any], on_event: OnEvent = ignore) -> Outcome:
        """Reconstruct by the solver with some settings, and score; an exception of ``on_event`` ends it."""
        began, config = time.perf_counter(), with_settings(self._values, settings)
        context = RunContext(self._scratch, on_event=on_event)
        inputs, prepared = MethodInputs(config, context), self._prepared(config, context)
        fit = assess_fit(METHODS[SOLVER](prepared, {}, inputs), prepared)
        scored = fit.held_out or fit.used
        return Outcome(np.asarray(scored.unexplained, float), time.perf_counter() - began)

    def _prepared(self, config: ScanRunConfig, context: RunContext) -> Prepared:
        probe = config.probe
        if isinstance(probe, OwnProbe):
            probe = replace(probe, modes=None, learn=None)
        key = repr((config.data, probe, config.seed, config.holdout_fraction))
        if key not in self._ready:
            scan = interpret(open_raw(config.data), config.data)
            self._ready = {key: prepare("scan", align(scan, config, context))}
        return self._ready[key]
