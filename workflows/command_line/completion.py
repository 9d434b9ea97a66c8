"""Completion for shells: commands, keys of a command with their values, files where a value is a path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workflows.command_line.console import PROGRAMS, folder_of

KEYS = "keys.json"  # in conf/, by write_conf: read in a hundredth of the time that the schema takes

BASH = """\
# eval "$(ptycho completion bash)", in ~/.bashrc
_ptycho() {
    local IFS=$'\\n' line="${COMP_LINE:0:COMP_POINT}" word words
    read -r -a words <<< "$line" 2>/dev/null
    IFS=' ' read -r -a words <<< "$line"
    [[ "$line" == *' ' ]] && words+=("")
    word="${words[-1]}"
    COMPREPLY=($(ptycho complete "${words[@]:1}" 2>/dev/null))
    [[ "$word" == *=* && "$COMP_WORDBREAKS" == *=* ]] && COMPREPLY=("${COMPREPLY[@]#*=}")
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" != *[=/.] ]] || compopt -o nospace
}
complete -o nosort -o bashdefault -F _ptycho ptycho
"""
ZSH = """\
# eval "$(ptycho completion zsh)", in ~/.zshrc after compinit
_ptycho() {
    local -a found
    found=("${(@f)$(ptycho complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -V ptycho -Q -S '' -- $found
}
compdef _ptycho ptycho
"""
FISH = """\
# ptycho completion fish | source, in ~/.config/fish/config.fish
complete -c ptycho -f -k -a '(ptycho complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
PATHS = (
    "file",
    "run",
    "start",
    "resume",
    "output",
    "output_dir",
    "watch",
    "data",
    "model",
    "denoiser_weights",
)


def candidates(words: list[str]) -> list[str]:
    """What the last of the words after ``ptycho`` may become."""
    *before, last = words or [""]
    if not before or before[0] == "completion":
        names = SHELLS if before else (*PROGRAMS, "completion", "--help", "--version")
        return [name for name in names if name.startswith(last)]
    program = PROGRAMS.get(before[0])
    if program is None:
        return []
    key, equals, value = last.partition("=")
    stored = _stored()
    named = [program.config, *(word.replace("=", "/") for word in before)]  # as network=denoiser
    keys = next((dict(stored[name]) for name in reversed(named) if name in stored), {})
    if not equals:  # keys up to their next full stop: sections first, what is in them once they are typed
        depth = last.count(".") + 1
        full = (f"{name}=" for name in keys if name.startswith(last))
        short = (".".join(n.split(".")[:depth]) + "." * (n.count(".") >= depth) for n in full)
        return list(dict.fromkeys(short)) + (paths(last) if "." not in last or "/" in last else [])
    if choices := keys.get(key):
        return [f"{key}={choice}" for choice in choices if choice.startswith(value)]
    return [f"{key}={path}" for path in paths(value)] if key.split(".")[-1].endswith(PATHS) else []


def paths(start: str) -> list[str]:
    """Files and folders whose names begin so; folders end with a slash."""
    folder, _, name = start.rpartition("/")
    place = Path(folder or ("/" if start.startswith("/") else ".")).expanduser()
    prefix = f"{folder}/" if "/" in start else ""
    try:
        found = sorted(path for path in place.iterdir() if path.name.startswith(name))
    except OSError:
        return []
    shown = (path for path in found if name.startswith(".") or not path.name.startswith("."))
    return [f"{prefix}{path.name}{'/' if path.is_dir() else ''}" for path in shown]


def _stored() -> dict[str, Any]:
    try:
        return dict(json.loads((folder_of("conf") / KEYS).read_text()))
    except (OSError, ValueError):
        return {}
