"""The contents of the site, appended to its first page: the repository's readers need no toctree."""

import pathlib

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

CONTENTS = pathlib.Path(__file__).with_suffix(".md")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension with Sphinx."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def append(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the contents to the text of the first page, the only item of source."""
    if page == app.config.root_doc:
        source[0] += "\n" + CONTENTS.read_text(encoding="utf-8")
