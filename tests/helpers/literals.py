"""The texts that a program shows: string literals of more than one word, by ``ast``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROSE = re.compile(r"[a-z,;:)]\s+[a-z(]", re.I)  # two words at least


def literals_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string literal of a file that is no docstring; values in it are a ``` ` ```."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {id(part) for node in ast.walk(tree) for part in _docstring_of(node) + _parts_of(node)}
    for node in ast.walk(tree):
        if id(node) not in hidden and (text := _text_of(node)) is not None and PROSE.search(text):
            yield node.lineno, text


def _docstring_of(node: ast.AST) -> list[ast.AST]:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    return [first.value] if isinstance(first, ast.Expr) else []


def _parts_of(node: ast.AST) -> list[ast.AST]:
    return list(node.values) if isinstance(node, ast.JoinedStr) else []


def _text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values)
    return None
