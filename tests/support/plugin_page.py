"""The code blocks of docs/how-to/write-a-plugin.md, and the distribution that a reader builds from them."""

import pathlib
import re
import tomllib
from typing import Any

import yaml

from tests.support import distributions

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "how-to" / "write-a-plugin.md"
NAME = "pod-limits"
MODULES = ("pod_limits", "pod_limit_questions")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """The blocks of one language, in order."""
    return [text for found, text in _BLOCK.findall(PAGE.read_text()) if found == language]


def sources() -> dict[str, str]:
    """The modules of the plugin: the first blocks of the page."""
    return dict(zip(MODULES, blocks("python"), strict=False))


def objects(kind: str) -> list[dict[str, Any]]:
    """The objects of one kind, from all manifests of the page."""
    found = [each for text in blocks("yaml") for each in yaml.safe_load_all(text)]
    return [each for each in found if each["kind"] == kind]


def install(site: pathlib.Path) -> None:
    """Install the distribution as its pyproject.toml declares it."""
    (declared,) = blocks("toml")
    project = tomllib.loads(declared)
    assert project["project"]["name"] == NAME
    assert project["project"]["version"] == distributions.VERSION
    assert project["tool"]["setuptools"]["py-modules"] == [*MODULES]
    entries = project["project"]["entry-points"]["topolog.plugins"]
    distributions.install(site, NAME, entries, sources())
