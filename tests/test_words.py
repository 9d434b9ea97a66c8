"""The words that users and engineers read: the field's vocabulary, short sentences, a README of two pages.

The pages, help texts, findings, messages, the templates of the report, docstrings and comments are checked.
Names of keys, flags and files stand in backticks or code blocks, and are not checked.
"""

import ast
import re
import statistics
import tokenize

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT
from helpers.keys import sections

from ptycho.config.messages import fields_of
from workflows.write_conf import programs

PARTS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("extras/*/ptycho_*"))
FOLDERS = ["ptycho", "workflows", *PARTS, "scripts", "examples", "benchmarks"]
FORBIDDEN = {  # private word: the field's word
    r"(kept|keep|keeps|keeping) out": "held-out, hold out",
    r"left out of (the|a|any) fit": "held-out",
    r"freed|(?<!degrees of )freedoms?|(is|are|be|probe|positions) free": "refined",
    r"told(?! apart)|untold": "nominal, initial, specified, flagged",
    r"understood": "findings, how the file was read",
    r"slips?": "position jumps",
    r"shadows?": "parallax",
    r"judged?|judges|judging|judgements?": "validation, assessed, scored",
    r"nights?": "a batch of scans",
    r"what came|what is (said|made)": "the thing's own name",
    r"smells?": "looks like a near field",
    r"lonely|lone": "isolated",
    r"lit|unlit|(?<!speed of )light": "illuminated, intensity, dose, photons",
    r"opinions?|pull(ed)? towards": "plug-and-play term",
    r"slow phases?": "low spatial frequencies",
    r"larger pixels|begins? coarse|coarse start": "multiresolution, downsampled",
    r"competitors?": "models",
    r"gone on with|goes on with|passed over": "resumed, skipped",
    r"the door": "the Python interface",
    r"strangers?": "untrusted files",
    r"wishes": "upper limits",
    r"grown|growing": "live",
    r"thrown": "projected",
    r"offer(s|ed)?": "select by cross-validation",
    r"dearer|nobody|heard of": "slower; a passive or a subject",
    r"(given|stated|told) positions": "nominal positions",
    r"nothing seen": "not illuminated, no object",
    r"probe is own|own probe of the file": "from the file",
    r"go(es)? on with": "resume",
    r"as far as .* looked at|that were looked at": "inspected",
    r"lie(s)? far from all others": "isolated positions",
    r"(says?|states?) it|would state it": "set the key to …",
    r"asked for": "specified",
}
BELOW = [  # second level, written alike
    "large.md",
    "walkthroughs.md",
    "gallery.md",
    "development.md",
    "notes/near_fields.md",
    "notes/flags.md",
    "notes/positions.md",
    "notes/solver.md",
    "benchmarks.md",
    "architecture.md",
    "notes/grid_lines.md",
    "notes/pretrained.md",
    "xla.md",
    "export.md",
]
GENERATED = {"reference.md"}  # written from the schema, and from docstrings
PROSE = re.compile(r"[a-z,;:)]\s+[a-z(]", re.I)  # two words at least
MEDIAN, LONG = 15, 26  # words of a sentence, and of the longest but a tenth


def entries():
    """The first level of the menu: the file of a page, or a list of pages, the first of which counts."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    return [entry if isinstance(entry, str) else next(iter(entry.values())) for entry in nav]


def pages():
    """Pages that are written by hand: those of the first level, and some of the second."""
    found = [page for entry in entries() for page in ([entry] if isinstance(entry, str) else entry[:1])]
    return [*(page for page in found if page not in GENERATED), *BELOW]


def text_of(page):
    return (ROOT / page if page == "README.md" else ROOT / "docs" / page).read_text()


def words_of(text):
    """The text without code, generated parts, targets of links, and what stands before the page."""
    text = re.sub(r"(?s)\A---\n.*?\n---\n", "", text)
    text = re.sub(r"(?s)<!-- >>>.*?<!-- <<< -->", "", text)
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = re.sub(r"(?m)^    (?!\s*[-*] ).*$", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "`", text)


def private_words(text):
    plain = re.sub(r"\s+", " ", words_of(text))
    found = [
        (match.group(0), instead)
        for pattern, instead in FORBIDDEN.items()
        for match in re.finditer(rf"(?<![\w-])({pattern})(?![\w-])", plain, re.I)
    ]
    return [f"{word!r}: write {instead}" for word, instead in found]


def sentence_lengths(text):
    """Numbers of words of the sentences; headings, tables and pictures are none."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"(?m)^(#.*|\|.*)$", "\n", words_of(text))
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-*\d]+\.? )", text)
    sentences = [
        sentence for block in blocks for sentence in re.split(r"(?<=[.!?:])[*)]*\s+(?=[A-Z`*(“])", block)
    ]
    return [count for sentence in sentences if (count := len(re.findall(r"[\w`][^\s]*", sentence))) > 1]


