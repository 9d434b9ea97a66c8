"""Untrusted JSON and YAML become values of an allowed size, or an error."""

import os
import re

import pytest
from helpers.cli import ROOT

from ptycho.files.reading import read_json, read_yaml


def bomb(levels):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.json", b'{"a": ', "Expecting value"),
        ("a.json", b'{"a": "%s"}' % (b"a" * 2**20), "it has more than 1048576 bytes"),
        ("a.json", b'{"a": %s}' % (b"9" * 400), "a number in it has 400 digits"),
        ("a.json", b'{"a": %s}' % (b"[" * 100 + b"]" * 100), "nested too deep"),
        ("a.yaml", bomb(9), r"it stands for more than 1048576 values"),
        ("a.yaml", b"a: &a [*a]", "a part of it is in itself"),
        ("a.yaml", b"[" * 200_000, "nested too deep"),
        ("a.yaml", b"a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
    ],
)
def test_anything_but_values_of_an_allowed_size_is_a_value_error(tmp_path, name, content, match):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_json(tmp_path / name, 2**20) if name == "a.json" else read_yaml(tmp_path / name)


def test_aliases_that_stand_for_little_are_read(tmp_path):
    """PyYAML writes aliases if two keys have the same section."""
    (tmp_path / "a.yaml").write_text("a: &x {b: [1, 2]}\nc: *x")
    assert read_yaml(tmp_path / "a.yaml") == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}}


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(ValueError, match="is no file"):
        read_json(tmp_path / "a.json")


def test_json_and_yaml_and_images_are_read_in_one_place():
    """Other code that reads them would not have the limits."""
    alone = re.compile(
        r"json\.loads?\(|yaml\.(safe_)?load|OmegaConf\.load|tifffile\.imread|Image\.open|imread\("
    )
    allowed = {"ptycho/files/reading.py", "workflows/write_conf.py"}  # the latter: what we wrote
    folders = (ROOT / name for name in ("ptycho", "workflows", "scripts"))
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix() for path in sources if alone.search(path.read_text())}
    assert found <= allowed
