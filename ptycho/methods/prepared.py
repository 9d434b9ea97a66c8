"""A measured scan made ready: a probe and an orientation settled, some patterns kept out; then solved."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.evaluation.trust import ORIENTATION, SCALE
from ptycho.methods.assessment import SOLVER, Recon, measurement_doubts
from ptycho.methods.solver import Settings, reconstruct, wishes_of
from ptycho.preparation.dataset import kept_out, measured_dataset
from ptycho.preparation.finding import Finding
from ptycho.preparation.prepare import Understood, understand
from ptycho.progress import Progress
from ptycho.readers.scans.table import opened
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.reconstruction.orientation import advice, better, orientations
from ptycho.reconstruction.probe_guess import guessed_probe
from ptycho.reconstruction.scale import PATTERNS, better_scale
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import masked

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A scan that is ready to be reconstructed.

    Attributes:
        name: of the scan, unique in its run.
        scan: how its file was understood.
        whole: all usable patterns, as the file describes them.
        kept, out: indices of those that are fitted, and of those that are kept out to judge the result by.
        data, free: the same with the probe, positions, … that explain them; free is None where none are out.
        solved: what the solver made of them before any network; None: it was not asked to.
        solution: how it came to it.
        learned: modes of the probe that were found in the training, ``(K, N, N)``; None: those of ``data``.
        found, doubts: what was settled, and flags that the results get.
    """

    name: str
    scan: Understood
    whole: Dataset
    kept: np.ndarray
    out: np.ndarray
    data: Dataset
    free: Dataset | None
    found: list[Finding]
    doubts: list[str]
    solved: Recon | None = None
    solution: Solved | None = None
    learned: np.ndarray | None = None

    def for_network(self) -> tuple[Dataset, Dataset | None]:
        """``data`` and ``free`` with the probe that the network was trained with."""
        if self.learned is None:
            return self.data, self.free
        return self.data.under(self.learned), None if self.free is None else self.free.under(self.learned)


@dataclass(frozen=True)
class Surroundings:
    """Where something is done.

    Attributes:
        scratch: a folder for patterns in a nameless file.
        timed: a context that notes how long what it is named after takes.
        bar: as for :class:`~ptycho.progress.Progress`.
    """

    scratch: Path
    timed: Callable[[str], AbstractContextManager] = lambda what: nullcontext()
    bar: bool | None = None


def prepare(name: str, scan: Understood, config: ScanRunConfig, where: Surroundings) -> Prepared:
    """The patterns read, a probe and an orientation settled, and some patterns kept out."""
    scan, whole, found, doubts = settle(scan, config, where)
    kept, out = kept_out(whole, config.free_fraction, config.seed)
    log.info("%d patterns are fitted, %d are kept out to judge the result by", len(kept), len(out))
    data = whole.subset(kept, config.patterns_in_group)
    free = whole.subset(out, 1) if len(out) else None
    doubts = doubts + measurement_doubts(data, config.probe)
    return Prepared(name, scan, whole, kept, out, data, free, found, doubts)


def settle(
    scan: Understood, config: ScanRunConfig, where: Surroundings
) -> tuple[Understood, Dataset, list[Finding], list[str]]:
    """The scan with a probe, if need be a guessed one, read the way that explains it; flags of doubt."""
    data, found = read(scan, config, where)
    with where.timed("probe_and_orientation"):
        if scan.probe is None and isinstance(config.probe, OwnProbe):
            guess = guessed_probe(data)
            data = replace(data, probe=masked(guess.probe, config.probe), weaker_modes=None)
            found.append(guess.finding)
            log.info("%s", guess.finding)
        trials = orientations(replace(data, weaker_modes=None))
        clear = better(trials)
    if clear is None:
        return scan, data, found, []
    told = advice(clear, trials, config.data)
    if config.data.orientation != "auto":
        log.warning("%s; or data.orientation=auto", told)
        return replace(scan, warnings=(*scan.warnings, told)), data, found, [ORIENTATION]
    log.info("data.orientation=auto: %s", told)
    turned = clear.orientation.on(config.data)
    scan = understand(opened(turned), turned)
    data, again = read(scan, replace(config, data=turned), where)
    found = [*again, Finding("orientation", clear.orientation.keys(config.data), told)]
    return scan, data, found, []


def read(scan: Understood, config: ScanRunConfig, where: Surroundings) -> tuple[Dataset, list[Finding]]:
    """All patterns of the scan, read once."""
    progress = Progress("reading", len(scan.frames), bar=where.bar)
    with where.timed("reading"), closing(progress):
        data, found = measured_dataset(scan, config, where.scratch, progress.advance)
    for finding in found:
        log.info("%s", finding)
    return data, found


def solve_first(each: Prepared, config: ScanRunConfig, where: Surroundings) -> Prepared:
    """The scan with the probe, positions, … that the solver finds, and its object."""
    with where.timed(SOLVER):
        recon, solution, decisions = reconstruct(
            each.whole, each.kept, each.out, settings_of(config, each.whole.N, where.bar)
        )
    with where.timed("scale"):
        warned, doubts = scale_doubts(each.whole, solution)
    return replace(
        each,
        scan=replace(each.scan, warnings=(*each.scan.warnings, *warned)),
        data=recon.data,
        free=recon.free,
        solved=recon,
        solution=solution,
        found=[*each.found, *decisions],
        doubts=[*each.doubts, *doubts],
    )


def settings_of(config: ScanRunConfig, N: int, bar: bool | None = None) -> Settings:
    """Those of the solver."""
    wishes = wishes_of(config.solver, config.probe, N)
    return Settings(wishes, config.seed, config.xla.compile, config.patterns_in_group, bar)


def scale_doubts(told: Dataset, solution: Solved) -> tuple[list[str], list[str]]:
    """A warning and a flag where positions of another scale explain the patterns better; or none.

    Where neither probe nor positions were found, a wrong scale cannot hide.
    """
    if not (solution.free.probe or solution.free.positions):
        return [], []
    scale = better_scale(told, solution.terms, solution.state)
    if not scale.clear:
        return [], []
    after = scale.before * np.exp(-scale.gain.gain)
    warning = (
        f"positions {scale.factor:.3f} times as far apart explain {PATTERNS} patterns better under the "
        f"probe as it was told: deviance {scale.before:.4f} → {after:.4f} ± {after * scale.gain.error:.4f}"
    )
    log.warning("%s", warning)
    return [warning], [SCALE]


def beam_of(recon: Recon, each: Prepared) -> dict[str, np.ndarray]:
    """The probe ``(K, N, N)``, the positions ``(J, 2)`` of all usable patterns, and their flux ``(J,)``."""
    data = recon.data
    positions, flux = recon.places(each.whole.positions, each.kept, each.out)
    found = {"probe": data.modes, "positions": positions, "flux": flux}
    return found if data.background is None else found | {"background": data.background}
