"""All checks, as lines."""

from __future__ import annotations

from pathlib import Path

from ptycho.config.schema import Flag, Text, key, settings
from workflows.doctor.checks import BAD, run_checks
from workflows.doctor.speed import check_speed


@settings()
class DoctorConfig:
    """The keys of ``conf/doctor.yaml``."""

    output_dir: Text = key("outputs", "folder of future runs, whose disk is tested")
    speed: Flag = key(
        True, "start TensorFlow, compile with XLA and measure the speed of the solver; about 15 s"
    )


def report(config: DoctorConfig) -> tuple[list[str], list[str]]:
    """The lines of all checks, and the parts that fail."""
    checks = [*run_checks(Path(config.output_dir)), *(check_speed() if config.speed else ())]
    failing = [check.part for check in checks if check.state == BAD]
    verdict = f"does not work: {', '.join(failing)}" if failing else "this machine is fit"
    return [*map(str, checks), verdict], failing
