"""An alignment in the cache of a run. A stopped run reads the patterns again, and need not align them.

Fits are kept under the hash of what they began with. An alignment that was computed again, on another kind of
processor or on a GPU, differs in its last bits, and no fit would be found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ptycho.align.align_scan import align_scan
from ptycho.align.aligned import AlignedScan, RunContext, StartingPoint, read, read_again
from ptycho.align.geometry import Alternative
from ptycho.align.orientation import Orientation
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.files.reading import parse_json
from ptycho.preparation.dataset import at_positions, place_patterns
from ptycho.preparation.prepare import ScanGeometry, interpret_again
from ptycho.preparation.start import Start, decided_reading, product_file, read_start
from ptycho.reconstruction.solver import program_version
from ptycho.scan.finding import Finding
from ptycho.scan.probe import masked

READING = (*Orientation._fields, "frame_offset", "pattern_shift", "N", "drop")  # of the section ``data``


def align(scan: ScanGeometry, config: ScanRunConfig, context: RunContext) -> AlignedScan:
    """Read a scan and align it; a stopped run takes what it had decided from the cache.

    A run that begins from an earlier result (key ``start``) takes its alignment.
    """
    if config.start is not None:
        reading = decided_reading(product_file(config.start).parent, config.data)
        as_run = scan if reading == config.data else interpret_again(scan, reading)
        as_started = read(as_run, replace(config, data=reading), context)
        return begin_from(as_started, read_start(config.start, as_started.scan))
    as_read = read(scan, config, context)
    if context.cache is None:
        return align_scan(as_read, context)
    name = name_of(as_read)
    if (kept := context.cache.get(name)) is not None:
        turned = reading_of(kept, config.data)
        return recall(kept, as_read if turned == config.data else read_again(as_read, turned, context))
    aligned = align_scan(as_read, context)
    context.cache.put(name, arrays_of(aligned))
    return aligned


def begin_from(aligned: AlignedScan, start: Start) -> AlignedScan:
    """Return a scan as it was read, under the probe and at the positions of an earlier result."""
    scan, data, shift = place_patterns(aligned.scan, aligned.data, start.positions)
    beam, limits = data.beam, aligned.config.probe
    if start.opr_modes is not None:
        beam = replace(beam, opr_modes=masked(start.opr_modes, limits), opr_weights=start.opr_weights)
    beam = replace(beam, probe=masked(start.probe, limits)).scaled_to(beam.power)
    image = np.zeros((data.object_size,) * 2, np.complex64)
    low, high = np.maximum(shift, 0), np.minimum(shift + len(start.object), data.object_size)
    here = tuple(slice(*ends) for ends in zip(low, high, strict=True))
    image[here] = start.object[tuple(slice(*ends) for ends in zip(low - shift, high - shift, strict=True))]
    data, starting_point = replace(data, beam=beam), StartingPoint(image, start.model)
    return replace(aligned, scan=scan, data=data, start=starting_point).decided(start.finding)


def name_of(aligned: AlignedScan) -> str:
    """Return the name by which an alignment is known: a hash of the scan as it was read, and the keys."""
    config, content, data = aligned.config, hashlib.sha256(), aligned.data
    statistics = data.amplitudes.statistics  # a number of each pattern and of each pixel: no second pass
    arrays = statistics.energies, statistics.mean_intensity, data.positions, data.probe, data.good
    for array in arrays:
        content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    choices = config.data, config.probe, config.solver.positions, config.group_size, config.tiles
    content.update(repr((choices, program_version())).encode())
    return f"alignment-{content.hexdigest()[:24]}"


def arrays_of(aligned: AlignedScan) -> dict[str, np.ndarray]:
    """Return what the steps changed as arrays ``(…)`` by name; texts are one JSON string."""
    other = aligned.alternative
    texts = {
        "reading": {key: getattr(aligned.config.data, key) for key in READING},
        "steps": [asdict(step) for step in aligned.steps],
        "no_probe": aligned.scan.probe is None,
        "alternative": other and [other.drift, asdict(other.applied), asdict(other.kept)],
    }
    arrays = {"texts": np.asarray(json.dumps(texts)), "scan_positions": aligned.scan.positions}
    arrays |= aligned.data.beam.arrays()
    arrays["object_size"] = np.asarray(aligned.scan.object_size)
    if other is not None:
        arrays |= {"matrix": other.matrix, "other_deviance": np.asarray(other.deviance)}
        arrays |= {} if other.probe is None else {"other_probe": other.probe}
    return arrays


def reading_of(arrays: Mapping[str, np.ndarray], config: DataConfig) -> DataConfig:
    """Return the section ``data`` by which the aligned scan is read, from ``arrays (…)`` by name."""
    reading = parse_json(str(arrays["texts"]))["reading"]
    return replace(config, **{key: reading[key] for key in READING})


def recall(arrays: Mapping[str, np.ndarray], read: AlignedScan) -> AlignedScan:
    """Return the aligned scan from its ``arrays (…)`` and the scan as :func:`reading_of` reads it."""
    texts = parse_json(str(arrays["texts"]))
    data, scan = read.data, read.scan
    moves = arrays["positions"].astype(float) - data.positions
    if moves.any():
        data = at_positions(data, data.positions + moves)
    beam = replace(
        data.beam.with_probe(arrays["probe"]),
        flux=arrays.get("flux", data.beam.flux),  # older runs kept none
        opr_modes=arrays.get("opr_modes"),
        opr_weights=arrays.get("opr_weights"),
    )
    scan = replace(scan, positions=arrays["scan_positions"], object_size=int(arrays["object_size"]))
    scan = replace(scan, probe=None) if texts["no_probe"] else scan
    other = None
    if texts["alternative"] is not None:
        drift, applied, kept = texts["alternative"]
        matrix, probe, deviance = arrays["matrix"], arrays.get("other_probe"), float(arrays["other_deviance"])
        other = Alternative(matrix, probe, drift, _finding(applied), _finding(kept), deviance)
    aligned = replace(read, scan=scan, data=replace(data, beam=beam), alternative=other)
    return aligned.decided(*map(_finding, texts["steps"]))


def _finding(text: dict[str, Any]) -> Finding:
    return Finding(**text | {"flags": tuple(text["flags"])})
