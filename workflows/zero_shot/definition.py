"""What a study of zero-shot reconstruction consists of: ``conf/zero_shot.yaml`` as frozen values."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError, check
from ptycho.config.pretrain_config import MaterialsConfig
from ptycho.simulation.kind_scans import KindScan
from ptycho.simulation.kinds import Entry, Kind, entries_of
from ptycho.simulation.object_kinds import OBJECT_KINDS
from ptycho.simulation.probe_kinds import PROBE_KINDS
from workflows.study.definition import loaded, made

ZERO_SHOT, REFINED, DENOISED, LSQML = "zero_shot", "refined", "denoised", "lsqml"
METHODS = (ZERO_SHOT, REFINED, DENOISED, "tuned1", "tuned2", "scratch", LSQML)
BOTH, ONE, NEITHER = "probe and object held out", "one of them held out", "neither held out"
LISTS = ("probes", "objects", "materials", "scans", "photons", "N")  # of a panel, whose product are its cells
SHARES = ("unrelated", "bright")  # of the objects of a material


@dataclass(frozen=True)
class Named:
    """A probe or object of the study; ``trained``: the network's training has seen its kind."""

    entry: Entry
    trained: bool


@dataclass(frozen=True)
class Scanned:
    """A way to scan."""

    path: str
    overlap: float


@dataclass(frozen=True)
class Tuning:
    """How ``tuned1``, ``tuned2``, ``scratch`` are trained: a group of nearest patterns for each pattern.

    ``scratch`` has the learning rate of the network's own configuration.
    """

    group_size: int = 4
    batch_size: int = 8
    learning_rate: float = 2e-4
    compile: bool = False

    def __post_init__(self) -> None:
        for key in ("group_size", "batch_size"):
            value = getattr(self, key)
            check(isinstance(value, int) and 1 <= value <= 64, f"tuning.{key}", value, "from 1 to 64")
        check(0 < self.learning_rate < 1, "tuning.learning_rate", self.learning_rate, "between 0 and 1")


@dataclass(frozen=True)
class Usual:
    """What a panel has that does not say otherwise."""

    probes: Sequence[str]
    objects: Sequence[str]
    materials: Sequence[str]
    scans: Sequence[str]
    photons: Sequence[float | str]
    N: Sequence[int]
    positions: int = 200


@dataclass(frozen=True)
class Panel:
    """A table of the report: the product of its lists of names and numbers; None: the usual ones."""

    name: str
    title: str
    probes: Sequence[str] | None = None
    objects: Sequence[str] | None = None
    materials: Sequence[str] | None = None
    scans: Sequence[str] | None = None
    photons: Sequence[float | str] | None = None
    N: Sequence[int] | None = None
    positions: int | None = None


@dataclass(frozen=True)
class Cell:
    """One simulated scan; ``parts`` are the names that it is put together from, and ``held_out`` says whether
    its probe's and its object's kinds are."""

    name: str
    parts: Mapping[str, str]
    scan: KindScan
    held_out: str

    @property
    def settings(self) -> dict[str, Any]:
        """What the scan depends on, as plain values."""
        return (
            asdict(self.scan)
            | {
                key: [entry.kind, {name: [*ends] for name, ends in entry.ranges.items()}]
                for key, entry in (("probe", self.scan.probe), ("object", self.scan.object))
            }
            | {"material": {key: _plain(value) for key, value in asdict(self.scan.material).items()}}
        )


