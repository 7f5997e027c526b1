"""README, tutorial and how-to pages: their code blocks, and the command that each shows with its output."""

import pathlib
import re
from dataclasses import dataclass

import app
from tests.support import commands

ROOT = pathlib.Path(app.__file__).parent.parent
_FOLDER = ROOT / "docs" / "how-to"
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_OF_A_CLUSTER = re.compile(
    r"^git clone|^make demo|\b(kubectl|helm)\b|\btopolog (bootstrap|up|doctor (?!store))", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of a code block in the language `console`."""

    page: str
    line: int
    text: str
    reason: str
    """Why no test runs it, from the comment above it; empty if one does."""


def paths() -> list[pathlib.Path]:
    """Both READMEs, the tutorial, and all how-to pages."""
    readmes = (ROOT / "README.md", ROOT / "deploy" / "README.md")
    return [*readmes, ROOT / "docs" / "tutorial.md", *sorted(_FOLDER.glob("*.md"))]


def name(path: pathlib.Path) -> str:
    """How a page is called here: a page of the documentation by its file, a README by its path."""
    return path.name if path.is_relative_to(ROOT / "docs") else str(path.relative_to(ROOT))


def fenced(path: pathlib.Path, language: str) -> list[str]:
    """The code blocks of a file in a language, in their order."""
    return [each["text"] for each in _FENCE.finditer(path.read_text()) if each["language"] == language]


def console() -> list[Block]:
    """The commands of these pages."""
    return [block for path in paths() for block in commands_of(name(path), path.read_text())]


def commands_of(page: str, text: str) -> list[Block]:
    """The commands of a page with this text."""
    return [
        Block(page, text.count("\n", 0, each.start("text")) + 1, each["text"], each["reason"] or "")
        for each in _FENCE.finditer(text)
        if each["language"] == "console"
    ]


def sessions(*, cluster: bool) -> dict[str, list[Block]]:
    """Page -> the blocks that are run, of the pages that need a cluster, or of the others."""
    pages: dict[str, list[Block]] = {}
    for block in console():
        if not block.reason:
            pages.setdefault(block.page, []).append(block)
    return {
        page: blocks
        for page, blocks in pages.items()
        if any(_OF_A_CLUSTER.search(block.text) for block in blocks) == cluster
    }


def page(name: str) -> str:
    """The text of a page."""
    return (_FOLDER / name).read_text()


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a how-to page in a language, such as "json", in their order."""
    return fenced(_FOLDER / name, language)


def scored(named: str, old: str, new: str, folder: pathlib.Path) -> list[str]:
    """The output of the page's first command for its cluster with one text replaced, by line."""
    (cluster,), plain = blocks(named, "json"), blocks(named, "console")
    assert old in cluster
    setting, program, command, name = plain[0].split()
    assert program == "topolog"
    variable, _, value = setting.partition("=")
    file = folder / name
    file.write_text(cluster.replace(old, new))
    done = commands.called(command, str(file), **{variable: value})
    return [line.rstrip() for line in done.stdout.splitlines()]
