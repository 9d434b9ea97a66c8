"""Names of files may hold control characters; none reaches the terminal."""

import logging

from ptycho.command_line.jobs import fail
from ptycho.progress import PlainFormatter, printable

HOSTILE = "a\x1b]0;owned\x07\x1b[2Jµ ü\u202e\udcff.h5"


def steers(text):
    return any(not letter.isprintable() and letter not in "\n\t" for letter in text)


def test_what_steers_a_terminal_is_replaced_and_all_else_stays():
    assert printable(HOSTILE) == "a·]0;owned··[2Jµ ü··.h5"
    assert printable("two\nlines\twith ü") == "two\nlines\twith ü"


def test_neither_an_error_nor_a_line_of_a_log_steers_the_terminal(capsys):
    assert fail(ValueError(f"{HOSTILE}: no such file"), (ValueError,)) == 2
    printed = capsys.readouterr().err
    assert "no such file" in printed and not steers(printed)
    record = logging.LogRecord("x", logging.INFO, "", 0, "reading %s", (HOSTILE,), None)
    line = PlainFormatter("%(message)s").format(record)
    assert line.startswith("reading a·") and not steers(line)
