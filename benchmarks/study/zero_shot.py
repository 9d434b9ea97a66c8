"""The study of one network on seen and unseen kinds of scans; TensorFlow is imported only to measure."""

from __future__ import annotations

import dataclasses
import itertools
import os
import typing
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from benchmarks.study.framework import STRICT, Cell, Store, plain
from benchmarks.study.zero_shot_kinds import OBJECTS, PROBES
from benchmarks.study.zero_shot_report import Row, write
from ptycho.config import ConfigError, check
from ptycho.quiet_start import require_tensorflow, start_tensorflow
from ptycho.run.network import StoredNetwork, read_network
from ptycho.run.stored_run import run_folder
from ptycho_pretrain.config import MaterialsConfig
from ptycho_pretrain.kind_scans import KindScan
from ptycho_pretrain.kinds import Entry, Kind, read_entries

if typing.TYPE_CHECKING:
    from benchmarks.study.zero_shot_methods import Bench

Method = Literal["zero_shot", "refined"]
METHODS = typing.get_args(Method)
BOTH, ONE, NEITHER = "probe and object held out", "one of them held out", "neither held out"
Name = Annotated[str, Field(pattern=r"^\w+$")]  # a part of file names
Names = Annotated[tuple[Name, ...], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class Scanned:
    """A way to scan."""

    path: Literal["fermat", "jittered", "snake"]
    overlap: Annotated[float, Field(ge=0, le=0.98)]


@dataclass(frozen=True, config=STRICT)
class Panel:
    """A table of the report: the product of its lists of names and numbers."""

    name: str
    title: str
    probes: Names
    objects: Names
    materials: Names
    scans: Names
    photons: Annotated[tuple[Annotated[float, Field(ge=1, le=1e12)], ...], Field(min_length=1)]
    N: Annotated[tuple[Annotated[int, Field(ge=16, le=512, multiple_of=2)], ...], Field(min_length=1)]
    positions: Annotated[int, Field(ge=16, le=100_000)]


class Named(NamedTuple):
    """A kind of probe or object; ``trained``: whether the network was trained with it."""

    entry: Entry
    trained: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """A simulated scan.

    Attributes:
        parts: names of its probe, object, material and way to scan.
        held_out: whether both, one or neither of its kinds of probe and object were held out of the training.
    """

    name: str
    parts: Mapping[str, str]
    settings: KindScan
    held_out: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodCell(Cell):
    """A scan, reconstructed by a method."""

    scan: Scan
    method: str


@dataclass(frozen=True, config=STRICT)
class ZeroShot:
    """The keys of ``zero_shot.yaml``."""

    run: Annotated[str, Field(min_length=1)]
    probes: Mapping[Name, dict[str, Any]]
    objects: Mapping[Name, dict[str, Any]]
    materials: Mapping[Name, dict[str, float | tuple[float, float]]]
    scans: Mapping[Name, Scanned]
    panels: Annotated[tuple[Panel, ...], Field(min_length=1)]
    methods: Annotated[tuple[Method, ...], Field(min_length=1)] = METHODS
    group_size: Annotated[int, Field(ge=1, le=512)] = 64
    passes: Annotated[int, Field(ge=1, le=1000)] = 5
    seed: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        for key in ("name", "title"):
            values = [getattr(panel, key) for panel in self.panels]
            check(len(set(values)) == len(values), "panels", values, f"each of a {key} of its own")

    @cached_property
    def scans_by_panel(self) -> dict[str, list[Scan]]:
        """Return the scans of each panel; a scan of several panels is one value."""
        seen: dict[str, Scan] = {}
        return {
            panel.name: [seen.setdefault(scan.name, scan) for scan in self._make_scans(panel)]
            for panel in self.panels
        }

    def _make_scans(self, panel: Panel) -> Iterator[Scan]:
        lists = panel.probes, panel.objects, panel.materials, panel.scans, panel.photons, panel.N
        for probe, object_, material, scan, photons, N in itertools.product(*lists):
            one = _read_kind(PROBES, _look_up(self.probes, probe, "probes"), f"probes.{probe}")
            other = _read_kind(OBJECTS, _look_up(self.objects, object_, "objects"), f"objects.{object_}")
            way = _look_up(self.scans, scan, "scans")
            settings = KindScan(
                probe=one.entry,
                object=other.entry,
                material=_read_material(_look_up(self.materials, material, "materials"), material),
                path=way.path,
                overlap=way.overlap,
                photons=photons,
                N=N,
                positions=panel.positions,
                # scans that differ only in dose or path share a seed, and so probe and material
                seed=zlib.crc32(f"{self.seed}/{probe}/{object_}/{material}/{N}".encode()),
            )
            name = f"{probe}-{object_}-{material}-{scan}-{photons:g}-N{N}-J{panel.positions}".replace("+", "")
            parts = {"probe": probe, "object": object_, "material": material, "scan": scan}
            yield Scan(name, parts, settings, (BOTH, ONE, NEITHER)[one.trained + other.trained])

    @cached_property
    def network(self) -> StoredNetwork:
        return read_network(run_folder(self.run), "pinn")

    def cells(self) -> list[MethodCell]:
        """Return the cells ordered by scan, because its methods start from each other's objects."""
        panels: dict[Scan, list[str]] = {}
        for panel, some in self.scans_by_panel.items():
            for scan in some:
                panels.setdefault(scan, []).append(panel)
        study = {key: getattr(self, key) for key in ("group_size", "passes", "seed")}
        methods = [name for name in METHODS if name in self.methods]
        return [
            MethodCell(
                name=f"{scan.name}/{method}",
                settings={"scan": plain(scan.settings), "network": self.network.sha256, **study},
                groups=tuple(groups),
                scan=scan,
                method=method,
            )
            for scan, groups in panels.items()
            for method in methods
        ]

    def check_due(self, due: Sequence[MethodCell]) -> None:
        """Check that Keras uses TensorFlow."""
        require_tensorflow(os.environ)

    def measure(self, cell: MethodCell, store: Store) -> dict[str, Any]:
        """Return the scores of a method."""
        return self._bench.measure(cell.scan, cell.method)

    @cached_property
    def _bench(self) -> Bench:
        """Return the bench; TensorFlow is imported here."""
        start_tensorflow()
        from benchmarks.study.zero_shot_methods import Bench
        from ptycho.run.record import prepare_tensorflow

        prepare_tensorflow()
        return Bench(self)

    def report(self, cells: Sequence[MethodCell], store: Store) -> str:
        """Return summary and tables of the panels; draw ``flag.png``."""
        rows: dict[str, Row] = {}
        for cell in cells:
            rows.setdefault(cell.scan.name, Row(cell.scan, {})).results[cell.method] = store.result(cell)
        panels = {
            panel.title: [rows[scan.name] for scan in self.scans_by_panel[panel.name] if scan.name in rows]
            for panel in self.panels
        }
        return write({title: some for title, some in panels.items() if some}, (BOTH, ONE, NEITHER), store)


def _look_up(table: Mapping[str, Any], name: str, key: str) -> Any:
    check(name in table, f"panels: {key}", name, f"one of {', '.join(table)}")
    return table[name]


def _read_kind(table: Mapping[str, Kind], value: Mapping[str, Any], where: str) -> Named:
    """Read an entry ``{kind, trained, parameter: [low, high]}``."""
    ranges = dict(value)
    kind, trained = ranges.pop("kind", None), ranges.pop("trained", False)
    check(kind in table, f"{where}.kind", kind, f"one of {', '.join(table)}")
    check(isinstance(trained, bool), f"{where}.trained", trained, "true or false")
    check("weight" not in ranges, f"{where}.weight", value.get("weight"), "removed; all count alike")
    (entry,) = read_entries(table, {kind: ranges}, where)
    return Named(entry, trained)


def _read_material(values: Mapping[str, Any], name: str) -> MaterialsConfig:
    try:
        return MaterialsConfig(**values)
    except ConfigError as error:
        raise ConfigError(f"materials.{name}: {error}") from error
