"""A terminal shows what a command waits for, and a file does not."""

import contextlib
import os
import pathlib
import pty
import secrets
import sys

import pytest
from click import testing

from app import cli
from app.cli.output import progress
from app.store import stores
from app.store.checkpoints import archive_storage, archives
from app.store.server import embedded
from migrations import runner
from tests.support import polling
from tests.support.store import writers


def test_a_terminal_shows_what_is_waited_for_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    seen = bytearray()

    def shows(text: bytes) -> bool:
        seen.extend(os.read(master, 4096))
        return text in seen

    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress.shown("waiting", each=0.01) as line:
            polling.eventually(lambda: shows(b"waiting (0 s)"), "the first text", every=0.0)
            line.text = "half of it"
            polling.eventually(lambda: shows(b"half of it ("), "the second text", every=0.0)
        polling.eventually(lambda: shows(b"\r\x1b[K"), "the end", every=0.0)
    os.close(master)
    assert seen.endswith(b"\r\x1b[K")


def test_a_file_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("waiting", each=0.0) as line:
        line.text = "still"
    assert capsys.readouterr().err == ""


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the line of a command shows, one text after the other."""
    seen: list[str] = []

    class Line:
        def __setattr__(self, name: str, value: str) -> None:
            seen.append(value)

    def shown(text: str) -> contextlib.AbstractContextManager[Line]:
        seen.append(text)
        return contextlib.nullcontext(Line())

    monkeypatch.setattr(progress, "shown", shown)
    return seen


def test_an_archive_is_verified_file_by_file(
    store: stores.Store, tmp_path: pathlib.Path, texts: list[str]
) -> None:
    for number in range(4):
        writers.facts(store.log, store.follower.catch_up(), [writers.seen(f"u{number}")])
    archive = archives.Archive(archive_storage.Folder(tmp_path / "berlin"), "berlin", lambda: "i")
    archive.keep_segment(store.log.raws(0, 2), "i")
    archive.keep_segment(store.log.raws(2, 4), "i")
    environ = {"TOPOLOG_CLUSTER": "berlin", "TOPOLOG_COMPACTION_ARCHIVE": str(tmp_path)}
    done = testing.CliRunner().invoke(cli.topolog, ["archive", "verify"], env=environ)
    assert done.exit_code == 0, done.output
    place = tmp_path / "berlin"
    counted = [f"verifying {place}: {number} of 2 files" for number in (1, 2)]
    assert texts == [f"verifying {place}", *counted]


def test_an_upgrade_names_each_stage(store_server: embedded.Server, texts: list[str]) -> None:
    environ = {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": f"c{secrets.token_hex(6)}"}
    done = testing.CliRunner().invoke(cli.topolog, ["migrate", "up"], env=environ)
    assert done.exit_code == 0, done.output
    first, *stages = texts
    assert first == "upgrading the store"
    assert stages[0].startswith("upgrading the store: m0001 ")
    assert stages[-1] == "upgrading the store: counts"
    assert len(stages) > runner.latest()
    texts.clear()
    again = testing.CliRunner().invoke(cli.topolog, ["migrate", "up"], env=environ)
    assert again.exit_code == 0
    assert texts == ["upgrading the store", "upgrading the store: counts"]
