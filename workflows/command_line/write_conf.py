"""The files of ``conf/`` and the page ``docs/configuration.md``, written from the schema; the table of flags.

A file of ``conf/`` keeps its own lines; between two marks stand the keys of a schema with their defaults and
texts, but for those that its own lines set or that its list of defaults takes from a group.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ptycho.config import (
    GENERATORS,
    MEASURED_PROBES,
    OBJECTS,
    PROBES,
    Imperfections,
    PretrainConfig,
    PriorConfig,
    RunConfig,
    ScanRunConfig,
    StitchConfig,
)
from ptycho.config.messages import allowed, choices_of, fields_of, sections_of
from ptycho.evaluation.trust import FLAGS
from workflows.command_line.completion import KEYS
from workflows.convert.export_model import ExportModelConfig
from workflows.convert.export_scan import ExportConfig
from workflows.convert.inspect_scan import InspectConfig
from workflows.convert.replay import ReplayConfig
from workflows.convert.run_exported import RunExportedConfig
from workflows.convert.simulate_scan import SimulateConfig
from workflows.doctor.report import DoctorConfig
from workflows.read.compare import CompareConfig
from workflows.read.report import ReportConfig
from workflows.read.serve import ServeConfig
from workflows.reconstruct.infer_config import InferConfig
from workflows.reconstruct.live_config import LiveConfig
from workflows.tune.config import TuneConfig

BEGIN = "# >>> written from the schema by scripts/write_conf.py"
END = "# <<<"
FLAGS_BEGIN = "<!-- >>> written from ptycho.evaluation.trust.FLAGS by scripts/write_conf.py -->\n"
FLAGS_END = "<!-- <<< -->\n"
COLUMN, WIDTH = 27, 120  # of the texts, of a line
PROGRAMS: dict[str, tuple[str, type]] = {  # script: file, schema
    "grid_lines_workflow": ("grid_lines", RunConfig),
    "scan_workflow": ("scan", ScanRunConfig),
    "infer": ("infer", InferConfig),
    "live": ("live", LiveConfig),
    "replay": ("replay", ReplayConfig),
    "inspect_scan": ("inspect", InspectConfig),
    "simulate_scan": ("simulate", SimulateConfig),
    "export_scan": ("export", ExportConfig),
    "export_model": ("export_model", ExportModelConfig),
    "compare": ("compare", CompareConfig),
    "report": ("report", ReportConfig),
    "serve": ("serve", ServeConfig),
    "run_exported": ("lite/run_exported", RunExportedConfig),
    "pretrain": ("pretrain", PretrainConfig),
    "train_prior": ("prior", PriorConfig),
    "tune": ("tune", TuneConfig),
    "doctor": ("doctor", DoctorConfig),
}
FILES: dict[str, type] = {
    **dict(PROGRAMS.values()),
    **{f"object/{kind}": cls for kind, cls in OBJECTS.items()},
    **{f"probe/{kind}": cls for kind, cls in (MEASURED_PROBES | PROBES).items()},
    **{f"model/{kind}": cls for kind, cls in GENERATORS.items()},
    "stitch/probe": StitchConfig,
    "imperfections/none": Imperfections,
}
HEAD = """# Configuration

Every key of every program, with its default, the allowed values and its meaning. Keys are written `key=value`
on the command line, `section.key=value` in a section; `group=option` chooses another option of a group. This
page is written from the schema by `python scripts/write_conf.py`, as are the files in `conf/`.
"""


def write(conf: Path, docs: Path) -> list[Path]:
    """Bring all files up to date; those that were not."""
    files = {conf / f"{name}.yaml": cls for name, cls in FILES.items()}
    scores = docs / "scores.md"
    wanted = {docs / "configuration.md": documentation(), scores: with_flags(scores.read_text())}
    wanted |= {path: file_text(path, cls) for path, cls in files.items()}
    wanted[conf / KEYS] = keys_text(conf)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        path.write_text(wanted[path])
    return stale


def file_text(path: Path, cls: type) -> str:
    """A file of ``conf/`` with the keys of ``cls`` between its marks."""
    before, _, rest = path.read_text().partition(f"{BEGIN}\n")
    _, _, after = rest.partition(f"{END}\n")
    own = yaml.safe_load(before + after) or {}
    groups = [name for entry in own.get("defaults", []) if isinstance(entry, dict) for name in entry]
    lines = yaml_lines(cls, None, {*own, *groups})
    return "".join([before, f"{BEGIN}\n", *lines, f"{END}\n", after])


def yaml_lines(cls: type, made: Any, left_out: set[str] = frozenset(), indent: str = "") -> Iterator[str]:  # type: ignore[assignment]
    """The keys of a section, a line each; the values of ``made``, or else the defaults."""
    for name, field in in_order(cls):
        if name in left_out:
            continue
        value = getattr(made, name) if made is not None else default_of(field)
        text = comment(field)
        if (section := inner_section(field)) and value is not None:
            inner = None if value is PydanticUndefined or field.default_factory else value
            yield f"{indent}{name}:{' ' * (COLUMN - len(indent + name) - 1)}# {text}\n"
            yield from yaml_lines(section, inner, indent=f"{indent}  ")
        else:
            written = f"{indent}{name}: {yaml_value(value)}"
            first, *more = textwrap.wrap(text, WIDTH - COLUMN, break_on_hyphens=False) or [""]
            yield (f"{written:<{COLUMN - 1}} # {first}" if first else written) + "\n"
            yield from (f"{'':<{COLUMN}}# {rest}\n" for rest in more)


def in_order(cls: type) -> list[tuple[str, FieldInfo]]:
    """The kind first, then what the class has of its own, then what it has from others."""
    found = fields_of(cls)
    own = [name for base in cls.__mro__ for name in inspect.get_annotations(base) if name in found]
    names = dict.fromkeys([*(name for name in found if name == "kind"), *own])
    return sorted(
        ((name, found[name]) for name in names), key=lambda entry: inner_section(entry[1]) is not None
    )


def inner_section(field: FieldInfo) -> type | None:
    """The class of a section whose keys stand in the same file; None for a group and for a single value."""
    kinds = sections_of(field.annotation)
    single = len(kinds) == 1 and "Mapping" not in str(field.annotation)
    return next(iter(kinds.values())) if single else None


def default_of(field: FieldInfo) -> Any:
    return field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]


def comment(field: FieldInfo) -> str:
    """The text of a key and the words that it may be."""
    choices = choices_of(field.annotation)
    words = " | ".join(map(str, choices)) if len(choices) > 1 else ""
    return "; ".join(filter(None, [words, field.description]))


def yaml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(yaml_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and value and not 1e-4 <= abs(value) < 1e5:
        return f"{value:g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
    if isinstance(value, dict):
        return "{}"
    return str(value) or '""'


def keys_text(conf: Path) -> str:
    """All keys of every program with the words that they may be, as JSON: for the completion of shells."""
    keys = {name: commands(conf, name) | dict(keys_with_words(cls, conf)) for name, cls in PROGRAMS.values()}
    lines = (f'"{name}": {json.dumps(found)}' for name, found in keys.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def commands(conf: Path, name: str) -> dict[str, list[str]]:
    """What a file of ``conf/`` takes besides the keys of a schema: which run to resume, which experiment."""
    found: dict[str, list[str]] = {}
    text = (conf / f"{name}.yaml").read_text()
    if "\nresume:" in text:
        found["resume"] = []
    if "experiment:" in text:
        found["experiment"] = sorted(path.stem for path in (conf / "experiment").glob("*.yaml"))
    return found


def keys_with_words(cls: type, conf: Path, prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every key ``section.key`` of a schema, and of a group, with its options."""
    for name, field in in_order(cls):
        sections = sections_of(field.annotation)
        group = conf / name if sections and not prefix else conf / "nothing"
        options = sorted(path.stem for path in group.glob("*.yaml") if is_option(path, sections))
        if options or not sections:
            yield f"{prefix}{name}", options or words_of(field.annotation)
        for section in dict.fromkeys(sections.values()):
            yield from keys_with_words(section, conf, f"{prefix}{name}.")


