"""Scores and settings as tables: CSV for programs, LaTeX for papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ptycho.config import JobConfig
from ptycho.config.mapping import flat, result_settings
from ptycho.config.messages import show
from ptycho.evaluation.metrics import CHANNELS, SCORES
from ptycho.run import names
from ptycho.run.folder import RunFolder

Row = dict[str, Any]


def write_scores(scores: Mapping[str, Mapping[str, Row]], folder: RunFolder) -> None:
    """Write the scores ``{model: {stitching: …}}`` of :func:`ptycho.evaluation.metrics.score_images`."""
    rows = list(score_rows(scores))
    folder.table(f"{names.SCORES}.csv", rows)
    folder.text(f"{names.SCORES}.tex", latex(rows))


def write_settings(config: JobConfig, folder: RunFolder) -> None:
    """Write every key that decides the result, with the value and the default."""
    mine, defaults = (flat(result_settings(made)) for made in (config, type(config)()))
    rows = [
        {"key": key, "value": show(value), "default": show(defaults[key]) if key in defaults else ""}
        for key, value in mine.items()
    ]
    folder.table(f"{names.SETTINGS}.csv", rows)
    others = [row for row in rows if row["value"] != row["default"]] or rows[:1]
    folder.text(f"{names.SETTINGS}.tex", latex(others))


def score_rows(scores: Mapping[str, Mapping[str, Row]]) -> Iterator[Row]:
    """Yield a row for each model, stitching, image and channel; scores that are None stay empty."""
    for model, by_method in scores.items():
        for method, found in by_method.items():
            for image, values in enumerate(found["per_image"]):
                for number, channel in enumerate(CHANNELS):
                    place = {"model": model, "stitching": method, "image": image, "channel": channel}
                    yield place | {name: values[name][number] for name in SCORES}


def latex(rows: Iterable[Row]) -> str:
    """Return rows as a ``tabular`` that needs no package; numbers have four digits."""
    rows = list(rows)
    lines = [[*rows[0]], *([cell(value) for value in row.values()] for row in rows)]
    body = [" & ".join(map(escape, line)) + r" \\" for line in lines]
    columns = "".join("r" if isinstance(value, int | float) else "l" for value in rows[0].values())
    return (
        "\n".join(
            [rf"\begin{{tabular}}{{{columns}}}", r"\hline", body[0], r"\hline", *body[1:], r"\hline", ""]
        )
        + "\\end{tabular}\n"
    )


def cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def escape(text: str) -> str:
    """A text as LaTeX sets it."""
    return "".join(f"\\{sign}" if sign in "_%&#${}" else sign for sign in text)
