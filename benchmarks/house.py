"""The size of the code in numbers: lines, keys, bodies of functions, docstrings with shapes, layers.

    python -m benchmarks.house

Lines of product are those of ``ptycho``, ``workflows`` and ``scripts``; optional parts are in ``extras``. A
code line has a token that is neither comment nor docstring. The layer of a package is one above the highest
layer from which it imports.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tabulate import tabulate

ROOT = Path(__file__).parents[1]
PRODUCT = ("ptycho", "workflows", "scripts")
ARRAY = re.compile(r"np\.ndarray|tf\.Tensor|Waves|Regions")
SHAPE = re.compile(r"``\(|\([A-Z…][^)]*,[^)]*\)|``[A-Za-z_|²Σ]+ \(")


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def code_lines(path: Path) -> int:
    """Return the number of lines with a token that is neither a comment nor a docstring."""
    text = path.read_text(encoding="utf-8")
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, *layout):
            held |= set(range(token.start[0], token.end[0] + 1))
    return len(held - documented)


def functions(paths: list[Path]) -> Iterator[ast.FunctionDef]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield node


def body_length(function: ast.FunctionDef) -> int:
    """Return the number of lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def tells_shapes(function: ast.FunctionDef) -> bool:
    return bool(SHAPE.search(ast.get_docstring(function) or ""))


def takes_arrays(function: ast.FunctionDef) -> bool:
    public = not function.name.startswith("_") and ast.get_docstring(function) is not None
    hints = [a.annotation for a in function.args.args] + [function.returns]
    return public and any(hint is not None and ARRAY.search(ast.unparse(hint)) for hint in hints)


def keys() -> int:
    """Return the number of keys of all programs, as listed in the generated page."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    return sum(line.startswith("| `") for line in page.splitlines())


def floors(package: str = "ptycho") -> dict[str, int]:
    """Return the layer of each package; a module beside the packages counts as a package."""
    imports: dict[str, set[str]] = {}
    for path in sources(package):
        part = path.relative_to(ROOT / package).with_suffix("").parts[0]
        if part == "__init__":
            continue
        imported = imports.setdefault(part, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.module if isinstance(node, ast.ImportFrom) else None
            if name and name.startswith(f"{package}."):
                imported.add(name.split(".")[1])
            elif isinstance(node, ast.ImportFrom) and name == package:
                imported |= {alias.name for alias in node.names}
    imports = {part: (names & imports.keys()) - {part} for part, names in imports.items()}
    layers: dict[str, int] = {}
    while len(layers) < len(imports):
        ready = {part for part in imports.keys() - layers.keys() if imports[part] <= layers.keys()}
        if not ready:
            raise SystemExit(f"circular imports: {', '.join(sorted(imports.keys() - layers.keys()))}")
        layers |= {part: 1 + max((layers[other] for other in imports[part]), default=0) for part in ready}
    return layers


def constants(paths: list[Path]) -> int:
    """Count the numbers to which module-level names in capitals are bound, bits of enumerations included."""
    count = 0
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [
                pair
                for target in targets
                for pair in (
                    zip(target.elts, node.value.elts, strict=False)
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                    else [(target, node.value)]
                )
            ]
            count += sum(isinstance(t, ast.Name) and t.id.isupper() and _is_number(v) for t, v in pairs)
    return count


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression is arithmetic of numbers."""
    inner = list(ast.walk(node))
    numbers = [one for one in inner if isinstance(one, ast.Constant)]
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(isinstance(one, allowed) for one in inner) and any(
        isinstance(one.value, int | float) and not isinstance(one.value, bool) for one in numbers
    )


def patches(path: Path) -> int:
    return len(re.findall(r"setattr\([^)]*[\"\'.][A-Z_]{3,}[\"\'],", path.read_text(encoding="utf-8")))


def takes_configuration(function: ast.FunctionDef) -> bool:
    hints = [ast.unparse(a.annotation) for a in function.args.args if a.annotation is not None]
    return any(hint in ("ScanRunConfig", "RunConfig", "JobConfig", "NetworkConfig") for hint in hints)


def main() -> None:
    product, parts = sources(*PRODUCT), sources("extras")
    tests = [*sources("tests"), *(path for path in parts if "tests" in path.parts)]
    parts = [path for path in parts if "tests" not in path.parts]
    bodies = np.array([body_length(function) for function in functions(product)])
    arrays = [function for function in functions(sources("ptycho")) if takes_arrays(function)]
    shaped = 100 * np.mean([tells_shapes(function) for function in arrays])
    rows = [
        ("lines of product", lines(product)),
        ("code lines of product", sum(map(code_lines, product))),
        ("lines of the optional parts", lines(parts)),
        ("lines of benchmarks", lines(sources("benchmarks"))),
        ("lines of tests, files", f"{lines(tests)}, {len(tests)}"),
        ("keys of the configuration, all programs", keys()),
        ("layers of the library", max(floors().values())),
        ("modules of product", len(product)),
        ("numeric module constants in ptycho/", constants(sources("ptycho"))),
        (
            "functions in ptycho/ that take a whole configuration",
            sum(map(takes_configuration, functions(sources("ptycho")))),
        ),
        ("tests that patch a name in capitals", sum(map(patches, tests))),
        ("functions", len(bodies)),
        ("body of a function, 90th percentile", f"{np.percentile(bodies, 90):.0f}"),
        ("body of a function, largest", int(bodies.max())),
        ("documented functions of arrays whose docstring gives shapes", f"{shaped:.0f} % of {len(arrays)}"),
    ]
    print(tabulate(rows, headers=("what", "now"), tablefmt="pipe"))


if __name__ == "__main__":
    main()
