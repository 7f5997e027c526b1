"""Writes llms.txt beside the pages: what a language model reads first (llmstxt.org).

It lists the pages of the sidebar (contents.md) with title, address and first paragraph.
"""

import pathlib
import re

import contents
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_TREE = re.compile(r"```\{toctree\}\n(?P<options>(?::[^\n]*\n)*)\n(?P<pages>.*?)```", re.DOTALL)
_CAPTION = re.compile(r"^:caption: (.*)$", re.MULTILINE)
_LONGEST = 300


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension with Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the file after a build of pages that has succeeded."""
    if exception is not None or app.builder.format != "html":
        return
    lines = [f"# {app.config.project}", "", f"> {_first(app, app.config.root_doc)}"]
    for found in _TREE.finditer(contents.CONTENTS.read_text(encoding="utf-8")):
        caption = _CAPTION.search(found["options"])
        lines += ["", f"## {caption[1] if caption else app.config.project}", ""]
        for page in _pages(app, found["pages"]):
            title = app.env.titles[page].astext()
            lines.append(f"- [{title}]({app.builder.get_target_uri(page)}): {_first(app, page)}")
    pathlib.Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pages(app: Sphinx, entries: str) -> list[str]:
    """The pages of the entries of a toctree, each of which may be a pattern."""
    found: list[str] = []
    for entry in entries.split("\n"):
        pattern = entry.rpartition("<")[2].removesuffix(">").strip().lstrip("/")
        if pattern:
            path = pathlib.PurePosixPath
            matching = sorted(page for page in app.env.found_docs if path(page).match(pattern))
            found += [page for page in matching if page.count("/") == pattern.count("/")]
    return list(dict.fromkeys(found))


def _first(app: Sphinx, page: str) -> str:
    """The first paragraph of a page, in one line."""
    found = app.env.get_doctree(page).findall(nodes.paragraph)
    # Not a cell of a table, nor an item of a list.
    paragraph = next((one for one in found if isinstance(one.parent, nodes.section)), None)
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0]} ..."