@dataclass(frozen=True)
class Definition:
    """The keys of the file; what is read of it takes the place of the plain values."""

    run: str
    usual: Any
    probes: Mapping[str, Any]
    objects: Mapping[str, Any]
    materials: Mapping[str, Any]
    scans: Mapping[str, Any]
    panels: Sequence[Any]
    methods: Sequence[str] = METHODS
    group_size: int = 64
    passes: int = 5
    tuning: Any = None
    seed: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """What the results of every cell depend on, besides its own settings and the network."""
        keys = ("group_size", "passes", "seed")
        return {key: getattr(self, key) for key in keys} | {"tuning": asdict(self.tuning)}

    def select(
        self, panels: Sequence[str] | None, methods: Sequence[str] | None, run: str | None
    ) -> Definition:
        """The study of some panels and methods only, in its own order, with another network."""
        known = [panel.name for panel in self.panels]
        for name in panels or ():
            check(name in known, "--panels", name, f"drawn from {', '.join(known)}")
        for name in methods or ():
            check(name in METHODS, "--methods", name, f"drawn from {', '.join(METHODS)}")
        return replace(
            self,
            run=run or self.run,
            panels=[panel for panel in self.panels if panel.name in (panels or known)],
            methods=[name for name in METHODS if name in (methods or self.methods)],
        )

    def cells(self) -> dict[str, list[Cell]]:
        """The cells of each panel, by the panel's name; equal cells of several panels are the same."""
        return {panel.name: self._panel_cells(panel) for panel in self.panels}

    def _panel_cells(self, panel: Panel) -> list[Cell]:
        own = {key: value for key, value in asdict(panel).items() if value is not None}
        lists = asdict(self.usual) | own
        least = max(2 * self.tuning.batch_size, self.tuning.group_size)
        few = f"at least {least}: tuning.group_size, and twice tuning.batch_size"
        check(lists["positions"] >= least, "positions", lists["positions"], few)
        every = itertools.product(*(lists[key] for key in LISTS))
        return [self._cell(dict(zip(LISTS, chosen, strict=True)), lists["positions"]) for chosen in every]

    def _cell(self, chosen: Mapping[str, Any], positions: int) -> Cell:
        """Cells that differ in dose or scan alone share their seed, and so the probe and the material."""
        probe, object_, material, scan, photons, N = (chosen[key] for key in LISTS)
        one, other = self.probes[probe], self.objects[object_]
        settings = KindScan(
            probe=one.entry,
            object=other.entry,
            material=self.materials[material],
            path=self.scans[scan].path,
            overlap=self.scans[scan].overlap,
            photons=photons,
            N=N,
            positions=positions,
            seed=zlib.crc32(f"{self.seed}/{probe}/{object_}/{material}/{N}".encode()),
        )
        name = f"{probe}-{object_}-{material}-{scan}-{photons:g}-N{N}-J{positions}".replace("+", "")
        parts = {"probe": probe, "object": object_, "material": material, "scan": scan}
        return Cell(name, parts, settings, (BOTH, ONE, NEITHER)[one.trained + other.trained])


def is_zero_shot(path: Path) -> bool:
    """Whether a file defines a study of this kind; False, too, where it cannot be read."""
    try:
        values = loaded(path)
    except ConfigError:
        return False
    return isinstance(values, dict) and {"panels", "run"} <= values.keys() and "curves" not in values


def load_definition(path: Path) -> Definition:
    """Read and check the definition.

    Raises:
        ConfigError: one line with the key that is wrong and what is allowed.
    """
    read = made(Definition, loaded(path), str(path))
    check(isinstance(read.run, str) and bool(read.run), "run", read.run, "a run's folder, or pretrained")
    check(isinstance(read.seed, int) and read.seed >= 0, "seed", read.seed, "an integer >= 0")
    check(1 <= read.group_size <= 512, "group_size", read.group_size, "from 1 to 512")
    check(1 <= read.passes <= 1000, "passes", read.passes, "from 1 to 1000")
    check(bool(read.methods), "methods", "[]", f"drawn from {', '.join(METHODS)}")
    for method in read.methods:
        check(method in METHODS, "methods", method, f"drawn from {', '.join(METHODS)}")
    for key in ("probes", "objects", "materials", "scans"):
        _check_section(getattr(read, key), key)
    check(isinstance(read.panels, list), "panels", read.panels, "a list of sections with name and title")
    found = replace(
        read,
        usual=made(Usual, read.usual, f"{path}, usual"),
        probes=_entries(PROBE_KINDS, read.probes, "probes"),
        objects=_entries(OBJECT_KINDS, read.objects, "objects"),
        materials={name: _material(values, name) for name, values in read.materials.items()},
        scans={name: made(Scanned, values, f"{path}, scans.{name}") for name, values in read.scans.items()},
        tuning=made(Tuning, read.tuning or {}, f"{path}, tuning"),
        panels=[made(Panel, panel, f"{path}, panels") for panel in read.panels],
    )
    _check_lists(found)
    return _with_numbers(found)


