"""Reconstruct a scan while it is measured, and then like any other.

The folder of the run holds ``live.png``, ``live.json``, ``live.html``, and in the end ``live.npz``. Its
folder ``live/`` holds the received frames and positions, ``scan.h5`` (:mod:`ptycho_live.scan_file`), which
the following run reads, and the program's keys.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ptycho.command_line.config import check_programs
from ptycho.command_line.jobs import run_program
from ptycho.command_line.training_jobs import Job, Run, execute
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import KeyMap
from ptycho.config.mapping import programs_in, to_dataclass
from ptycho.config.messages import one_line
from ptycho.files.atomic import write_text
from ptycho.files.lock import locked
from ptycho.files.reading import read_json, read_yaml
from ptycho.quiet_start import start_tensorflow
from ptycho.report.gather import gather
from ptycho.report.wording import verdict_of
from ptycho.run import names
from ptycho.run.folder import check_free, check_writable, config_text
from ptycho.run.record import check_links
from ptycho.run.stored_run import is_finished, read_job
from ptycho.training.interrupt import StopRequest
from ptycho_live import page
from ptycho_live.collecting import CollectOptions, Collector
from ptycho_live.config import LiveConfig
from ptycho_live.sources import open_source
from ptycho_live.store import Store

log = logging.getLogger(__name__)
PLACE, KEYS = names.LIVE, "live.yaml"


def main(help_text: str | None, reconstruct: Run) -> NoReturn:
    """End the process as ``ptycho live``; ``reconstruct``: does the run of the scan workflow that follows."""
    with StopRequest() as stop:
        do = partial(run, stop=stop, reconstruct=reconstruct)
        run_program("live", LiveConfig, do, help_text, name_source)


def name_source(words: list[str]) -> list[str]:
    """Return words in which the section ``data`` has what is watched as its file."""
    if not any("=" in word for word in words):
        return words
    watched = any(word.startswith("watch=") and word != "watch=" for word in words)
    return [*words, "data.file=['${watch}']" if watched else "data.file=[-]"]


def run(config: LiveConfig, stop: StopRequest, reconstruct: Run) -> list[str]:
    """Watch a scan, and reconstruct it; return what was made, a line each."""
    config, folder = _begun(config)
    place = folder / PLACE
    if (folder / names.CONFIG).is_file():
        return _final(folder, None, stop, reconstruct)
    with stop.end_with(lambda: f"the received data are in {place}; resume with resume={folder}"):
        check_writable(folder)
        with locked(folder):
            write_text(place / KEYS, config_text(config))
            scan = _watched(config, folder, place)
    if scan is None:
        return [f"picture: {folder / 'live.png'}, arrays: {folder / 'live.npz'}"]
    return _final(folder, scan, stop, reconstruct)


def _begun(config: LiveConfig) -> tuple[LiveConfig, Path]:
    """Return the keys and the folder of a new live run, or of the one that is resumed."""
    if config.resume is None:
        name = Path(str(config.watch).rstrip("/")).stem.replace(":", "_") or "scan"
        folder = Path(config.output_dir or f"outputs/live/{name}")
        if (folder / PLACE / KEYS).is_file():
            raise ConfigError(
                f"output_dir={folder}: holds a live run already; resume it with resume={folder}, or choose "
                "another folder"
            )
        check_free(folder, overwrite=False)
        return config, folder
    folder = Path(config.resume)
    path = folder / PLACE / KEYS
    check_links(folder)
    try:
        stored = read_yaml(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or one_line(str(error))
        raise ConfigError(f"resume={folder}: holds no live run that can be read ({why})") from error
    if config != LiveConfig(resume=config.resume):
        raise ConfigError(f"resume={folder}: is resumed with its own keys; remove all others")
    return to_dataclass(LiveConfig, stored), folder


def _watched(config: LiveConfig, folder: Path, place: Path) -> ScanRunConfig | None:
    """Watch until the scan has ended; return the configuration of the following run, None for no such run."""
    store, largest = Store(place), int(1e6 * config.largest_message_mb)
    source = open_source(str(config.watch), config.data, store.has, config.bind, config.curve_keys, largest)
    collector = Collector(source, store, CollectOptions(config.frames, config.timeout_s, config.wait_s))
    collector.start()
    try:
        start_tensorflow(for_solver=True)
        from ptycho_live.run import LiveRun
        from ptycho_live.state import LiveOptions

        options = LiveOptions(config.first, config.refresh_s, config.finish_s)
        settled: Any = dict.fromkeys(("format", "positions_file", "patterns_file", "position_axes"))
        job = config.run(replace(config.data, keys=KeyMap(), **settled), str(folder))  # by the source
        live = LiveRun(collector, store, job, options, folder, str(config.watch))
        live.watch()
        live.complete()
        return live.store_scan() if config.final else None
    finally:
        collector.stop()
        store.close()


def _final(folder: Path, config: ScanRunConfig | None, stop: StopRequest, reconstruct: Run) -> list[str]:
    """Run ``scan_workflow.py`` on the received scan, or resume it; return the lines to print."""
    from ptycho.run.scan_plan import plan

    resumed = config is None
    if resumed and is_finished(folder):
        return [f"{folder}: is finished; nothing is left to do"]
    job = read_job(folder) if resumed else config
    assert isinstance(job, ScanRunConfig)
    check_programs(programs_in(job), (), f"resume={folder}")
    checked = Job(plan(replace(job, output_dir=str(folder))), folder, (), resumed)
    with stop.end_with(lambda: f"resume with resume={folder}"):
        execute(reconstruct, checked, stop)
    _show_verdict(folder)
    return [f"results: {folder}"]


def _show_verdict(folder: Path) -> None:
    """Let the live page say what the report says of the image, and lead there."""
    record = gather(folder)
    if not (record.scan and (folder / page.NUMBERS).is_file()):
        return
    verdict = verdict_of(record)
    reasons = "; ".join(f"{reason.flag} ({reason.means})" for reason in verdict.reasons)
    sentence = f"{verdict.sentence.removesuffix('.')}: {reasons}." if reasons else verdict.sentence
    report = names.REPORT if (folder / names.REPORT).is_file() else ""
    numbers = read_json(folder / page.NUMBERS)
    page.write_page(folder, numbers, None, (verdict.level, sentence), report)