@pytest.mark.parametrize("page", [*pages(), "configuration.md"])
def test_pages_have_the_words_of_the_field(page):
    assert private_words(text_of(page)) == []


@pytest.mark.parametrize("page", pages())
def test_sentences_are_short(page):
    lengths = sentence_lengths(text_of(page))
    assert statistics.median(lengths) <= MEDIAN
    assert np.percentile(lengths, 90) <= LONG


def strings_of(path):
    """Line and text of every string and docstring of a file; values in an f-string are a ``` ` ```."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts_of_text = (part.value if isinstance(part, ast.Constant) else "`" for part in node.values)
            yield node.lineno, "".join(parts_of_text)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def comments_of(path):
    """Line and text of every comment of a file; comments on successive lines of their own are one text."""
    with tokenize.open(path) as file:
        tokens = tokenize.generate_tokens(file.readline)
        comments = [token for token in tokens if token.type == tokenize.COMMENT]
    texts, first, last = {}, 0, 0  # texts by their first line; first and last line of the latest one
    for comment in comments:
        line, own_line = comment.start[0], comment.line.lstrip().startswith("#")
        first = first if own_line and line == last + 1 else line
        texts[first] = f"{texts.get(first, '')} {comment.string.lstrip('# ')}"
        last = line if own_line else 0
    return texts.items()


def prose_of(text):
    """The text without code, and with the texts of arguments and attributes, but without their names."""
    text = re.sub(r"(?s)``(.*?)``", r"`\1`", text)
    text = re.sub(r"\S+=\S+", "`", text)
    return re.sub(r"(?m)^ +(\w+(, \w+)*: )?", "", text)


def private_words_in(path):
    """Private words of the strings and comments of a file, each after the line where its text begins."""
    texts = sorted([*strings_of(path), *comments_of(path)])
    prose = [(line, prose_of(text)) for line, text in texts if PROSE.search(text)]
    return [f"{line} {word}" for line, text in prose for word in private_words(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_texts_and_comments_of_the_code_have_them_too(folder):
    """Help texts of all keys, findings, log lines, remedies, errors, docstrings."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    wrong = [f"{path.relative_to(ROOT)}:{word}" for path in paths for word in private_words_in(path)]
    assert paths
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("files", ["conf/**/*.yaml", "extras/report/**/*.j2"])
def test_settings_and_templates_have_them_too(files):
    lines = [line for path in sorted(ROOT.glob(files)) for line in path.read_text().splitlines()]
    texts = [re.sub(r"\{[{%].*?[}%]\}|<[^>]*>", " ` ", line).strip() for line in lines]
    assert [(line, words) for line in texts if (words := private_words(line))] == []


def test_help_texts_stand_alone():
    """They begin with a noun or a verb, not with what is said of the name of the key."""
    classes = {section for _, schema in programs().values() for section in sections(schema)}
    fields = [field for cls in classes for field in fields_of(cls).values() if field.description]
    unfinished = r"^(of|at|in|as|from|to|by|likewise|so many|what|where|which|how|that|these|the same)\b"
    assert len(fields) > 150
    assert [field.description for field in fields if re.match(unfinished, field.description)] == []


def test_pages_keep_their_lengths():
    """The README has two pages and the words of the field, the page of results one, the menu one screen."""
    text = text_of("README.md")
    words = "held-out L-BFGS preconditioner cross-validation maximum-likelihood plug-and-play regularisation"
    assert [word for word in words.split() if word.lower() not in " ".join(text.lower().split())] == []
    assert len(entries()) <= 12 and len(text_of("results.md").split()) <= 2500
    assert len(text.splitlines()) <= 180 and len(text.split()) <= 1300 and len(text.encode()) <= 10_000
    assert len(text.partition("ptycho inspect ")[0].split()) <= 120
