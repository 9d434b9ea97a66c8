"""The files of ``conf/`` and the page ``docs/configuration.md``, written from the schema; the table of flags.

A file of ``conf/`` keeps its own lines; between two marks stand the keys of a schema with their defaults and
texts, but for those that its own lines set or that its list of defaults takes from a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic_core import PydanticUndefined

from ptycho.command_line.schema_text import default_of, in_order, yaml_lines, yaml_value
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
from ptycho.config.messages import allowed, sections_of
from ptycho.config.schema import LEVELS, level_of
from ptycho.evaluation.trust import FLAGS
from workflows.convert.export_model import ExportModelConfig
from workflows.convert.export_scan import ExportConfig
from workflows.convert.init_scan import InitConfig
from workflows.convert.inspect_scan import InspectConfig
from workflows.convert.replay import ReplayConfig
from workflows.convert.run_exported import RunExportedConfig
from workflows.convert.simulate_scan import SimulateConfig
from workflows.doctor import DoctorConfig
from workflows.pages import CompareConfig, ReportConfig
from workflows.reconstruct.infer_config import InferConfig
from workflows.reconstruct.live_config import LiveConfig
from workflows.tune import TuneConfig

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
BAR = r"\|"
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
