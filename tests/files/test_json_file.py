"""JSON from anyone is names and values of a size that is allowed, or an error."""

import pytest

from ptycho.files.json_file import read_json


def test_names_and_values_are_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a": [1, null]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"a": [1, None]}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"[1]", "names and values"),
        (b"[" * 200_000, "nested too deep"),
        (b'{"a": ', "Expecting value"),
        (b'{"a": "\xff"}', "can't decode"),
        (b'{"a": "%s"}' % (b"a" * 2**20), "it has 1048585 bytes"),
    ],
)
def test_anything_else_is_a_value_error(tmp_path, content, match):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_json(tmp_path / "a.json", 2**20)
