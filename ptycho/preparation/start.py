"""The result of an earlier run: its file, and a reconstruction that begins from it (key ``start``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.config.sections import product_of
from ptycho.files.reading import FileError, parse_json, read_json
from ptycho.preparation.geometry import resampled_probe
from ptycho.preparation.prepare import ScanGeometry
from ptycho.readers.places import open_archive
from ptycho.readers.positions import Placement
from ptycho.readers.ptychodus import read_product
from ptycho.readers.raw_scan import ReadOptions
from ptycho.scan.finding import Finding
from ptycho.scan.positions import even_side
from ptycho.scan.probe import interpolated

PRODUCT, SOLVER = "product.h5", "solver: "
METRICS, RECONS = "metrics.json", "recons"
# findings whose values are keys, as typed
ORIENTED, FRAME_OFFSET, FINER_PIXELS = "orientation", "frame offset", "finer object pixels"
OUTLIERS, PATTERN_SHIFT = "outliers dropped", "pattern shift"


@dataclass(frozen=True, eq=False)
class Start:
    """An earlier result in the pixels of a scan.

    ``opr_modes (K', N, N)`` and ``opr_weights (J, K')`` are those of a probe that varies, the weights of
    frames that the earlier run did not use being zero; None: it does not.
    """

    object: np.ndarray  # ``(S, S)`` complex64; zero where the earlier run had none
    probe: np.ndarray  # modes ``(K, N, N)`` complex64, of any scale
    positions: np.ndarray  # ``(J, 2)`` float64, top-left samples on ``object`` of all frames in use
    finding: Finding  # what was taken
    model: Mapping[str, str] = field(default_factory=dict)  # what the solver selected; empty: unknown
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None


def read_start(path: str, scan: ScanGeometry) -> Start:
    """Return the result of a run's folder, or of a ``product.h5``, on the pixels and frames of a scan.

    Object and probe are resampled where the pixels differ by more than a thousandth. Frames that the earlier
    run did not use get positions by the affine map between nominal and earlier positions of the others.

    Raises:
        ConfigError: there is no result, or it does not fit the scan.
    """
    file = product_file(path)
    if not file.is_file():
        remedy = "name the folder of a finished run on a measured scan, or a product.h5"
        raise ConfigError(f"start={path}: there is no {file}; {remedy}")
    product = _product(path, file)
    ratio = _ratio(path, product, scan)
    image, probe = product.values["object"], product.values["probe"]
    if len(set(image.shape)) > 1:
        image = np.pad(image, [(0, max(image.shape) - side) for side in image.shape])
    before, side = len(image), even_side(int(np.ceil(len(image) * ratio)))
    middles = product.positions * ratio if product.unit == "px" else product.positions / scan.pixel.metres
    places = middles + np.array(product.values["object"].shape) / 2 * ratio
    if ratio != 1:
        image = interpolated(image[None], side, 1 / ratio)[0]
        places += side // 2 - before // 2 * ratio
    waves = probe if product.opr_modes is None else np.concatenate([probe, product.opr_modes])
    modes, _ = resampled_probe(waves, product.values.get("probe_pixel_m"), scan.pixel, scan.N)
    modes, varied = modes[: len(probe)], modes[len(probe) :]
    here, there = _common_frames(path, product, scan)
    corners = _of_all_frames(places - scan.N / 2, scan, here, there)
    outside = (corners < -scan.N / 2) | (corners > len(image) - scan.N / 2)
    if outside.any(axis=1).mean() > 0.5:
        raise ConfigError(
            f"start={path}: most patterns of this scan lie outside its object; is it of the same sample, "
            "in the same unit?"
        )
    resampled = "" if ratio == 1 else f", resampled to {ratio:.4g} times as many pixels"
    value = f"object, {len(modes)} mode{'s'[: len(modes) > 1]} of the probe, "
    value += f"OPR modes: {len(varied)}, " if len(varied) else ""
    value += f"positions of {len(here)} of {len(corners)} patterns{resampled}"
    finding = Finding("start", value, f"from {file}; the scan is not aligned again")
    names = _findings(file.parent)
    model = {name.removeprefix(SOLVER): value for name, value in names.items() if name.startswith(SOLVER)}
    start = Start(image.astype(np.complex64), modes, corners, finding, model)
    if product.opr_weights is None:
        return start
    weights = np.zeros((len(corners), len(varied)), np.complex64)
    weights[here] = product.opr_weights[there]
    return replace(start, opr_modes=varied, opr_weights=weights)


def product_file(path: str) -> Path:
    """Return the product of a run's folder, or the file itself."""
    return Path(path) / PRODUCT if Path(path).is_dir() else Path(path)


