"""The formats of measured scans; the format of a file is recognised by its content, not by its name.

Of the formats of one container the first that recognises the file reads it; the most specific come first.
``data.format`` takes precedence, and so does a map of keys with the path of the patterns (the files of some
detectors need a map of the positions alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.config.own_code import is_import_path, load
from ptycho.files.reading import FileError, damage_named, faults_of
from ptycho.readers import cube, cxi, hdf5_layouts, keymap, npz_layouts, ptychodus, tiff
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Joined
from ptycho.readers.places import open_archive, read_layout
from ptycho.readers.raw_scan import Raster, RawScan, ReadOptions

CONTAINERS: dict[str, tuple[Layout, ...]] = {  # of a container, the most specific first
    "HDF5": (
        ptychodus.LAYOUT,
        hdf5_layouts.PTYD,
        hdf5_layouts.PTYLAB,
        cxi.NEXUS,
        cxi.LAYOUT,
        ptychodus.FOLDSLICE,
        hdf5_layouts.EIGER,
        keymap.HDF5,
        keymap.AXES,
    ),
    "NPZ": (
        npz_layouts.PINN,
        npz_layouts.GRID_LINES,
        npz_layouts.PUBLISHED,
        ptychodus.LAYOUT,
        npz_layouts.TIKE,
        keymap.NPZ,
    ),
    "TIFF": (tiff.LAYOUT,),
}
FORMATS = {layout.name for known in CONTAINERS.values() for layout in known}
MAP = "data.keys.patterns=… data.keys.positions=… data.unit=um, or for a raster data.scan_step_A=…"


def open_scan(path: str | Path, options: ReadOptions | None = None) -> RawScan:
    """Read a measured scan of any format, a file or a folder of TIFF files; its patterns are read on demand.

    ``options``: what the file does not contain. ConfigError: one line with the fault, or with the contents of
    a file that has no known layout.
    """
    path, options = Path(path), options or ReadOptions()
    if options.format is not None and is_import_path(options.format):
        return _read_by_own_code(path, options)
    if options.format is None and cube.reader_of(path) is not None:
        return cube.read(path, options)
    with open_archive(path, options) as file:
        layout = _choose_format(file, options)
        alone = bool(layout.pair) and not file.holds_any(*layout.pair)
        held = file.listed() if alone else ""
    if layout is ptychodus.FOLDSLICE:
        options = ptychodus.complete_pair(path, options)
    if alone and not options.patterns_file:
        raise ConfigError(f"{path}: has no patterns; add data.patterns_file=; it has {held}")
    if alone:
        beside = replace(options, format=None, patterns_file=None, positions_file=str(path))
        return replace(open_scan(str(options.patterns_file), beside), format=layout.name)
    return layout.read(path, options) if layout.read else read_layout(layout, path, options)


def _read_by_own_code(path: Path, options: ReadOptions) -> RawScan:
    read = load("data.format", str(options.format))
    with faults_of(f"{path}: data.format={options.format}"):
        with damage_named("fails"):
            scan = read(path=path, options=options)
        if not isinstance(scan, RawScan):
            wrong = f"gives {type(scan).__name__}; must give a ptycho.readers.raw_scan.RawScan"
            raise FileError(wrong)
    return scan


def open_raw(config: DataConfig) -> RawScan:
    """Open the scan that the section ``data`` names, its patterns still in the file; several as one."""
    if config.shared is not None:
        every = replace(config, shared=None, drop=(), stride=1, frames=None)
        scans = [open_raw(replace(every, file=(file,))) for file in config.file]
        return join_scans(scans, config.file)
    step = config.stated_scan_step_m()
    raster = Raster(config.scan_shape, None if step is None else (step, step), config.scan_path)
    options = ReadOptions(
        format=config.format,
        keys=config.keys.stated(),
        unit=config.unit,
        axes=config.position_axes,
        columns=config.position_columns,
        positions_file=config.positions_file,
        patterns_file=config.patterns_file,
        links_root=config.links_root,
        drop=config.drop,
        stride=config.stride,
        frames=config.frames,
        raster=None if raster == Raster(None, None) else raster,
        stated=config.stated_quantities(),
    )
    return open_scan(config.path, options)


def _choose_format(file: Archive, options: ReadOptions) -> Layout:
    known = {layout.name: layout for layout in CONTAINERS[file.kind]}
    if options.format is not None and options.format not in known:
        words = ", ".join(known if options.format in FORMATS else sorted(FORMATS))
        raise ConfigError(
            f"{file.path}: data.format={options.format}: must be one of {words}, or your own reader, "
            f"my_module:read; the file is {file.kind}"
        )
    by_keys = known[file.kind.lower()]
    if options.format is not None:
        return known[options.format]
    if options.keys and (file.kind == "NPZ" or "patterns" in options.keys):
        return by_keys
    layout = next((one for one in known.values() if one.detect(file)), None)
    if layout is None and (options.raster is not None or options.keys):
        layout = by_keys
    if layout is None:
        held = file.listed(declared=True)
        holds = f"has none of the layouts {', '.join(known)}; it holds {held}"
        raise ConfigError(f"{file.path}: {holds}; name its arrays: {MAP}")
    return layout


EQUAL = ("format", "domain", "zero_frequency", "unit", "dark", "flat")
LENGTHS = ("energy_eV", "distance_m", "detector_pixel_m")
STATED = ("unit", "domain", "zero_frequency")


def join_scans(scans: Sequence[RawScan], names: Sequence[str]) -> RawScan:
    """Return several scans as one: ``scan_index`` says which each pattern is of.

    The probe is that of the first scan that has one; a pixel is good where it is in all of them. The object
    of a file is left out: its place is known in the coordinates of that file alone. ConfigError: scans that
    differ in what must be equal.
    """
    first, counts = scans[0], [scan.patterns.shape[0] for scan in scans]
    for scan, name in zip(scans[1:], names[1:], strict=True):
        frames = {"the size of a frame": (first.patterns.shape[1:], scan.patterns.shape[1:])}
        pairs = frames | {what: (getattr(first, what), getattr(scan, what)) for what in (*EQUAL, *LENGTHS)}
        for what in (what for what, pair in pairs.items() if _differ(1e-4 * (what in LENGTHS), *pair)):
            value, other = map(_shown, pairs[what])
            remedy = f"set data.{what}" if what in (*STATED, *LENGTHS) else "reconstruct them one by one"
            raise ConfigError(f"data.file: {what} is {value} in {names[0]} and {other} in {name}; {remedy}")
    good = [scan.good for scan in scans if scan.good is not None]
    probes = [scan for scan in scans if scan.probe is not None] or [first]
    return replace(
        first,
        patterns=Joined([scan.patterns for scan in scans]),
        positions=np.concatenate([scan.positions for scan in scans]),
        probe=probes[0].probe,
        probe_pixel_m=probes[0].probe_pixel_m,
        object=None,
        object_pixel_m=None,
        object_centre_m=None,
        good=np.logical_and.reduce(good) if good else None,
        saturation=min((scan.saturation for scan in scans if scan.saturation is not None), default=None),
        scan_index=np.repeat(np.arange(len(scans)), counts),
        numbers=None,
        notes=tuple(dict.fromkeys(note for scan in scans for note in scan.notes)),
        warnings=tuple(
            f"{name}: {text}" for scan, name in zip(scans, names, strict=True) for text in scan.warnings
        ),
    )


def _differ(same: float, first: Any, second: Any) -> bool:
    """Return whether two values, of which either may be unknown, differ; numbers: by ``same`` of them."""
    if isinstance(first, str | None) or isinstance(second, str | None):
        return type(first) is not type(second) or bool(first != second)
    return np.shape(first) != np.shape(second) or not np.allclose(first, second, rtol=same, atol=0)


def _shown(value: object) -> object:
    if isinstance(value, np.ndarray):
        return f"an array {value.shape}"
    return "unknown" if value is None else value
