"""What the theme's pages lack for a keyboard and a screen reader (WCAG 2.2 A, as axe-core checks it)."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_AFTER_THE_THEME = 900
_WIDE = re.compile(r'<pre>|<div class="table-wrapper[^"]*">')
"""What scrolls sideways: it has to take the focus, so that arrow keys scroll it."""


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", complete, priority=_AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def complete(
    app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    """Complete the text of a page and the tree of its navigation."""
    context["body"] = _WIDE.sub(lambda found: f'{found[0][:-1]} tabindex="0">', context.get("body", ""))
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
