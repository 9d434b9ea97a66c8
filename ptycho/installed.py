"""What is installed: the optional parts of the program, and the packages that it needs.

Only the standard library is imported here.
"""

from __future__ import annotations

from importlib.util import find_spec

PAGES = "ptycho_report"  # the part that draws pages about runs
PARTS = {
    f"ptycho_{name}": f"extras/{name}"
    for name in ("report", "live", "export", "images", "pretrain", "tune", "lsqml")
}
"""Optional parts: packages in ``extras/``, installed separately."""


def missing() -> list[str]:
    """Return the folders of the parts that are not installed."""
    return [folder for package, folder in PARTS.items() if find_spec(package) is None]


def remedy(package: str) -> str | None:
    """Return what to do where an optional part is not installed; None: it is."""
    folder = PARTS[package]
    if find_spec(package) is not None:
        return None
    return (
        f"is an optional part, {folder}, which is not installed: pip install -c constraints.txt -e {folder} "
        "in a checkout of the program"
    )


def unmet(extra: str = "") -> list[str]:
    """Return the packages that the program, or one of its extras, needs and that are not here as needed."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    wrong = []
    for needed in map(Requirement, requires("ptychopinn") or []):
        if needed.marker.evaluate({"extra": extra}) if needed.marker else not extra:
            try:
                if (installed := version(needed.name)) not in needed.specifier:
                    wrong.append(f"{needed.name} {installed} (wanted: {needed.specifier})")
            except PackageNotFoundError:
                wrong.append(f"{needed.name} is missing")
    return wrong
