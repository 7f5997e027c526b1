"""Links of pages to files of the repository that are not pages themselves: code, tests, manifests."""

import os
import pathlib
import posixpath
import urllib.parse

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

SOURCE = os.environ.get("TOPOLOG_DOCS_SOURCE", "").rstrip("/")
"""The URL below which the files of this version are shown, such as a tag's; else a link is its text."""


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension with Sphinx."""
    # Before Sphinx collects the files that it offers as downloads (priority 500).
    app.connect("doctree-read", link, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link(app: Sphinx, document: nodes.document) -> None:
    """Replace each reference to a file that is not a page by a link to its source."""
    folder = pathlib.PurePosixPath(app.env.docname).parent
    for found in list(document.findall(addnodes.download_reference)):
        path = posixpath.normpath(folder / urllib.parse.unquote(found["reftarget"]))
        if SOURCE:
            address = f"{SOURCE}/{urllib.parse.quote(path)}"
            found.replace_self(nodes.reference("", "", *found.children, refuri=address, internal=False))
        else:
            found.replace_self(list(found.children))
