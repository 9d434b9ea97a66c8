"""NPZ files of the published PtychoPINN program (hoidn/PtychoPINN), and of ptychodus' export for it.

``diff3d`` (J, H, W) has the zero frequency in the centre. The program's specification says amplitudes
(√counts), unprepared files hold counts, ptychodus exports intensities; ``diffraction``, (J, H, W) or
**(H, W, J)** in older files, holds amplitudes. ``bad_pixels`` is **True where a pixel does not count**.
``xcoords``, ``ycoords`` are column and row of the probe's centre in pixels of the object, from its corner,
whose middle is at ``(h/2, w/2)``. Positions that all lie within 0.05 of each other cannot be pixels: loaders
exist that write metres under these names.

NPZ files of tike (AdvancedPhotonSource/tike), as its examples and tests keep them.

``data`` (J, H, W) are intensities with the **zero frequency in the corner**; ``scan`` (J, 2) is **(row, col)
of the probe's first sample** in pixels of ``psi``, increasing with the object's row and column.
A probe whose middle ``(H//2, W//2)`` is on that of the object, ``(h/2, w/2)``, has the position
``(h/2 − H//2, w/2 − W//2)``.

Datasets of this program's grid-lines workflow: ``amplitudes`` (J, N, N) are √counts, ``positions`` (J, 2)
(row, col) of the probe's first sample on ``objects`` (I, M, M), ``image`` (J,) the object of each pattern.

Test splits of the published program's: ``diffraction`` (G, N, N, C) are amplitudes divided by an unknown
scale, row-major within the group; ``coords_offsets`` (G, 1, 2, C) is (row, col) of the **middle** of each
patch, first sample + (N − 1)/2, and has every position I times in a row, while patterns come image by image.
Training splits are refused: their patterns are shuffled, their positions are not.

From both kinds of file only the patterns of the first object are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.npz import NpzArchive, NpzPatterns
from ptycho.readers.patterns import Patterns, View
from ptycho.readers.positions import Placement, read_columns, read_rows
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import find_domain, read_array, read_good, read_object_in_pixels, read_whole

PATTERNS = ("diff3d", "diffraction")
POSITIONS = (("ycoords", "xcoords"), ("ycoords_start", "xcoords_start"))
CONTRACTS = {
    ("ci_intensity_v2", "count_intensity"): "counts",
    ("legacy_v1", "normalized_amplitude"): "amplitude",
}


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Return positions with the unit that follows from their span, and the object."""
    names = POSITIONS[0] if file.holds_any(*POSITIONS[0]) else POSITIONS[1]
    file.require(*names)
    placement = read_columns(file, names, options, None, "px")
    unit = placement.unit if options.unit else _unit(file, names, placement.positions)
    return Placement(placement.positions, unit, values=read_object_in_pixels(file, "objectGuess", unit))


def _unit(file: Archive, names: tuple[str, str], positions: np.ndarray, metres: float = 0.05) -> str:
    span = float(np.max(np.nanmax(positions, axis=0) - np.nanmin(positions, axis=0)))
    if len(positions) > 1 and 0 < span < metres:
        why = "taken as metres, not as pixels; set data.unit=px to change it"
        file.notes.append(f"{', '.join(names)} span {span:.3g}: {why}")
        return "m"
    file.notes.append(f"{', '.join(names)} span {span:.4g}: pixels of the object, as the format says")
    return "px"


def _domain(file: Archive, source: Patterns) -> str | None:
    """By the file's contract, by the numbers, by the name ``diffraction``; else None."""
    contract = file.text("scale_contract_version"), file.text("measurement_domain")
    if contract in CONTRACTS:
        file.notes.append(f"{CONTRACTS[contract]}: measurement_domain is {contract[1]}")
        return CONTRACTS[contract]
    if contract != (None, None):
        pair = f"scale_contract_version={contract[0]}, measurement_domain={contract[1]}"
        file.warnings.append(f"{pair}: no pair that is known; not heeded")
    domain = find_domain(file, source)
    if domain is None:
        rules = "the amplitude by PtychoPINN's rules, the intensity in ptychodus' export"
        file.notes[-1] += f"; {source.key} is {rules}"
    return domain


