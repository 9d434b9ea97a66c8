"""The files of ``conf/`` and the page ``docs/configuration.md``, written from the schema; the table of flags.

A file of ``conf/`` keeps its own lines; between two marks stand the keys of a schema with their defaults and
texts, but for those that its own lines set or that its list of defaults takes from a group.
"""

from __future__ import annotations

import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ptycho.config import (
    GENERATORS,
    MEASURED_PROBES,
    PROBES,
    DenoiserConfig,
    Imperfections,
    PretrainConfig,
    RunConfig,
    ScanRunConfig,
    StitchConfig,
)
from ptycho.config.messages import allowed, choices_of, sections_of
from ptycho.config.schema import LEVELS, level_of
from ptycho.evaluation.trust import FLAGS
from workflows.command_line.schema_text import default_of, in_order, yaml_lines, yaml_value
from workflows.convert.export_model import ExportModelConfig
from workflows.convert.export_scan import ExportConfig
from workflows.convert.init_scan import InitConfig
from workflows.convert.inspect_scan import InspectConfig
from workflows.convert.replay import ReplayConfig
from workflows.convert.run_exported import RunExportedConfig
from workflows.convert.simulate_scan import SimulateConfig
from workflows.doctor.checks import DoctorConfig
from workflows.read.compare import CompareConfig
from workflows.read.report import ReportConfig
from workflows.reconstruct.infer_config import InferConfig
from workflows.reconstruct.live_config import LiveConfig
from workflows.tune.config import TuneConfig

BEGIN = "# >>> written from the schema by scripts/write_conf.py"
END = "# <<<"
FLAGS_BEGIN = "<!-- >>> written from ptycho.evaluation.trust.FLAGS by scripts/write_conf.py -->\n"
FLAGS_END = "<!-- <<< -->\n"
PROGRAMS: dict[str, tuple[str, type]] = {  # script and its words: file, schema
    "grid_lines_workflow": ("grid_lines", RunConfig),
    "scan_workflow": ("scan", ScanRunConfig),
    "infer": ("lite/infer", InferConfig),
    "live": ("live", LiveConfig),
    "replay": ("lite/replay", ReplayConfig),
    "inspect_scan": ("inspect", InspectConfig),
    "simulate_scan": ("simulate", SimulateConfig),
    "export_scan": ("export", ExportConfig),
    "export_model": ("lite/export_model", ExportModelConfig),
    "compare": ("compare", CompareConfig),
    "report": ("report", ReportConfig),
    "run_exported": ("lite/run_exported", RunExportedConfig),
    "pretrain": ("network/group", PretrainConfig),
    "pretrain network=denoiser": ("network/denoiser", DenoiserConfig),
    "tune": ("tune", TuneConfig),
    "doctor": ("doctor", DoctorConfig),
    "init": ("init", InitConfig),
}
HELP_BEGIN = "docs/configuration.md\n\n"
HELP_END = "  ${hydra.help.footer}"
BAR = r"\|"
MANY, HELP_WIDTH = 8, 80  # words that are not listed in a help; of a text there
FILES: dict[str, type] = {
    **dict(PROGRAMS.values()),
    **{f"probe/{kind}": cls for kind, cls in (MEASURED_PROBES | PROBES).items()},
    **{f"model/{kind}": cls for kind, cls in GENERATORS.items()},
    "stitch/probe": StitchConfig,
    "imperfections/none": Imperfections,
}
HEAD = """# Configuration

Every key of every program, with its default, the allowed values and its meaning. Keys are written `key=value`
on the command line, `section.key=value` in a section; `group=option` chooses another option of a group. This
page is written from the schema by `python scripts/write_conf.py`, as are the files in `conf/`. The last
column says who sets a key: nearly everyone (`always`), some (`sometimes`), or experts (`expert`).
"""


def write(conf: Path, docs: Path) -> list[Path]:
    """Bring all files up to date; those that were not."""
    scores = docs / "scores.md"
    wanted = {docs / "configuration.md": documentation(), scores: with_flags(scores.read_text())}
    for name, cls in FILES.items():
        path = conf / f"{name}.yaml"
        wanted[path] = file_text(path, cls)
    for name in ("grid_lines", "scan"):
        path = conf / "hydra" / "help" / f"{name}.yaml"
        wanted[path] = with_help(path, FILES[name], conf)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        path.write_text(wanted[path])
    return stale


def file_text(path: Path, cls: type) -> str:
    """A file of ``conf/`` with the keys of ``cls`` between its marks."""
    before, _, rest = path.read_text().partition(f"{BEGIN}\n")
    _, _, after = rest.partition(f"{END}\n")
    own = yaml.safe_load(before + after) or {}
    groups = {
        name.lstrip("/") for entry in own.get("defaults", []) if isinstance(entry, dict) for name in entry
    }
    lines = yaml_lines(cls, None, {*own, *groups})
    return "".join([before, f"{BEGIN}\n", *lines, f"{END}\n", after])


def options_of(conf: Path, group: str, sections: Mapping[str, type]) -> list[str]:
    """The options of a group that a program takes."""
    paths = (conf / group).glob("*.yaml")
    return sorted(path.stem for path in paths if not sections or kind_of(path) in sections)


def kind_of(path: Path) -> str:
    """The kind of an option of a group, or of that of which it is a variant; empty: there are no kinds."""
    text = path.read_text(encoding="utf-8")
    if kind := re.search(r"^kind: (\w+)", text, re.M):
        return kind[1]
    bases = [one for one in (yaml.safe_load(text) or {}).get("defaults", ()) if one != "_self_"]
    return kind_of(path.with_name(f"{bases[0].split('@')[0]}.yaml")) if bases else ""


