"""CXI 1.x (CXIDB), as cdtools, PyNX and the ALS use it for ptychography.

=============================== ======================= ======================================================
under ``entry_1``
=============================== ======================= ======================================================
``data_1/data``                 (J, H, W)               intensities, as on the detector; or in ``detector_1``
``…/translation``               (J, 3) metres           **the sample's** (x, y, z); in ``data_1``,
                                                        ``sample_1/geometry_1`` or ``detector_1``
``detector_1/distance``         metres                  ``detector_1``, ``source_1`` are in ``instrument_1``
``detector_1/{x,y}_pixel_size`` metres
``detector_1/basis_vectors``    (2, 3), (3, 2) metres   step of a row, and of a column, of the detector
``detector_1/mask``             (H, W) bits             0 and 0x1000 (has signal) are good
``detector_1/data_dark``        (n, H, W) or (H, W)
``source_1/energy``             joule                   or ``source_1/wavelength``, metres; that of electrons
                                                        where ``source_1/probe`` is the word
``source_1/illumination``       (…, h, w)               probe; or ``source_1/probe``, ``detector_1/probe``
``image_1/data``                (h, w) complex          object; where this is the probe, ``image_2/data``
=============================== ======================= ======================================================

Signs: where the sample goes, the probe goes the other way over the object. Rows and columns are along the
basis vectors; without them, down (−y) and to the right as the beam sees it (−x), as cdtools has it: the row
is the sample's y, the column its x. A ``units`` attribute is believed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.cxi_parts import BASIS, DETECTOR, TRANSLATIONS, basis_of, described, translation
from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import centre_of, frame_of, good_of, only, scan
from ptycho.readers.scans.hdf5_values import pair, plain
from ptycho.readers.scans.quantities import PIXEL
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import place

NAME = "cxi"
PATTERNS = ("entry_1/data_1/data", f"{DETECTOR}/data")


def detect(file: h5py.File) -> bool:
    return any(has(file, key) for key in PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; positions may be in a second one.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "axes", "positions_file")
    with opened(path, options.stated) as file:
        source = patterns(file, file.need("patterns", *PATTERNS))
        values = _values(file, source)
        if options.positions_file:
            placed = place(file, options, source, values)
            source, positions = placed if placed is not None else (source, None)
        else:
            count = None if source is None else source.shape[0]
            positions = translation(file, options, count, TRANSLATIONS, BASIS)
        return scan(file, NAME, source, positions, values)


def _values(file: Hdf5File, source: Hdf5Patterns | None) -> dict[str, Any]:
    centre = plain(file, f"{DETECTOR}/beam_center_y"), plain(file, f"{DETECTOR}/beam_center_x")
    return described(file) | {
        "domain": domain_of(file, source, "intensity"),
        "zero_frequency": centre_of(file, centre, source),
        "detector_pixel_m": pair(file, PIXEL, "m", f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size")
        or _steps(file),
        "good": good_of(file, f"{DETECTOR}/mask", "cxi"),
        "dark": frame_of(file, f"{DETECTOR}/data_dark"),
    }


def _steps(file: Hdf5File) -> tuple[float, float] | None:
    """(row, col) pitch of the detector from its basis vectors."""
    vectors = basis_of(file, BASIS)
    if vectors is None:
        return None
    row, col = np.linalg.norm(vectors, axis=1)
    return float(row), float(col)
