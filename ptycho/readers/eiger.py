"""Masters of Dectris detectors (Eiger, Pilatus) with their data in files beside them.

``data_000001`` … (n, H, W) are counts, one after the other, often external links; ``beam_center`` of zero is
not set; in ``pixel_mask`` 0 is good. There are no positions: they come in ``data.positions_file``, or by
``data.keys.positions``. The largest number of the dtype (Pilatus: a negative one) marks gaps and broken
pixels, as in any format.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.files.opening import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Patterns
from ptycho.readers.positions import KEYS, read_mapped
from ptycho.readers.values import read_plain

GROUPS = ("entry/data", "entry")
BLOCK = re.compile(r"data_(\d{6})")
DETECTOR = "entry/instrument/detector"
SPECIFIC, BEAM = f"{DETECTOR}/detectorSpecific", "entry/instrument/beam"
CENTRE = (f"{DETECTOR}/beam_center_y", f"{DETECTOR}/beam_center_x")


def _blocks(file: Archive) -> list[str]:
    """The keys ``data_000001`` … of the first group that has such, in their order."""
    listed = (
        [f"{group}/{name}" for name in file.children(group) if BLOCK.fullmatch(name)] for group in GROUPS
    )
    return next((keys for keys in listed if keys), [])


def _patterns(file: Archive) -> Patterns:
    keys = _blocks(file)
    if not keys:
        return file.patterns(file.need("patterns", "entry/data/data", "entry/data/data_000001"))
    numbers = [int(key[-6:]) for key in keys]
    gaps = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    if gaps:
        raise FileError(
            f"has {keys[0]} to {keys[-1]}, but not {', '.join(f'data_{k:06d}' for k in gaps[:5])}"
        )
    return file.patterns(*keys)


def _check(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    """Warn of another number of patterns than is announced, and of counts at which the detector saturates."""
    images, triggers = read_plain(file, f"{SPECIFIC}/nimages"), read_plain(file, f"{SPECIFIC}/ntrigger")
    if images is not None and images * (triggers or 1) != source.shape[0]:
        file.warnings.append(
            f"the master announces {images * (triggers or 1):g} patterns, and there are {source.shape[0]}"
        )
    limit = read_plain(file, f"{SPECIFIC}/saturation_value", f"{SPECIFIC}/countrate_correction_count_cutoff")
    good = values["good"]
    fits = good is None or good.shape == source.shape[1:]
    if limit is None or not fits or source.dtype.kind not in "iu":
        return {}
    frames = np.concatenate(list(source.samples()))
    frames = np.where((frames < np.iinfo(source.dtype).max) & (True if good is None else good), frames, 0)
    peak = int(frames.max(initial=0))
    file.notes.append(f"the detector saturates at {limit:g} counts; the inspected patterns reach {peak}")
    if peak >= limit > 0:
        file.warnings.append(
            f"counts reach {peak}, and the detector saturates at {limit:g}; add data.saturation={limit:g}"
        )
    return {}


def _variant(file: Archive) -> Layout:
    """Without a centre of zero, which was not set."""
    unset = [read_plain(file, key) for key in CENTRE] == [0, 0]
    return replace(LAYOUT, centre=()) if unset else LAYOUT


LAYOUT = Layout(
    name="eiger",
    detect=lambda file: bool(_blocks(file)) or file.holds("entry/data/data", SPECIFIC),
    patterns=_patterns,
    centre=CENTRE,
    energy=(f"{SPECIFIC}/photon_energy", f"{BEAM}/incident_energy"),
    wavelength=(f"{BEAM}/incident_wavelength", f"{DETECTOR}/incident_wavelength"),
    wavelength_unit="angstrom",
    distance=(f"{DETECTOR}/detector_distance", f"{DETECTOR}/distance"),
    pixel=(f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size"),
    masks={f"{SPECIFIC}/pixel_mask": "bad", f"{DETECTOR}/pixel_mask": "bad"},
    positions=read_mapped,
    variant=_variant,
    more=_check,
    options=("keys", "unit", "axes", "positions_file"),
    keys=KEYS,
)
