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

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.cxi_parts import BASIS, DETECTOR, read_basis, read_description, read_translation
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.places import place_scan
from ptycho.readers.quantities import PIXEL
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import (
    check_centre,
    find_domain,
    read_frame,
    read_good,
    read_pair,
    read_plain,
)

NAME = "cxi"
PATTERNS = ("entry_1/data_1/data", f"{DETECTOR}/data")


def detect(file: Archive) -> bool:
    return any(file.holds(key) for key in PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; positions may be in a second one."""
    options.refuse_unused(path, NAME, "unit", "positions_file")
    with Hdf5Archive(path, options) as file:
        source = file.patterns(file.need("patterns", *PATTERNS))
        values = _values(file, source)
        return place_scan(
            file, NAME, options, source, values, lambda: read_translation(file, options, source)
        )


def _values(file: Archive, source: Patterns | None) -> dict[str, Any]:
    centre = (read_plain(file, f"{DETECTOR}/beam_center_{axis}") for axis in "yx")
    pitch = read_pair(file, PIXEL, "m", f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size")
    return read_description(file) | {
        "domain": find_domain(file, source, "intensity"),
        "zero_frequency": check_centre(file, source, *centre),
        "detector_pixel_m": pitch or _steps(file),
        "good": read_good(file, f"{DETECTOR}/mask", "cxi"),
        "dark": read_frame(file, f"{DETECTOR}/data_dark"),
    }


def _steps(file: Archive) -> tuple[float, float] | None:
    """(row, col) pitch of the detector from its basis vectors."""
    vectors = read_basis(file, BASIS)
    if vectors is None:
        return None
    row, col = np.linalg.norm(vectors, axis=1)
    return float(row), float(col)