def find_product(run: Path) -> tuple[str, Path] | None:
    """Return name and file of a run's product."""
    try:
        metrics = read_json(run / METRICS)
    except (OSError, ValueError):  # not finished, or damaged: its files say what is there
        metrics = {}
    files = {path.parent.name: path for path in (run / RECONS).glob("*/recon.npz")}
    name = product_of(metrics, files)
    return (name, files[name]) if name else None


def _product(path: str, file: Path) -> Placement:
    with open_archive(file, ReadOptions()) as archive:
        product = read_product(archive, ReadOptions())
        archive.refuse()
        if not {"object", "probe"} <= product.values.keys():
            raise FileError("has no object, probe and positions of a reconstruction")
    for name in ("object", "probe"):
        if not np.any(product.values[name]):
            raise ConfigError(f"start={path}: its {name} is zero everywhere; name another run")
    return product


def _ratio(path: str, product: Placement, scan: ScanGeometry) -> float:
    """Return the object pixel of an earlier result over that of a scan; exactly one if they hardly differ."""
    theirs, ours = product.values.get("object_pixel_m"), scan.pixel.metres
    if theirs is None and ours is None:  # both are λz over what a pattern spans of the same detector
        return scan.N * scan.detector.bin / (product.side or scan.N * scan.detector.bin)
    if theirs is None or ours is None:
        who = "its object pixel is unknown" if theirs is None else "the object pixel of the scan is unknown"
        keys = " ".join(f"{key}=…" for key in scan.pixel.missing)
        remedy = f"; set {keys}" if keys else ""
        raise ConfigError(f"start={path}: {who}, that of the other is not{remedy}")
    ratios = np.array(theirs) / ours
    if abs(ratios[0] / ratios[1] - 1) > 0.01 or not 0.1 < ratios[0] < 10:
        raise ConfigError(
            f"start={path}: its object pixel is {theirs[0]:.4g} × {theirs[1]:.4g} m, that of the scan "
            f"{ours[0]:.4g} × {ours[1]:.4g} m"
        )
    return 1.0 if np.abs(ratios - 1).max() < 1e-3 else float(ratios[0])


def _common_frames(path: str, product: Placement, scan: ScanGeometry) -> tuple[np.ndarray, np.ndarray]:
    """Return where the frames that an earlier run had are among a scan's, and among its own."""
    ours = scan.frames if scan.raw.numbers is None else scan.raw.numbers[scan.frames]
    theirs = np.arange(len(product.positions)) if product.numbers is None else product.numbers
    _, here, there = np.intersect1d(ours, theirs, return_indices=True)
    if len(here) < 3:
        raise ConfigError(
            f"start={path}: has positions of frames {theirs.min()} to {theirs.max()}, and the scan uses "
            f"{ours.min()} to {ours.max()}: {len(here)} in common; must be at least 3"
        )
    return here, there


def _of_all_frames(
    corners: np.ndarray, scan: ScanGeometry, here: np.ndarray, there: np.ndarray
) -> np.ndarray:
    """Return corners ``(J, 2)`` of all frames of a scan, of those of an earlier run and of their map."""
    nominal = np.column_stack([scan.positions, np.ones(len(scan.positions))])
    positions = nominal @ np.linalg.lstsq(nominal[here], corners[there], rcond=None)[0]
    positions[here] = corners[there]
    return positions


def decided_reading(folder: Path, config: DataConfig) -> DataConfig:
    """Return the section ``data`` by which a run read its scan, which its alignment may have changed.

    A frame offset, a pattern shift and an N that ``config`` specifies stay.
    """
    findings = _findings(folder)
    open_keys = (PATTERN_SHIFT, config.pattern_shift), (FRAME_OFFSET, config.frame_offset)
    names = [name for name, value in (*open_keys, (FINER_PIXELS, config.N)) if value is None]
    names += [ORIENTED, OUTLIERS]  # later values of a key replace earlier ones
    words = " ".join(findings.get(name, "") for name in names).split()
    pairs = (word.removeprefix("data.").partition("=") for word in words if "=" in word)
    return replace(config, **{key: parse_json(value) for key, _, value in pairs})


def _findings(folder: Path) -> dict[str, str]:
    """Return the values of a run's findings by name; none if no file has them."""
    try:
        findings: Mapping[str, Any] = read_json(folder / METRICS).get("findings", {})
        return {name: str(value[0]) for name, value in findings.items()}
    except (OSError, ValueError, AttributeError, IndexError, TypeError):
        return {}
