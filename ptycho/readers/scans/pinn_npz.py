"""NPZ files of the published PtychoPINN program (hoidn/PtychoPINN), and of ptychodus' export for it.

=========================== ======================== =====================================================
``diff3d``                  (J, H, W)                patterns; zero frequency in the centre. The program's
                                                     specification says amplitudes (√counts), unprepared
                                                     files hold counts, ptychodus exports intensities
``diffraction``             (J, H, W), **(H, W, J)** the same in prepared and older files: amplitudes
``xcoords``, ``ycoords``    (J,)                     column and row of the probe's centre in pixels of the
                                                     object, from its corner
``xcoords_start``, …        (J,)                     where it was sent; used if the others are missing
``bad_pixels``              (H, W)                   **True where a pixel does not count**
``probeGuess``              (H, W), (K, H, W),       probe
                            (H, W, 1)
``objectGuess``             (h, w)                   object
``scan_index``              (J,)                     which scan a pattern belongs to
``scale_contract_version``, text                     ``ci_intensity_v2`` with ``count_intensity``, or
``measurement_domain``                               ``legacy_v1`` with ``normalized_amplitude``
``_metadata``               JSON                     not read; older files hold it as a Python object
=========================== ======================== =====================================================

Signs: probe positions, increasing with the object's column and row. Where there is an object, positions are
given from its middle, the place ``(h/2, w/2)`` in its array. Positions that all lie within ``METRES`` of each
other cannot be pixels: loaders exist that write metres under these names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptycho.files.npz import Archive, NpzError
from ptycho.readers.scans.domain import told_domain
from ptycho.readers.scans.npz_arrays import Arrays, flattened, only, opened, order_of, places
from ptycho.readers.scans.npz_patterns import NpzPatterns
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions

NAME = "ptychopinn"
PATTERNS = ("diff3d", "diffraction")
POSITIONS = (("ycoords", "xcoords"), ("ycoords_start", "xcoords_start"))
CONTRACTS = {
    ("ci_intensity_v2", "count_intensity"): "counts",
    ("legacy_v1", "normalized_amplitude"): "amplitude",
}
METRES = 0.05


def detect(archive: Archive) -> bool:
    keys = set(archive.keys)
    return bool(keys & set(PATTERNS)) and any(keys & set(pair) for pair in POSITIONS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit")
    with opened(path) as arrays:
        key = next((key for key in PATTERNS if key in arrays), PATTERNS[0])
        positions, unit = _positions(arrays, key, options)
        header = flattened(arrays.header(key))
        patterns = NpzPatterns(path, header, order_of(header, len(positions), arrays.warnings))
        domain = _domain(key, patterns, arrays)
        object_ = arrays.object("objectGuess")
        centred = object_ is not None and unit == "px"
        if object_ is not None and centred:
            positions = positions - np.array(object_.shape) / 2
            arrays.notes.append("positions are given from the middle of objectGuess")
        return RawScan(
            format=NAME,
            patterns=patterns,
            domain=domain,
            zero_frequency="centre",
            positions=positions,
            unit=unit,
            good=_good(arrays, patterns.shape[1:]),
            probe=arrays.probe("probeGuess"),
            object=object_,
            object_centre_m=(0.0, 0.0) if centred else None,
            scan_index=_scan_index(arrays, len(positions)),
            notes=(f"patterns are {key} {header.shape}", *arrays.notes),
            warnings=tuple(arrays.warnings),
        )


def _positions(arrays: Arrays, key: str, options: ReadOptions) -> tuple[np.ndarray, str]:
    """``(J, 2)`` as the file has them, (row, col), and their unit."""
    names = POSITIONS[0] if any(name in arrays for name in POSITIONS[0]) else POSITIONS[1]
    arrays.require([key, *names])
    positions = places(arrays.finite(names[0]), arrays.finite(names[1]), names)
    if "_metadata" in arrays:
        arrays.notes.append("_metadata is not read")
    return positions, options.unit or _unit(positions, names, arrays)


def _unit(positions: np.ndarray, names: tuple[str, str], arrays: Arrays) -> str:
    span = float(np.ptp(positions, axis=0).max())
    if len(positions) > 1 and 0 < span < METRES:
        arrays.notes.append(
            f"{', '.join(names)} span {span:.3g}: taken as metres, not as pixels; data.unit=px says otherwise"
        )
        return "m"
    arrays.notes.append(f"{', '.join(names)} span {span:.4g}: pixels of the object, as the format says")
    return "px"


def _domain(key: str, patterns: NpzPatterns, arrays: Arrays) -> str | None:
    """By the file's contract, by the numbers, by the name ``diffraction``; else None."""
    contract = _text(arrays, "scale_contract_version"), _text(arrays, "measurement_domain")
    if contract in CONTRACTS:
        arrays.notes.append(f"{CONTRACTS[contract]}: measurement_domain is {contract[1]}")
        return CONTRACTS[contract]
    if contract != (None, None):
        said = f"scale_contract_version={contract[0]}, measurement_domain={contract[1]}"
        arrays.warnings.append(f"{said}: no pair that is known; not heeded")
    domain, reason = told_domain(patterns.dtype, patterns.blocks(), key)
    if domain is None:
        reason += f"; {key} is the amplitude by PtychoPINN's rules, the intensity in ptychodus' export"
    arrays.notes.append(f"{domain or 'domain unknown'}: {reason}")
    return domain


def _text(arrays: Arrays, key: str) -> str | None:
    """A short text in an array without axes."""
    if key not in arrays:
        return None
    try:
        header = arrays.archive.header(key, "U")
    except (NpzError, KeyError):  # KeyError: a dtype that Archive has no word for
        return None
    short = header.shape == () and 0 < header.dtype.itemsize < 1000
    return str(arrays.archive.read(header)) if short else None


def _good(arrays: Arrays, shape: tuple[int, ...]) -> np.ndarray | None:
    """``(H, W)``, or None with a note."""
    bad = arrays.offered("bad_pixels", "bfiu")
    if bad is None or bad.shape == shape:
        return None if bad is None else bad == 0
    arrays.notes.append(f"bad_pixels {bad.shape} is passed over: must be {shape}, that of a pattern")
    return None


def _scan_index(arrays: Arrays, count: int) -> np.ndarray | None:
    """``scan_index`` as integers, or None with a note."""
    index = arrays.offered("scan_index")
    if index is None:
        return None
    if index.shape != (count,) or not np.array_equal(index, np.rint(index)):
        arrays.notes.append(f"scan_index {index.shape} is passed over: must be ({count},) whole numbers")
        return None
    return index.astype(np.int64)