def is_option(path: Path, sections: Mapping[str, type]) -> bool:
    """Whether a program takes an option of a group: other programs have kinds of their own."""
    kind = re.search(r"^kind: (\w+)", path.read_text(encoding="utf-8"), re.M)
    return kind is None or not any(sections) or kind[1] in sections


def words_of(annotation: Any) -> list[str]:
    """What a key may be, if it is one of few words."""
    if bool in (annotation, *typing.get_args(annotation)):
        return ["true", "false"]
    return [str(choice) for choice in choices_of(annotation)]


def documentation() -> str:
    """The page on all keys; a section that several programs share is told once."""
    told: dict[type, str] = {}
    parts = [HEAD]
    for script, (name, cls) in PROGRAMS.items():
        parts += [f"\n## {script}\n\n`python scripts/{script}.py`, `conf/{name}.yaml`\n\n", *table(cls)]
        parts += sections_text(cls, told, "")
    return "".join(parts)


def with_flags(page: str) -> str:
    """Return a page with the table of all flags between its marks."""
    before, _, rest = page.partition(FLAGS_BEGIN)
    return f"{before}{FLAGS_BEGIN}{flags_text()}{FLAGS_END}{rest.partition(FLAGS_END)[2]}"


def flags_text() -> str:
    """Return the flags as two tables: of images that are likely wrong, and of the others."""
    parts = []
    for title, wrong in (("The image is likely wrong", True), ("The image is weak", False)):
        rows = [
            f"| `{name}` | {cell(flag.means)} | {cell(flag.remedy)} |\n"
            for name, flag in sorted(FLAGS.items())
            if flag.wrong is wrong
        ]
        parts.append(
            f"\n### {title}\n\n| flag | what it means | what to do |\n|---|---|---|\n{''.join(rows)}\n"
        )
    return "".join(parts)


def cell(text: str) -> str:
    """Return a text as it stands in a cell of a table."""
    return text.replace("|", r"\|")


def sections_text(cls: type, told: dict[type, str], prefix: str) -> Iterator[str]:
    """The sections of a schema, with those in them."""
    for name, field in in_order(cls):
        for kind, section in sections_of(field.annotation).items():
            title = f"{prefix}{name}" + (f"={kind}" if kind else "")
            if section in told:
                anchor = told[section].replace("=", "").replace(".", "")
                yield f"\n`{title}`: as [{told[section]}](#{anchor})\n"
                continue
            told[section] = title
            yield f"\n### {title}\n\n{(section.__doc__ or '').strip().splitlines()[0]}\n\n"
            yield from table(section)
            yield from sections_text(section, told, f"{prefix}{name}.")


def table(cls: type) -> Iterator[str]:
    """The keys of a section that are no sections, a row each."""
    rows = [
        (name, field) for name, field in in_order(cls) if name != "kind" and not sections_of(field.annotation)
    ]
    if rows:
        yield "| key | default | must be | |\n|---|---|---|---|\n"
    for name, field in rows:
        default = default_of(field)
        shown = "" if default is PydanticUndefined else f"`{yaml_value(default)}`"
        cells = (f"`{name}`", shown, allowed(field), field.description or "")
        yield f"| {' | '.join(map(cell, cells))} |\n"
