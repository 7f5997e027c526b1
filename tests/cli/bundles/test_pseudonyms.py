"""``topolog bundle pseudonymize`` and ``translate``: the names stay with who made the bundle."""

import io
import json
import os
import pathlib

import pytest

from tests.support.extender import terminals


def test_the_names_are_beside_the_bundle_and_put_back(
    terminal: terminals.Terminal,
    incident: pathlib.Path,
    url: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = tmp_path / "shared.tar"
    done = terminal.run("bundle", "pseudonymize", incident, "-o", shared)
    assert done.code == 0, done.err
    names = tmp_path / "shared.names.json"
    assert names.stat().st_mode & 0o777 == 0o600
    shown = json.loads(terminal.run("bundle", "inspect", shared, "-o", "json").out)
    assert shown["pseudonyms"] == json.loads(names.read_text())["tag"]
    assert shown["around"].startswith(shown["pseudonyms"])
    monkeypatch.setattr("sys.stdin", io.StringIO(f"see {shown['around']}\n"))
    assert terminal.run("bundle", "translate", "--names", names).out == "see shop/new-300\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("see zzzz-0001-pod\n"))
    other = terminal.run("bundle", "translate", "--names", names)
    assert (other.code, other.out, "another bundle" in other.err) == (1, "see zzzz-0001-pod\n", True)
    assert terminal.run("bundle", "pseudonymize", incident, "-o", shared).code == 2
    created = tmp_path / "created.tar"
    asked = ("--around", "shop/new-300", "--pseudonyms", "-o", created, "--server", url)
    done = terminal.run("bundle", "create", *asked)
    assert (done.code, f"; names in {tmp_path / 'created.names.json'}\n" in done.out) == (0, True)
    assert len(os.listdir(tmp_path)) == 4


def test_of_a_damaged_bundle_nothing_is_written(
    terminal: terminals.Terminal, incident: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(incident.read_bytes()[:4096])
    done = terminal.run("bundle", "pseudonymize", damaged, "-o", tmp_path / "shared.tar")
    assert (done.code, "cut off" in done.err) == (1, True)
    assert os.listdir(tmp_path) == ["damaged.tar"]
