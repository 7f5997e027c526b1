"""Settings of Sphinx for the documentation site (`make docs`).

The source directory is the root of the repository: the pages of plugins stay beside their code, and a
relative link is the one that a reader of the repository follows.
"""

import importlib.metadata
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project = "Topolog"
author = "Topolog's maintainers"
version = release = importlib.metadata.version("topolog")

# Its sidebar is docs/site/contents.md.
root_doc = "README"
include_patterns = ["docs/**", "app/plugins/*/README.md", "deploy/README.md", "*.md"]
exclude_patterns = [".git", ".venv", "build", "docs/site"]
extensions = ["myst_parser", "accessible", "contents", "llms", "sitemap", "source_links"]
# Titles of sections are the targets of links, as in the repository's own rendering.
myst_heading_anchors = 4
# A page may begin with the second level, as the changelog's sections do.
suppress_warnings = ["myst.header"]

templates_path = ["templates"]
html_theme = "furo"
html_favicon = "../../app/api/dashboard/static/icon.svg"
html_title = f"Topolog {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