class Key(NamedTuple):
    """A key of a program, ``section.key`` or a group, and the words that it may be, if they are few."""

    name: str
    words: list[str]
    field: FieldInfo


def keys_by_level(cls: type, conf: Path) -> list[Key]:
    """The keys of a program, those first that nearly everyone sets."""
    unique = {key.name: key for key in reversed(list(keys_of(cls, conf)))}
    return sorted(reversed(unique.values()), key=lambda key: level_of(key.field))


def keys_of(cls: type, conf: Path, prefix: str = "") -> Iterator[Key]:
    """Every key of a schema, and every group with its options."""
    for name, field in in_order(cls):
        sections = sections_of(field.annotation)
        words = words_of(field.annotation)  # one word: the option of a group to which this schema belongs
        is_group = (sections or len(words) == 1) and not prefix
        options = options_of(conf, name, sections) if is_group else []
        if options or not sections:
            yield Key(f"{prefix}{name}", options or words, field)
        for section in dict.fromkeys(sections.values()):
            yield from keys_of(section, conf, f"{prefix}{name}.")


def with_help(path: Path, cls: type, conf: Path) -> str:
    """Return the help of a program with the keys that nearly everyone sets."""
    before, mark, rest = path.read_text().partition(HELP_BEGIN)
    groups = yaml.safe_load((conf / path.name).read_text())["defaults"]
    chosen = {group: option for entry in groups if isinstance(entry, dict) for group, option in entry.items()}
    keys = [key for key in keys_by_level(cls, conf) if not level_of(key.field)]
    keys.sort(key=lambda key: not key.name.startswith("data."))
    rows = [(key.name, chosen.get(key.name) or default_in_help(key), text_in_help(key)) for key in keys]
    wide = [max(len(row[column]) for row in rows) + 2 for column in range(2)]
    lines = "".join(f"    {row[0]:<{wide[0]}}{row[1]:<{wide[1]}}{row[2]}\n" for row in rows)
    return f"{before}{mark}{lines}\n{HELP_END}{rest.partition(HELP_END)[2]}"


def default_in_help(key: Key) -> str:
    """A folder that has the date in its name is dated."""
    shown = "outputs/<date>" if key.name == "output_dir" else yaml_value(default_of(key.field))
    return shown.replace(" ", "")


def text_in_help(key: Key) -> str:
    words = " | ".join(key.words) if 1 < len(key.words) < MANY and key.words != ["true", "false"] else ""
    text = "; ".join(filter(None, [words, key.field.description]))
    return textwrap.shorten(text, HELP_WIDTH, placeholder=" …")


def words_of(annotation: Any) -> list[str]:
    """What a key may be, if it is one of few words."""
    if bool in (annotation, *typing.get_args(annotation)):
        return ["true", "false"]
    return [str(choice) for choice in choices_of(annotation)]


def documentation() -> str:
    """The page on all keys; a section that several programs share is described once."""
    described, parts = dict[type, str](), [HEAD]
    for script, (name, cls) in PROGRAMS.items():
        command = f"{script} ".replace(" ", ".py ", 1).rstrip()
        parts += [f"\n## {script}\n\n`python scripts/{command}`, `conf/{name}.yaml`\n\n", *table(cls)]
        parts += sections_text(cls, described, "")
    return "".join(parts)


def with_flags(page: str) -> str:
    """Return a page with two tables of flags between its marks: of images likely wrong, and of others."""
    before, _, rest = page.partition(FLAGS_BEGIN)
    text = ""
    for title, wrong in (("The image is likely wrong", True), ("The image is weak", False)):
        text += f"\n### {title}\n\n| flag | what it means | what to do |\n|---|---|---|\n"
        chosen = (entry for entry in sorted(FLAGS.items()) if entry[1].wrong is wrong)
        text += "".join(row([f"`{name}`", flag.means, flag.remedy]) for name, flag in chosen) + "\n"
    return f"{before}{FLAGS_BEGIN}{text}{FLAGS_END}{rest.partition(FLAGS_END)[2]}"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |\n"


def sections_text(cls: type, described: dict[type, str], prefix: str) -> Iterator[str]:
    """The sections of a schema, with those in them."""
    for name, field in in_order(cls):
        for kind, section in sections_of(field.annotation).items():
            title = f"{prefix}{name}" + (f"={kind}" if kind else "")
            if section in described:
                anchor = described[section].replace("=", "").replace(".", "")
                yield f"\n`{title}`: as [{described[section]}](#{anchor})\n"
                continue
            described[section] = title
            yield f"\n### {title}\n\n{(section.__doc__ or '').strip().splitlines()[0]}\n\n"
            yield from table(section)
            yield from sections_text(section, described, f"{prefix}{name}.")


def table(cls: type) -> Iterator[str]:
    """The keys of a section that are no sections, a row each."""
    single = (entry for entry in in_order(cls) if entry[0] != "kind" and not sections_of(entry[1].annotation))
    rows = sorted(single, key=lambda entry: level_of(entry[1]))
    graded = bool(rows) and level_of(rows[0][1]) < level_of(rows[-1][1])
    if rows:
        yield f"| key | default | must be | |{' set |' * graded}\n|---|---|---|---|{'---|' * graded}\n"
    for name, field in rows:
        default = default_of(field)
        shown = "" if default is PydanticUndefined else f"`{yaml_value(default)}`"
        cells = [f"`{name}`", shown, allowed(field), field.description or ""]
        yield row([*cells, *([LEVELS[level_of(field)]] if graded else [])])