def _check_section(values: Any, key: str) -> None:
    """Its entries have names that files can be named by."""
    check(isinstance(values, dict) and bool(values), key, values, "a section of named entries")
    for name in values:
        good = isinstance(name, str) and re.fullmatch(r"\w+", name) is not None
        check(good, key, name, "named by letters, digits and _ alone")


def _entries(table: Mapping[str, Kind], values: Mapping[str, Any], key: str) -> dict[str, Named]:
    """``name: {kind, trained, parameter: [low, high]}``."""
    found = {}
    for name, value in values.items():
        where, given = f"{key}.{name}", dict(value) if isinstance(value, dict) else {}
        kind, trained = given.pop("kind", None), given.pop("trained", False)
        check(kind in table, f"{where}.kind", kind, f"one of {', '.join(table)}")
        check(isinstance(trained, bool), f"{where}.trained", trained, "true or false")
        check(
            "weight" not in given, f"{where}.weight", given.get("weight"), "left out; all cells count alike"
        )
        (entry,) = entries_of(table, {kind: given}, where)
        found[name] = Named(entry, trained)
    return found


def _material(values: Any, name: str) -> MaterialsConfig:
    where = f"materials.{name}"
    given = dict(values) if isinstance(values, dict) else values
    for key, value in given.items() if isinstance(given, dict) else ():
        if key not in SHARES:
            pair = isinstance(value, list) and all(isinstance(x, int | float) for x in value)
            check(pair, f"{where}.{key}", value, "[low, high]")
            given[key] = tuple(value)
    try:
        return made(MaterialsConfig, given, where)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}; give numbers") from error


def _check_lists(study: Definition) -> None:
    """The names that panels are made of are there, and none has an empty list."""
    names = [panel.name for panel in study.panels]
    check(bool(names), "panels", "[]", "a non-empty list")
    check(len(set(names)) == len(names), "panels", names, "free of repetition")
    for where, panel in [("usual", study.usual), *((f"panels.{p.name}", p) for p in study.panels)]:
        for key in LISTS:
            chosen = getattr(panel, key)
            if chosen is None:
                continue
            check(isinstance(chosen, list) and bool(chosen), f"{where}.{key}", chosen, "a non-empty list")
            known: Mapping[str, Any] = getattr(study, key, {})  # photons and N are numbers
            for name in chosen if known else ():
                check(name in known, f"{where}.{key}", name, f"one of {', '.join(known)}")


def _with_numbers(study: Definition) -> Definition:
    """Photons as numbers (YAML takes 1e6 for a word); a ConfigError if a cell cannot be made."""
    usual = replace(study.usual, photons=_numbers(study.usual.photons, "usual.photons"))
    panels = [
        replace(panel, photons=panel.photons and _numbers(panel.photons, f"panels.{panel.name}.photons"))
        for panel in study.panels
    ]
    found = replace(study, usual=usual, panels=panels)
    for panel in found.panels:
        try:
            found.cells()
        except (ConfigError, TypeError) as error:  # a word where a number is wanted
            raise ConfigError(f"panels.{panel.name}: {error}") from error
    return found


def _numbers(values: Sequence[float | str], key: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{key}={values}: must be numbers, as 1e6") from error


def _plain(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else value
