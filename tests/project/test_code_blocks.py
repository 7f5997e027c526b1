"""The code blocks of the documentation: each has a language; commands are run or name why not.

A block of commands has the language `console`. tests/cli/questions/test_console_blocks.py,
tests/e2e/installation/test_console_blocks.py and tests/e2e/installation/test_readme.py run all of them,
except those below a comment `<!-- not run: REASON -->`.
"""

import pathlib
import re

import pytest

from tests.support import documented_commands, how_to_pages

NOT_RUN = {
    "needs a container runtime": 4,
    "needs a bucket of a provider": 1,
    "needs a StorageClass with snapshots": 2,
    "needs a StorageClass that enlarges volumes": 1,
}
"""Reason -> blocks."""


@pytest.mark.parametrize("path", how_to_pages.paths(), ids=how_to_pages.name)
def test_every_block_is_fenced_at_the_margin_and_has_a_language(path: pathlib.Path) -> None:
    lines = path.read_text().splitlines()
    fences = [line for line in lines if re.match(r"\s*(```|~~~)", line)]
    assert all(re.fullmatch(r"```\w+", line) for line in fences[::2]), fences
    assert set(fences[1::2]) <= {"```"}
    outside = re.sub(r"^```\w+$.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"^(    |\t)\S", outside, re.MULTILINE), "an indented block has no language"


def test_the_blocks_that_no_test_runs_are_these() -> None:
    reasons = [block.reason for block in how_to_pages.console() if block.reason]
    assert {reason: reasons.count(reason) for reason in reasons} == NOT_RUN
    run = [
        block
        for cluster in (True, False)
        for each in how_to_pages.sessions(cluster=cluster).values()
        for block in each
    ]
    assert len(run) + len(reasons) == len(how_to_pages.console()) > 50


def test_each_block_of_a_page_has_its_own_reason() -> None:
    text = "".join(f"<!-- not run: {reason} -->\n```console\n{reason}\n```\n\n" for reason in "ab")
    found = how_to_pages.commands_of("page.md", text + "```console\nc\n```\n")
    assert [(block.line, block.text, block.reason) for block in found] == [
        (3, "a\n", "a"),
        (8, "b\n", "b"),
        (12, "c\n", ""),
    ]


def test_a_command_is_in_a_block_of_commands() -> None:
    """One that is marked as text would not be run."""
    command = re.compile(r"^(\S+=\S+ )?(topolog|kubectl|helm|docker|make|git) [a-z]", re.MULTILINE)
    for path in how_to_pages.paths():
        for text in how_to_pages.fenced(path, "text"):
            assert not command.search(text), path


def test_no_command_has_a_secret_among_its_arguments() -> None:
    """Other users of the machine see arguments, and the shell keeps them."""
    assert [block for block in how_to_pages.console() if "--from-literal" in block.text] == []


def test_private_keys_are_written_to_files_of_their_owner_alone() -> None:
    writes = re.compile(r"tls\.key\b.* > ", re.DOTALL)
    written = [block for block in how_to_pages.console() if writes.search(block.text)]
    assert {block.page for block in written} == {"certificates.md", "install-existing-scheduler.md"}
    assert [block for block in written if "umask 077\n" not in block.text] == []


PAGES = sorted(
    path
    for folder in ("", "docs/**/", "deploy/**/", "app/plugins/*/")
    for path in how_to_pages.ROOT.glob(f"{folder}*.md")
)


def test_every_command_that_a_page_names_exists() -> None:
    """Also where it is part of a sentence and is not run."""
    named = [(path, each) for path in PAGES for each in documented_commands.named(path.read_text())]
    assert len(named) > 300
    assert [(str(path), each) for path, each in named if documented_commands.unknown(each)] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`topolog gets pods`", "gets"),
        ("`kubectl topolog get pods --al`", "--al"),
        ("```console\nA=b topolog doctor tls \\\n  --nope | head -1\n```\n", "--nope"),
        ("`topolog doctor AREA -o json`", ""),
    ],
)
def test_a_command_or_option_that_does_not_exist_is_found(text: str, missing: str) -> None:
    (arguments,) = documented_commands.named(text)
    assert documented_commands.unknown(arguments) == missing
