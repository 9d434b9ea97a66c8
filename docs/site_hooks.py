"""For MkDocs: the README is the first page, and links between it and the pages hold in the site, too."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]


def on_files(files, config):
    """The README as a page beside those of ``docs/``."""
    text = (ROOT / "README.md").read_text()
    files.append(File.generated(config, "README.md", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as they are in the repository, as they are in the site; to code as text."""
    if page.file.src_uri == "README.md":
        return re.sub(r"\]\((?!https?:)docs/", "](", _without_code_links(markdown, "README.md", files))
    return _without_code_links(markdown.replace("](../README.md", "](README.md"), page.file.src_uri, files)


def _without_code_links(markdown, source, files):
    """``[words](../ptycho/file.py)`` as words: the site has pages, no code."""

    def link(match):
        words, target = match.groups()
        name = target.partition("#")[0].removeprefix("docs/")
        known = not name or re.match(r"https?:|mailto:", name) or files.get_file_from_path(name)
        return match.group(0) if known else words

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, markdown)


def on_page_content(html, page, config, files):
    """Roles of docstrings, ``:func:`` and their like, stand before code that links itself."""
    return re.sub(r":(func|class|meth|mod|attr|data|exc):(?=<code>)", "", html)
