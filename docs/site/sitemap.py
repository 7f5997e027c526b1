"""Writes sitemap.xml beside the pages, which search engines read (sitemaps.org).

It holds whole addresses, so it is written only if that of the site is given: ``make docs URL=https://...``.
"""

import html
import pathlib

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension with Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the file after a build of pages that has succeeded."""
    address = app.config.html_baseurl.rstrip("/")
    if exception is not None or app.builder.format != "html" or not address:
        return
    pages = [f"{address}/{app.builder.get_target_uri(page)}" for page in sorted(app.env.found_docs)]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
        *(f"  <url><loc>{html.escape(page)}</loc></url>" for page in pages),
        "</urlset>",
    ]
    pathlib.Path(app.outdir, "sitemap.xml").write_text("\n".join(lines) + "\n", encoding="utf-8")
