"""The files of ``conf/`` and the page ``docs/configuration.md``, written from the schema; the table of flags.

A file of ``conf/`` keeps its own lines; between two marks stand the keys of a schema with their defaults and
texts, but for those that its own lines set or that its list of defaults takes from a group.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic_core import PydanticUndefined

from ptycho.config import GENERATORS, MEASURED_PROBES, PROBES, Imperfections, StitchConfig
from ptycho.config.mapping import default_of, ordered_fields, yaml_lines, yaml_value
from ptycho.config.messages import allowed, sections_of
from ptycho.config.schema import LEVELS, level_of
from ptycho.evaluation.trust import FLAGS

BEGIN = "# >>> written from the schema by scripts/write_conf.py"
END = "# <<<"
FLAGS_BEGIN = "<!-- >>> written from ptycho.evaluation.trust.FLAGS by scripts/write_conf.py -->\n"
FLAGS_END = "<!-- <<< -->\n"
SCHEMAS = {  # script and its words: file, module and schema
    "grid_lines_workflow": ("grid_lines", "ptycho.config:RunConfig"),
    "scan_workflow": ("scan", "ptycho.config:ScanRunConfig"),
    "live": ("live", "ptycho_live.config:LiveConfig"),
    "replay": ("lite/replay", "ptycho_live.replay_command:ReplayConfig"),
    "inspect_scan": ("inspect", "workflows.convert.inspect_scan:InspectConfig"),
    "simulate_scan": ("simulate", "workflows.convert.simulate_scan:SimulateConfig"),
    "export_scan": ("export", "workflows.convert.export_scan:ExportConfig"),
    "export_model": ("lite/export_model", "ptycho_export.export_model_command:ExportModelConfig"),
    "compare": ("compare", "ptycho_report.compare_command:CompareConfig"),
    "report": ("report", "ptycho_report.report_command:ReportConfig"),
    "run_exported": ("lite/run_exported", "ptycho_export.run_exported_command:RunExportedConfig"),
    "pretrain": ("network/group", "ptycho_pretrain.config:PretrainConfig"),
    "pretrain network=denoiser": ("network/denoiser", "ptycho_pretrain.config:DenoiserConfig"),
    "tune": ("tune", "ptycho_tune.tune_command:TuneConfig"),
    "doctor": ("doctor", "workflows.doctor:DoctorConfig"),
}
BAR = r"\|"
HEAD = """# Configuration

Every key of every program, with its default, the allowed values and its meaning. Keys are written `key=value`
on the command line, `section.key=value` in a section; `group=option` chooses another option of a group. This
page is written from the schema by `python scripts/write_conf.py`, as are the files in `conf/`. The last
column says who sets a key: nearly everyone (`always`), some (`sometimes`), or experts (`expert`).
"""


@functools.cache
def programs() -> dict[str, tuple[str, type]]:
    """Return file and schema of each script with its words; optional parts must be installed."""
    return {script: (file, pkgutil.resolve_name(name)) for script, (file, name) in SCHEMAS.items()}


def files() -> dict[str, type]:
    """Return the schemas of the files in ``conf/``."""
    return {
        **dict(programs().values()),
        **{f"probe/{kind}": cls for kind, cls in (MEASURED_PROBES | PROBES).items()},
        **{f"model/{kind}": cls for kind, cls in GENERATORS.items()},
        "stitch/probe": StitchConfig,
        "imperfections/none": Imperfections,
    }


def write(conf: Path, docs: Path) -> list[Path]:
    """Bring all files up to date; those that were not."""
    scores = docs / "scores.md"
    wanted = {docs / "configuration.md": documentation(), scores: with_flags(scores.read_text())}
    paths = {conf / f"{name}.yaml": cls for name, cls in files().items()}
    wanted |= {path: file_text(path, cls) for path, cls in paths.items()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        path.write_text(wanted[path])
    return stale


def file_text(path: Path, cls: type) -> str:
    """A file of ``conf/`` with the keys of ``cls`` between its marks."""
    before, _, rest = path.read_text().partition(f"{BEGIN}\n")
    _, _, after = rest.partition(f"{END}\n")
    own = yaml.safe_load(before + after) or {}
    chosen = [entry for entry in own.get("defaults", []) if isinstance(entry, dict)]
    groups = {name.lstrip("/") for entry in chosen for name in entry}
    lines = yaml_lines(cls, None, {*own, *groups})
    return "".join([before, f"{BEGIN}\n", *lines, f"{END}\n", after])


def documentation() -> str:
    """The page on all keys; a section that several programs share is described once."""
    described, parts = dict[type, str](), [HEAD]
    for script, (name, cls) in programs().items():
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
    for name, field in ordered_fields(cls):
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
    single = (
        entry for entry in ordered_fields(cls) if entry[0] != "kind" and not sections_of(entry[1].annotation)
    )
    rows = sorted(single, key=lambda entry: level_of(entry[1]))
    graded = bool(rows) and level_of(rows[0][1]) < level_of(rows[-1][1])
    if rows:
        yield f"| key | default | must be | |{' set |' * graded}\n|---|---|---|---|{'---|' * graded}\n"
    for name, field in rows:
        default = default_of(field)
        shown = "" if default is PydanticUndefined else f"`{yaml_value(default)}`"
        cells = [f"`{name}`", shown, allowed(field), field.description or ""]
        yield row([*cells, *([LEVELS[level_of(field)]] if graded else [])])
