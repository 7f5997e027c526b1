"""Docs, docstrings, comments, messages and names use the field's words (tests.project.words has the list)."""

import pathlib
import re
from typing import NamedTuple

import pytest

from tests.project import reference_pages, words

ROOT = reference_pages.ROOT

CHECKED = (
    "*.md",
    "docs",
    "deploy",
    "Makefile",
    "setup.cfg",
    "app",
    "workers",
    "migrations",
    "tests",
)
"""Files, patterns of files, and folders."""
PRODUCT = ("app", "workers", "migrations", "deploy")


class Allowed(NamedTuple):
    """A right use of a word."""

    path: str
    word: str
    text: str
    """A part of the line; empty for every line of the file."""
    reason: str


ALLOWED = (
    Allowed("docs/promises.md", "promises", "", "the page of promises to users: people promise"),
    Allowed("docs/promises.md", "promise", "", "the page of promises to users: people promise"),
    Allowed("docs/index.md", "promises", "(promises.md)", "the title of that page"),
    Allowed("docs/glossary.md", "", "|", "the table of former words names them"),
    Allowed("CODE_OF_CONDUCT.md", "know", "others know", "people"),
    Allowed("docs/index.md", "know", "| know ", "what the reader wants"),
    Allowed("docs/how-to/write-a-plugin.md", "know", "You need to know", "what the reader needs"),
    Allowed(
        "docs/decisions/0025-a-situation-is-events-on-a-snapshot.md", "know", "People want to know", "people"
    ),
    Allowed("docs/decisions/0031-a-chain-follows-the-log.md", "know", "operators know", "people"),
    Allowed("app/api/v1/consistency.py", "passes over", "Passes over", "the auditor's passes over the log"),
    Allowed(
        "app/domain/audit/findings.py", "passes over", "passes over", "the auditor's passes over the log"
    ),
    Allowed(
        "app/api/dashboard/static/views/health.js",
        "passes over",
        "passes over",
        "the auditor's passes over the log",
    ),
    Allowed(
        "workers/auditor/log_integrity.py", "passes over", "passes over", "the auditor's passes over the log"
    ),
    Allowed("app/store/server/acl.py", "anybody", "_ANYBODY", "commands that any user may run"),
    Allowed("app/store/server/acl.py", "nobody", "SETUSER nobody", "a user name, for a dry run"),
    Allowed("app/store/server/embedded.py", "tell", "sink.tell()", "a method of files"),
    Allowed("migrations/upcasters/placement_released.py", "", '"', "sentences in logs of version 1"),
    Allowed("tests/migrations/test_upcasters.py", "", '", "', "sentences in logs of version 1"),
    Allowed("tests/migrations/schemas/1.lua", "", "", "the functions of schema 1 as they were"),
    Allowed("tests/project/words.py", "", "", "the list"),
    Allowed("tests/project/test_promises.py", "promises", "", "the title of that page"),
    Allowed("tests/project/test_words.py", "", "", "the exceptions, and uses that are wrong on purpose"),
)


def allows(entry: Allowed, found: words.Found) -> bool:
    """Whether the entry is about this occurrence."""
    return (
        entry.path == found.path
        and entry.word in ("", found.word)
        and entry.text.lower() in found.text.lower()
    )


@pytest.fixture(scope="module")
def found() -> list[words.Found]:
    """Every occurrence in what is checked."""
    paths: list[pathlib.Path] = [path for pattern in CHECKED for path in sorted(ROOT.glob(pattern))]
    assert len(paths) >= len(CHECKED)
    return words.in_paths(paths)


def test_no_word_to_avoid_is_used(found: list[words.Found]) -> None:
    left = [one for one in found if not any(allows(entry, one) for entry in ALLOWED)]
    assert not left, "\n" + "\n".join(map(str, left))


@pytest.mark.parametrize("entry", ALLOWED, ids=lambda entry: f"{entry.path} {entry.word}")
def test_every_allowance_is_used_and_has_its_reason(entry: Allowed, found: list[words.Found]) -> None:
    assert entry.reason
    assert any(allows(entry, one) for one in found)


def test_the_docstring_of_a_product_module_begins_with_its_subject() -> None:
    """Not with a question: `Checks whether ...` or `The rules of ...`, not `Whether ...`."""
    modules = [path for top in PRODUCT for path in sorted((ROOT / top).rglob("*.py"))]
    assert len(modules) > 300
    question = re.compile(r'"""(How|What|When|Where|Whether|Which|Who|Why)\b')
    assert [str(path) for path in modules if question.match(path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", '"""Line.\n\nA pod is told the news.\n"""\n', [(3, "told")]),
        ("a.py", "def as_told(): ...\n", [(1, "told")]),
        ("a.py", "class SightOf: ...\n", [(1, "sight")]),
        ("a.py", "x = 1  # nobody reads it\n", [(1, "nobody")]),
        ("a.py", 'x = f"{y} stands by"\n', [(1, "stands by")]),
        ("a.py", '"""It is taken\nback."""\n', [(1, "taken back")]),
        ("a.py", '"""It is no bundle, and there is no event."""\n', [(1, "is no bundle")]),
        ("a.py", "insight = foretell = retold = 1\n", []),
        ("a.py", "def knows(x): ...  # it looked at it\n", [(1, "knows"), (1, "looked at")]),
        (
            "a.py",
            '"""A node that has come is to\nrun; None if none does."""\n',
            [(1, "has come"), (1, "is to run"), (2, "none if none")],
        ),
        ("a.py", '"""It comes first, is known, looks up x, and is sent to be read."""\n', []),
        (
            "a.md",
            "From the beginning,\npast the store's function\n",
            [(1, "beginning"), (2, "past the store's function")],
        ),
        ("a.lua", "-- it says so\nlocal told\n", [(1, "says"), (2, "told")]),
        ("a.go", 'func told() error { return errorOf("it says") }\n', [(1, "told"), (1, "says")]),
        ("a.js", "// whoever\nnew Promise(told);\n", [(1, "whoever"), (2, "told")]),
        ("a.yaml", "# whoever\nkey: told\n", [(1, "whoever"), (2, "told")]),
        ("Makefile", "a: ## tell\n", [(1, "tell")]),
        ("a.md", "It says\n`told` and [x](told.md)\n```\ntold\n```\ntold\n", [(1, "says"), (6, "told")]),
    ],
)
def test_an_occurrence_is_reported_with_its_line(
    name: str,
    text: str,
    expected: list[tuple[int, str]],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    assert [(one.line, one.word) for one in words.in_paths([tmp_path])] == expected
    assert all(str(one).startswith(f"{name}:{one.line}: ") for one in words.in_paths([tmp_path / name]))
