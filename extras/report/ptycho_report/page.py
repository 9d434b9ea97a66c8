"""A run as a page of one file: pictures, maps to be read out and charts, each with a sentence.

Every text is escaped, there is no request to anywhere, and a policy forbids both.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ptycho.config import ConfigError
from ptycho.config.memory import size_text
from ptycho.evaluation import scan_figures
from ptycho.evaluation.caustic import caustic, draw_caustic
from ptycho.evaluation.display import ORIENTATION, shrink
from ptycho.files.atomic import write_atomically
from ptycho.report.gather import GRID_LINES, number, section
from ptycho.report.wording import score_text, verdict_of
from ptycho.run import names
from ptycho.run.record import check_output, is_page
from ptycho_report.compare import group_entries
from ptycho_report.entries import Entry, differing
from ptycho_report.key_figures import key_figures, time_text
from ptycho_report.page_record import PageRecord
from ptycho_report.pictures import (
    GREY,
    HERO,
    MAGMA,
    Picture,
    colour_wheel,
    coloured,
    coloured_phase,
    coloured_wave,
    data_uri,
    figure_uri,
    palette_png,
    readable,
    shrink_phase,
)
from ptycho_report.scan_charts import Chart, charts_of, losses
from ptycho_report.stored_recon import StoredRecon, read_recon

TITLES = {"gt": "the truth"}  # of reconstructions
FIGURES = {
    "compare_amp_phase": "Truth, reconstructions and probe: amplitude above, phase below, with equal scales.",
    "frc_curves": "Ring correlation with the truth: good curves stay near one up to high frequencies.",
}


def view_of(record: PageRecord, product: StoredRecon | None = None) -> dict[str, Any]:
    """Return everything that is drawn of the scan of a run, for the template; what there is not is empty.

    ``product``: None: that in its folder, if there is one.
    """
    if product is None and record.product:
        product = read_recon(record.path, record.product)
    findings = [(what, *_pair(value)) for what, value in section(record.metrics, "findings").items()]
    decided = [one for one in findings if one[0].startswith("solver: ")]
    warnings, lines = record.metrics.get("warnings"), record.kind == GRID_LINES
    return {
        "name": record.scan,
        "product": record.product,
        "verdict": verdict_of(record),
        "figures": key_figures(record),
        "rows": record.rows,
        "findings": [one for one in findings if one not in decided],
        "decisions": [(what.removeprefix("solver: "), value, why) for what, value, why in decided],
        "warnings": warnings if isinstance(warnings, list) else [],
        "pictures": [*(_stored_figures(record) if lines else _drawn_again(record, product))],
        **dict.fromkeys(("amplitude", "maps", "modes", "others", "charts")),
        **({} if product is None else _drawn(record, product)),
    }


def _pair(value: object) -> tuple[str, str]:
    fits = isinstance(value, list) and len(value) == 2
    return (str(value[0]), str(value[1])) if fits else (str(value), "")  # type: ignore[index]


def _drawn(record: PageRecord, made: StoredRecon, side: int = 640, most: int = 500) -> dict:
    """What is drawn of the arrays of the product.

    ``side``, ``most``: pixels along the side of a map that is read out, and residues that are marked.
    """
    picture = picture_of(made)
    amplitude, phase, grey, colour = picture.amplitude, picture.phase, picture.grey, picture.colour
    pixel = 1e9 * record.pixel_m[1] if record.pixel_m else None
    title = ", ".join(filter(None, ("phase", phase.kind)))
    maps = [
        readable("amplitude", amplitude, grey, GREY, "", side),
        readable(title, shrink_phase(phase, side)[0], colour, phase.colours, "rad", side),
    ]
    for name, unit in (("sigma_amplitude", ""), ("sigma_phase", "rad")):
        if (sigma := getattr(made, name)) is not None:
            values = np.where(made.illuminated, sigma, np.nan)[scan_figures.box_of(made.illuminated)]
            title = f"σ of the {name.removeprefix('sigma_')}"
            maps.append(readable(title, values, scan_figures.ends_of(values), MAGMA, unit, side // 2))
    for k, one in enumerate(() if made.slices is None else made.slices):
        shown = picture_of(replace(made, object=one))
        values, title = shrink_phase(shown.phase, side // 2)[0], f"phase of slice {k}"
        maps.append(readable(title, values, shown.colour, shown.phase.colours, "rad", side // 2))
    return {
        "amplitude": coloured(amplitude, grey, GREY, "", pixel, picture.pixels),
        "phase": coloured_phase(phase, colour, pixel, picture.pixels),
        "phase_note": " ".join(filter(None, (phase.note, _residue_note(len(picture.residues), most)))),
        "residues": np.add(picture.residues[:most], (0.5, 0.5, 0)) / (*picture.amplitude.shape, 1),
        "maps": maps,
        "map_pixel_nm": pixel and pixel * picture.pixels * amplitude.shape[1] / maps[0].width,
        "modes": [*_modes(made, pixel)],
        "wheel": "" if made.probe is None else colour_wheel(),
        "others": [*_others(record, picture)],
        "charts": [*charts_of(record, made)],
    }


def _residue_note(count: int, most: int) -> str:
    """Return a sentence on the residues of the phase; empty where there are none."""
    if not count:
        return ""
    marked = "" if count <= most else f", {most} of them marked"
    return f"It has {count} residue{'s'[: count != 1]} (phase vortices{marked}): white +, black −."


def picture_of(made: StoredRecon) -> scan_figures.Picture:
    """Return a stored reconstruction as it is drawn."""
    probe = np.ones((1, 1)) if made.probe is None else made.probe[0]
    return scan_figures.Picture.of(made.object, made.mask, made.illuminated, probe)


def _modes(made: StoredRecon, pixel_nm: float | None, most: int = 6) -> Iterator[tuple[Picture, str, float]]:
    """The waves of the probe: the picture of each, its name, and its share of the power."""
    if made.probe is None:
        return
    power = np.sum(np.abs(made.probe) ** 2, axis=(1, 2), dtype=float)
    for k, (wave, part) in enumerate(zip(made.probe[:most], power, strict=False)):
        yield coloured_wave(wave, pixel_nm), f"mode {k + 1}", float(part / max(power.sum(), 1e-300))


def _others(record: PageRecord, product: scan_figures.Picture) -> Iterator[Chart]:
    """The other reconstructions of the scan, amplitude and phase, with the scales of the product."""
    for name in record.recons:
        reconstruction = read_recon(record.path, name) if name != record.product else None
        if reconstruction is None:
            continue
        title, side = TITLES.get(name, name), HERO // 2
        picture = picture_of(reconstruction).in_scale_of(product)
        amplitude, phase = shrink(picture.amplitude, side)[0], shrink_phase(picture.phase, side)[0]
        yield Chart(f"{title}: amplitude", palette_png(amplitude, picture.grey, GREY))
        title = ", ".join(filter(None, (f"{title}: phase", picture.phase.kind)))
        yield Chart(title, palette_png(phase, picture.colour, picture.phase.colours))


def _drawn_again(record: PageRecord, made: StoredRecon | None) -> Iterator[Chart]:
    """The probe through its focus, and how it varies, drawn as in the folder of the run."""
    if made is None or made.probe is None:
        return
    wavelength, pixel = number(section(record.row, "probe_focus").get("wavelength_m")), record.pixel_m
    known = wavelength and pixel and 1e-13 < wavelength <= 2 * min(pixel) and max(pixel) < 1e-3
    if wavelength and pixel and known and made.probe[0].any():
        focus = caustic(made.probe[0], wavelength, pixel)
        caption = (
            "Intensity of the strongest probe mode along the beam, around the sample, in two cuts. A good "
            "focus is one narrow waist. If it is elsewhere in the other cut, the optic is astigmatic."
        )
        yield Chart("probe_caustic", figure_uri(draw_caustic(focus, f"{record.product}: probe")), caption)
    if made.opr_modes is None or made.opr_weights is None:
        return
    varied = made.probe[0], made.opr_modes, made.opr_weights
    figure = scan_figures.draw_variation(*varied, record.pixel_m, "Variation of the probe")
    caption = (
        "The first mode of the probe in the first and the last pattern, the OPR modes by which it varies, "
        "and their weights over the scan. A slow drift comes from the optics or the source; a step is a "
        "change of the beam. Noise alone means that the probe hardly varies."
    )
    yield Chart("probe_variation", figure_uri(figure), caption)


def _stored_figures(record: PageRecord, most_bytes: int = 1_200_000) -> Iterator[Chart]:
    """Pictures of at most so many bytes that a run on grid lines has drawn itself."""
    for name, caption in FIGURES.items():
        path = record.path / names.figure(name)
        try:
            if 0 < path.stat().st_size <= most_bytes:
                yield Chart(name, data_uri(path.read_bytes()), caption)
        except OSError:
            continue


STYLE, VIEWER, TABLE, BLINK = "style.css", "viewer.js", "table.js", "blink.js"


def report_page(record: PageRecord, product: StoredRecon | None = None) -> str:
    """Return the page of a run; ``product`` as of :func:`view_of`."""
    view = view_of(record, product) if record.scan else None
    charts = [*losses(record.path)] if view is None else []
    values = {"run": record, "scan": view, "charts": charts}
    return render("report.html", (VIEWER, TABLE), orientation=ORIENTATION, **values)


def write_page(path: Path, page: str) -> str:
    """Write a page; return where it is, and its size.

    Raises:
        ConfigError: as of :func:`check_page`.
    """
    check_page(path)
    content = page.encode()
    write_atomically(path, lambda file: file.write(content))
    return f"{path} ({size_text(len(content))})"


def check_page(path: Path) -> None:
    """Refuse a place for a page where something else than a page stands."""
    check_output(path, overwrite=True)
    if path.is_file() and not is_page(path):
        raise ConfigError(
            f"output={path}: is no page of this program, and nothing replaces it; choose another name"
        )


def compare_page(
    entries: Sequence[Entry], skipped: Sequence[tuple[str, str]], links: Mapping[str, str]
) -> str:
    """Return the page of several runs; ``links``: pages of runs by the labels of their entries."""
    keys, values = differing(entries)
    return render(
        "compare.html",
        (TABLE, BLINK),
        orientation=ORIENTATION,
        entries=entries,
        groups=group_entries(entries),
        skipped=skipped,
        keys=keys,
        values=values,
        links=links,
        now=datetime.now(UTC),
    )


def index_page(folder: str, entries: Sequence[Entry], links: Mapping[str, str]) -> str:
    """Return the page of all runs below a folder; ``links``: as of :func:`compare_page`."""
    return render("index.html", (TABLE,), folder=folder, entries=entries, links=links)


def render(template: str, scripts: tuple[str, ...], **values: Any) -> str:
    """Return a page from a template, with the style sheet and some scripts in it."""
    script, style = "".join(asset(name) for name in scripts), asset(STYLE)
    policy = (  # style and script by their hashes, and its pictures
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(f"{template}.j2")
    return page.render(style=Markup(style), script=Markup(script), policy=policy, **values)


@functools.cache
def asset(name: str) -> str:
    """Return a file of the templates' folder."""
    return (files("ptycho_report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ptycho_report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": size_text, "seconds": time_text, "score": score_text}
    return environment