def _more(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    if file.holds("_metadata"):
        file.notes.append("_metadata is not read")
    good = file.noted(lambda: read_good(file, {"bad_pixels": "bad"}))
    if good is not None and good.shape not in (source.shape, source.shape[1:], source.shape[:2]):
        file.notes.append(f"bad_pixels {good.shape} is ignored: must be {source.shape[1:]}")
        good = None
    return {"good": good, "scan_index": read_whole(file, "scan_index", source.counts)}


PINN = Layout(
    name="ptychopinn",
    detect=lambda file: file.holds_any(*PATTERNS) and file.holds_any(*POSITIONS[0], *POSITIONS[1]),
    patterns=PATTERNS,
    any_order=True,
    domain=_domain,
    zero_frequency="centre",
    probe=("probeGuess",),
    positions=_positions,
    more=_more,
)


def _tike_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Positions as they are, and the object, which they are places on."""
    placement = read_rows(file, file.need("positions", "scan"), options, source.counts, unit="px")
    file.notes.append("positions are those of the probe's first sample")
    first = np.array(source.shape[1:]) // 2
    return replace(placement, values=read_object_in_pixels(file, "psi", placement.unit, first))


TIKE = Layout(
    name="tike",
    detect=lambda file: file.holds("data", "scan"),
    patterns=("data",),
    domain="intensity",
    zero_frequency="corner",
    probe=("probe",),
    positions=_tike_positions,
)


def _of_first_object(
    file: Archive, positions: np.ndarray, unit: str, image: np.ndarray, key: str, source: Patterns
) -> Placement:
    """Return the positions of the patterns of the first object, their numbers, and that object.

    ``positions (J, 2)``, ``image (J,)``: of all patterns, and the object of each; ``key`` of the objects.
    """
    count, N, _ = source.shape
    if len(positions) != count:
        raise FileError(f"positions: {len(positions)} of {count} patterns; must be as many")
    rows = np.flatnonzero(image == image[0])
    if len(rows) < len(image):
        others = f"holds patterns of {len(np.unique(image))} objects"
        file.warnings.append(f"{others}: the {len(rows)} of the first are read")
    objects = file.noted(lambda: read_array(file, key, "cf")) if file.holds(key) else None
    values: dict[str, Any] = {}
    if objects is not None and unit == "px":
        fits = objects.size and (objects.ndim == 3 or objects.shape[3:] == (1,))
        if not fits or not 0 <= image[0] < len(objects):
            raise FileError(f"{key} has shape {objects.shape}; must be (I, M, M), with object {image[0]}")
        truth = objects[image[0]].reshape(objects.shape[1:3]).astype(np.complex64)
        row, col = np.array(truth.shape) / 2 - N // 2
        values = {"object": truth, "object_centre_m": (float(row), float(col))}
    return Placement(positions[rows], unit, rows, values)


def _run_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    placement = read_rows(file, "positions", options, source.counts, unit="px")
    image = read_whole(file, "image", source.counts, needed=True)
    assert image is not None
    return _of_first_object(file, placement.positions, placement.unit, image, "objects", source)


GRID_LINES = Layout(
    name="grid_lines",
    detect=lambda file: file.holds("format", "amplitudes", "positions", "image"),
    patterns=("amplitudes",),
    domain="amplitude",
    zero_frequency="centre",
    probe=("probe",),
    masks={"good": "good"},
    positions=_run_positions,
    options=("unit",),
)


class Channels(View):
    """Patterns ``(G·C, N, N)`` of a member ``(G, N, N, C)``, read as ``groups (G, N, N·C)``."""

    def __init__(self, groups: NpzPatterns, channels: int) -> None:
        G, N, _ = groups.shape
        super().__init__(groups, (G * channels, N, N))
        self.channels = channels

    def fill(self, first: int, into: np.ndarray) -> None:
        stop, C, N = first + len(into), self.channels, self.shape[1]
        groups = self.source.read(slice(first // C, -(-stop // C)))
        patterns = groups.reshape(-1, N, N, C).transpose(0, 3, 1, 2).reshape(-1, N, N)
        into[:] = patterns[first % C :][: len(into)]


def _channels(file: Archive) -> Patterns:
    """Return the patterns of a published test split."""
    assert isinstance(file, NpzArchive)
    header = file.header("diffraction", "fiu")
    if len(header.shape) != 4 or 0 in header.shape or header.shape[1] != header.shape[2] or header.fortran:
        order = "Fortran order" if header.fortran else f"shape {header.shape}"
        raise FileError(f"diffraction has {order}; must be (G, N, N, C), in C order")
    G, N, _, C = header.shape
    file.notes.append(f"patterns: diffraction {header.shape} of {header.dtype}")
    return Channels(NpzPatterns(file.path, replace(header, shape=(G, N, N * C))), C)


def _published_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    if file.holds("YY_full") and not file.holds("YY_ground_truth"):
        raise FileError(
            "is a training split of the published program (YY_full without YY_ground_truth): its patterns "
            "are shuffled and coords_offsets is not, so that they have no positions; use its test.npz"
        )
    assert isinstance(source, Channels)
    (count, N, _), C = source.shape, source.channels
    wanted = (count // C, 1, 2, C)
    middles = read_array(file, "coords_offsets")
    if middles is None or middles.shape != wanted:
        shape = None if middles is None else middles.shape
        raise FileError(f"coords_offsets has shape {shape}; must be (G, 1, 2, C) = {wanted}")
    listed = middles[:, 0].transpose(0, 2, 1)  # (G, C, 2)
    whole = file.entry("YY_full")
    if whole is not None and whole.shape:
        images = whole.shape[0]
        if not images or len(listed) % images:
            raise FileError(f"YY_full has shape {whole.shape}: its images do not share {len(listed)} groups")
    else:  # as often as the list has its first position in a row
        same = np.all(listed == listed[:1], axis=(1, 2))
        images = 1 if same.all() or len(listed) % int(np.argmin(same)) else int(np.argmin(same))
    if np.array_equal(np.repeat(listed[::images], images, axis=0), listed):
        listed = np.concatenate([listed[::images]] * images)
    elif whole is None:
        images = 1
    positions = listed.reshape(-1, 2) - (N - 1) / 2
    file.notes.append("positions are those of the middles of the patches, less (N - 1)/2")
    image = np.repeat(np.arange(images), len(positions) // images)
    return _of_first_object(file, positions, "px", image, "YY_full", source)


PUBLISHED = Layout(
    name="published_grid_lines",
    detect=lambda file: file.holds("diffraction", "coords_offsets"),
    patterns=_channels,
    domain="amplitude",
    zero_frequency="centre",
    probe=("probeGuess",),
    positions=_published_positions,
    options=(),
)
