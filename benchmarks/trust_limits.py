#!/usr/bin/env python3
"""Are wrong images flagged? Scans of photographs, half of which are damaged.

    python benchmarks/trust_limits.py                every cell without a result, into outputs/trust_limits
    python benchmarks/trust_limits.py --only shuffled    cells whose names contain this text
    python benchmarks/trust_limits.py --late    each scan aligned as it is, and with its frames late by one

Patterns are those of ``photographs.py``, without our simulator. One edit (``HARMLESS``, ``HARMFUL``) changes
the measurement or its file, and the workflow for measured scans runs with default settings. A row has flags
and scores of the product, and its true relative error. The limits of ``ptycho.evaluation.trust`` were chosen
on the objects and probes of the cells whose names begin with *set*; those of *check* are others. A cell with
a result is not run again.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks import parser
from benchmarks.photographs import (
    defocused,
    error_of,
    far_intensity,
    object_of,
    probe_of,
    raster,
    second_mode,
    side_of,
)
from benchmarks.study import framework
from benchmarks.tables import markdown
from ptycho.align.aligned import RunContext, read
from ptycho.align.initial_probe import check_probe
from ptycho.align.orientation import find_frame_offset
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation import dataset as preparation
from ptycho.report.wording import advice_of
from ptycho.run.folder import RunFolder
from ptycho.run.scan_plan import interpret_scan, plan
from workflows.reconstruct.scan import run

N = 64
BAD, GOOD = 0.5, 0.15  # relative error of an image that must be flagged, and of one that must not
UNIT = 0.037  # amplitude of one photon in files whose unit is not the photon
PARTS = {
    "set": (("a", "lens"), ("c", "zone_plate"), ("e", "electron")),
    "check": (("b", "electron"), ("leaves", "lens"), ("d", "zone_plate")),
}


class Cell(NamedTuple):
    """A scan: part, object, probe, photons per pattern, step (px), edit, and the form of its frames."""

    part: str
    object: str
    probe: str
    photons: float
    step: int
    edit: str
    form: str

    @property
    def name(self) -> str:
        return (
            f"{self.part} {self.edit} {self.form} {self.object} {self.probe} {self.photons:.0e} {self.step}"
        )

    @property
    def stored(self) -> framework.Cell:
        return framework.Cell(name=self.name.replace(" ", "_"), settings=self._asdict())


@dataclass
class Scene:
    """A measurement and the content of its file; edits change either.

    ``photons``: mean of a pattern; ``true``, ``nominal``: positions ``(J, 2)`` px; ``frames``: ``(J, N, N)``.
    """

    rng: np.random.Generator
    object: np.ndarray
    probe: np.ndarray
    initial_probe: np.ndarray
    true: np.ndarray
    nominal: np.ndarray
    photons: float
    modes: list[np.ndarray] = field(default_factory=list)
    intensity: Callable[[np.ndarray], np.ndarray] = lambda rate: rate
    frames: np.ndarray = field(default_factory=lambda: np.zeros(0))
    domain: str = "counts"
    good: np.ndarray | None = None


Edit = Callable[[Scene], None]


def nothing(scene: Scene) -> None:
    pass


# ---- edits before the measurement


def more_photons(scene: Scene, factor: float) -> None:
    scene.photons *= factor


def contrast(scene: Scene, power: float) -> None:
    scene.object = np.abs(scene.object) ** power * np.exp(1j * power * np.angle(scene.object))


def out_of_focus(scene: Scene) -> None:
    scene.initial_probe = defocused(scene.initial_probe, 25)


def other_probe(scene: Scene) -> None:
    rows, cols = np.indices((N, N)) - N // 2
    scene.initial_probe = np.exp(-(rows**2 + cols**2) / (2 * 3.0**2)) + 0j


def two_modes(scene: Scene) -> None:
    scene.modes = [second_mode(scene.probe, 0.16)]


def misplaced(scene: Scene, pixels: float) -> None:
    true = scene.true + scene.rng.normal(0, pixels / np.sqrt(2), scene.true.shape)
    scene.true = np.clip(true, 0, len(scene.object) - N - 1)


def scaled(scene: Scene, factor: float) -> None:
    scene.nominal = factor * scene.nominal


def drifting(scene: Scene) -> None:
    """Let the stage drift by 25 px from the nominal positions."""
    scene.nominal = scene.nominal + np.linspace(0, 25, len(scene.nominal))[:, None] * [0.3, -1]


def exchanged(scene: Scene) -> None:
    scene.nominal = scene.nominal[:, ::-1]


def there_and_back(scene: Scene) -> None:
    """Scan every second line backwards, while the nominal positions run forwards."""
    side = round(np.sqrt(len(scene.nominal)))
    lines = scene.nominal.reshape(side, side, 2).copy()
    lines[1::2] = lines[1::2, ::-1]
    scene.nominal = lines.reshape(-1, 2)


def first(scene: Scene, count: int) -> None:
    middle = np.linalg.norm(scene.true - np.median(scene.true, axis=0), axis=1)
    chosen = np.sort(np.argsort(middle)[:count])
    scene.true, scene.nominal = scene.true[chosen], scene.nominal[chosen]


def background(scene: Scene, counts: float) -> None:
    scene.intensity = lambda rate: rate + counts


def flickering(scene: Scene) -> None:
    factors = 1 + 0.05 * scene.rng.standard_normal(len(scene.true))
    scene.intensity = lambda rate: rate * factors[:, None, None]


def blurred(scene: Scene) -> None:
    scene.intensity = lambda rate: gaussian_filter(rate, (0, 2.5, 2.5), mode="wrap")


def only_noise(scene: Scene) -> None:
    scene.intensity = lambda rate: np.broadcast_to(rate.mean(), rate.shape)


def nothing_scanned(scene: Scene) -> None:
    """Measure without an object in the beam."""
    scene.intensity = lambda rate: np.broadcast_to(rate.mean(axis=0), rate.shape)


# ---- edits of the frames


def late(scene: Scene) -> None:
    scene.frames = np.roll(scene.frames, 1, axis=0)


def shuffled(scene: Scene) -> None:
    scene.frames = scene.rng.permutation(scene.frames)


def rolled(scene: Scene) -> None:
    scene.frames = np.roll(scene.frames, (3, 2), (1, 2))


def mirrored(scene: Scene) -> None:
    scene.frames = np.roll(scene.frames[:, ::-1], 1, axis=1)


def some_brighter(scene: Scene) -> None:
    chosen = scene.rng.choice(len(scene.frames), len(scene.frames) // 10, replace=False)
    scene.frames[chosen] = scene.frames[chosen] * 3


def stuck(scene: Scene) -> None:
    """Repeat every fourth frame four times, each with other noise, as a stuck camera does."""
    rate = scene.frames[4 * (np.arange(len(scene.frames)) // 4)]
    scene.frames = rate + scene.rng.integers(0, 2, rate.shape).astype(rate.dtype)


def squared(scene: Scene) -> None:
    """Store intensities as amplitudes, or amplitudes as intensities."""
    scene.domain = "intensity" if scene.domain == "amplitude" else "amplitude"
    scene.frames = scene.frames.astype(np.float64) * (0.37 if scene.domain == "amplitude" else 1.0)


def logarithm(scene: Scene) -> None:
    scene.frames, scene.domain = np.log1p(scene.frames.astype(float)), "intensity"


def saturated(scene: Scene) -> None:
    scene.frames = np.minimum(scene.frames, scene.frames.max() / 10)


def stopped(scene: Scene) -> None:
    """Hide the beam by a beam stop that the file does not mention."""
    scene.frames[:, 26:38, 26:38] = 0


def dead(scene: Scene) -> None:
    scene.good = scene.rng.uniform(size=(N, N)) > 0.03
    scene.frames[:, ~scene.good] = 0


HARMLESS: dict[str, tuple[Edit, Edit]] = {
    "nothing": (nothing, nothing),
    "high dose": (partial(more_photons, factor=100), nothing),
    "low dose": (partial(more_photons, factor=0.1), nothing),
    "weak": (partial(contrast, power=0.2), nothing),
    "strong": (partial(contrast, power=2.5), nothing),
    "probe a little off": (out_of_focus, nothing),
    "two modes": (two_modes, nothing),
    "positions a little off": (partial(misplaced, pixels=0.7), nothing),
    "dead pixels": (nothing, dead),
    "30 patterns": (partial(first, count=30), nothing),
    "flickering": (flickering, nothing),
    "faint background": (partial(background, counts=0.5), nothing),
}
HARMFUL: dict[str, tuple[Edit, Edit]] = {
    "late": (nothing, late),
    "shuffled": (nothing, shuffled),
    "positions x 1.3": (partial(scaled, factor=1.3), nothing),
    "positions x 1.2": (partial(scaled, factor=1.2), nothing),
    "positions x 0.8": (partial(scaled, factor=0.8), nothing),
    "noise": (only_noise, nothing),
    "no object": (nothing_scanned, nothing),
    "squared": (nothing, squared),
    "background 50": (partial(background, counts=50), nothing),
    "3 patterns": (partial(first, count=3), nothing),
    "other probe": (other_probe, nothing),
    "axes exchanged": (exchanged, nothing),
    "some brighter": (nothing, some_brighter),
    "rolled": (nothing, rolled),
    "mirrored": (nothing, mirrored),
    "stuck": (nothing, stuck),
    "misplaced": (partial(misplaced, pixels=8), nothing),
    "there and back": (there_and_back, nothing),
    "drifting": (drifting, nothing),
    "dark": (partial(more_photons, factor=3e-4), nothing),
    "blurred": (blurred, nothing),
    "beam stop": (nothing, stopped),
    "logarithm": (nothing, logarithm),
    "saturated": (nothing, saturated),
}
EDITS = HARMLESS | HARMFUL


def cells() -> Iterator[Cell]:
    """Yield every edit in both parts, with counts in one and amplitudes in the other; then unedited scans."""
    for part, pairs in PARTS.items():
        for k, edit in enumerate(EDITS):
            form = ("counts", "amplitudes")[(k + (part == "check")) % 2]
            turn = k + 2 * (form == "amplitudes") + (part == "check")
            (name, probe), photons = pairs[turn % 3], (1e5, 1e6)[turn // 3 % 2]
            step = (8, 7, 9)[turn % 3] if edit in HARMLESS else (9, 10, 11)[turn % 3]
            yield Cell(part, name, probe, photons, step, edit, form)
        for name, probe in pairs:
            yield Cell(part, name, probe, 1e6, 14, "nothing", "counts")
            yield Cell(part, name, probe, 1e6, 9, "nothing", "clean")
            yield Cell(part, name, probe, 1e5, 10, "nothing", "camera")


def scene_of(cell: Cell) -> Scene:
    """Return the scan of a cell as it is measured and stored."""
    rng, probe = np.random.default_rng(5), probe_of(cell.probe, N)
    positions = raster(cell.step, max(8, -(-80 // cell.step)), np.random.default_rng(cell.step))
    object_ = object_of(cell.object, side_of(positions, N))
    scene = Scene(rng, object_, probe, probe, positions, positions, cell.photons)
    before, after = EDITS[cell.edit]
    before(scene)
    intensity = sum(far_intensity(scene.object, mode, scene.true) for mode in (scene.probe, *scene.modes))
    rate = scene.intensity(intensity * scene.photons / intensity.sum(axis=(1, 2)).mean())
    scene.frames, scene.domain = measured(rate, cell.form, rng)
    after(scene)
    return scene


def measured(rate: np.ndarray, form: str, rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """Return frames ``(J, N, N)`` and their domain.

    counts: photons; amplitudes: in an unknown unit, with normal noise; clean: the same without noise;
    camera: intensities with an unknown gain and read noise.
    """
    if form == "counts":
        return rng.poisson(rate).astype(np.uint32), "counts"
    if form == "camera":
        return 0.37 * rng.poisson(rate) + rng.normal(0, 0.2, rate.shape), "intensity"
    noise = rng.normal(0, 0.5, rate.shape) if form == "amplitudes" else 0.0
    return UNIT * np.maximum(np.sqrt(rate) + noise, 0), "amplitude"


def write(scene: Scene, path: Path) -> DataConfig:
    """Write the file of a scan, and return the keys that read it."""
    middle = scene.nominal + N // 2
    arrays = {
        "diff3d": scene.frames if scene.domain == "counts" else scene.frames.astype(np.float32),
        "xcoords": middle[:, 1],
        "ycoords": middle[:, 0],
        "probeGuess": scene.initial_probe.astype(np.complex64),
    }
    np.savez(path, **arrays)
    mask = None
    if scene.good is not None:
        mask = path.with_name("mask.npy")
        np.save(mask, ~scene.good)
    return DataConfig(file=str(path), domain=scene.domain, mask_file=None if mask is None else str(mask), N=N)


def evaluate(cell: Cell) -> dict[str, object]:
    began, scene = time.perf_counter(), scene_of(cell)
    row: dict[str, object] = {"cell": cell.name, "part": cell.part, "edit": cell.edit, "form": cell.form}
    row["patterns"] = len(scene.nominal)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            config = plan(ScanRunConfig(data=write(scene, folder / "scan.npz")))
            metrics, recons = run(config, RunFolder(folder / "run"))
        except ConfigError as error:
            return row | {"error": None, "flags": ["refused"], "why": str(error)}
        product = metrics["product"]
        recon = recons[product]
        row |= {"error": true_error(recon, scene), **metrics[product]}
        row["half_scan_frc"] = metrics["half_scan_frc"]
        row["decided"] = {key: value[0] for key, value in metrics["findings"].items()}
    return row | {"seconds": time.perf_counter() - began}


def true_error(recon, scene: Scene) -> float:
    """Return the relative error of the object where the scan illuminates it."""
    image = recon.object
    if not np.isfinite(image).all():
        return np.inf
    # the corner of the image in the true object
    corner = np.floor(scene.nominal.min(axis=0)).astype(int) - preparation.MARGIN
    whole = np.pad(scene.object, len(image), mode="edge")
    rows, cols = (slice(len(image) + k, 2 * len(image) + k) for k in corner)
    return error_of(image, whole[rows, cols], recon.beam.positions, scene.probe)


def outcome(row: dict) -> str:
    """Return ``true positive``, ``false negative``, …; ``–`` for an error between the limits."""
    flagged = "refused" in row["flags"] or any(advice.wrong for advice in advice_of(row))
    if row["error"] is None:
        return "true positive"
    if row["error"] > BAD:
        return "true positive" if flagged else "false negative"
    if row["error"] < GOOD:
        return "false positive" if flagged else "true negative"
    return "–"


def line(row: dict) -> dict[str, str]:
    """Return a row of the table."""
    scores = {"relative error": row["error"], "unexplained variance": row.get("unexplained_variance")}
    shown = {name: "–" if value is None else f"{value:.3f}" for name, value in scores.items()}
    return {"cell": row["cell"]} | shown | {"flags": ", ".join(row["flags"]), "outcome": outcome(row)}


def summary(rows: list[dict]) -> str:
    """Count wrong images that are flagged and right ones that are not, by part and by form of the frames."""
    lines = []
    for part in PARTS:
        for what, forms in {"counts": ("counts",), "no counts": ("amplitudes", "clean", "camera")}.items():
            kinds = [outcome(row) for row in rows if row["part"] == part and row["form"] in forms]
            flagged, missed = kinds.count("true positive"), kinds.count("false negative")
            right, alarms = kinds.count("true negative"), kinds.count("false positive")
            counts = {
                "wrong, flagged": f"{flagged} of {flagged + missed}",
                "right, not flagged": f"{right} of {right + alarms}",
            }
            lines.append({"scans": f"{part}, {what}"} | counts | {"between": kinds.count("–")})
    return markdown(lines)


def claim(cell: Cell, is_late: bool) -> str:
    """Return the offset that is found in a scan, ``none``, or ``refused``."""
    scene = scene_of(cell)
    if is_late:
        late(scene)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            config = ScanRunConfig(data=write(scene, folder / "scan.npz"))
            aligned = check_probe(read(interpret_scan(config.data), config, RunContext(folder)))
        except ConfigError:
            return "refused"
        found = find_frame_offset(aligned.data, aligned.scan.frames)
        return "none" if found is None else str(found[0])


def find_offsets() -> None:
    """Are frames that are late by one found, and only these? Nothing is fitted to the end."""
    rows = []
    for cell in cells():
        if cell.edit in ("late", "stuck"):  # stuck frames are late already
            continue
        kind = "right" if cell.edit in HARMLESS else "damaged"
        rows.append((kind, cell.name, claim(cell, False), claim(cell, True)))
        print(*rows[-1], sep=" | ", flush=True)
    table = []
    for kind in ("right", "damaged"):
        claims = [row[2:] for row in rows if row[0] == kind]
        counts = [sum(claim[k] == value for claim in claims) for k, value in enumerate(("none", "-1"))]
        shown = {"as they are: no claim": counts[0], "late: found": counts[1]}
        table.append({"scans": kind, "number": len(claims)} | shown)
    print(markdown(table))


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--only", default="", help="cells whose names contain this text")
    options_of.add_argument(
        "--late", action="store_true", help="only: are frames that are late by one found?"
    )
    options = options_of.parse_args()
    chosen = [cell for cell in cells() if options.only in cell.name]
    logging.disable(logging.WARNING)
    if options.late:
        return find_offsets()
    store = framework.Store(Path("outputs/trust_limits"))
    for cell in chosen:
        if store.due([cell.stored]):
            store.keep(cell.stored, evaluate(cell))
        print(markdown([line(store.result(cell.stored))]).splitlines()[-1], flush=True)
    rows = [row for cell in cells() if (row := store.result(cell.stored)) is not None]
    store.text("results.md", f"{summary(rows)}\n\n{markdown(list(map(line, rows)))}\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
