"""``topolog bundle`` against the API over HTTP, and opened as a real process of ``topolog view``."""

import contextlib
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import time
import types
import urllib.request
from collections.abc import Iterator

import pytest

from app.cli.client import moment_option
from app.store.server import embedded
from tests.support import commands
from tests.support.extender import api_worlds, bundled, error_shape, http_servers, terminals

QUESTIONS = (
    "nodes",
    "pending",
    "pods/shop/new-300/explain",
    "frames?from=200&to=300",
    "map?at=250&color=quota:shop/spread",
    "series?of=waiting",
)


@contextlib.contextmanager
def opened(file: pathlib.Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The printed address, and the variables for commands."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "bundle", "open", str(file), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        # Settings of this machine must not matter, nor a proxy of its environment.
        env=commands.environment(
            {
                "TOPOLOG_STORE_URL": "redis://nowhere:1",
                "TOPOLOG_CLUSTER": "mine",
                "http_proxy": "http://127.0.0.1:9",
            }
        ),
    )
    assert process.stdout is not None
    with process.stdout as out:
        lines = [out.readline() for _ in range(4)]
        assert "Ctrl-C" in lines[-1], lines
        (script,) = re.findall(r"\. (/\S+/env);", lines[2])
        assert pathlib.Path(script).parent.stat().st_mode & 0o077 == 0
        listed = re.findall(r"^export (\w+)=(\S+)$", pathlib.Path(script).read_text(), re.MULTILINE)
        try:
            yield lines[1].split()[-1], dict(listed)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    assert not pathlib.Path(script).parent.exists()


def test_create_writes_a_verified_file(
    terminal: terminals.Terminal, url: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "incident.tar"
    made = terminal.run("bundle", "create", "--around", "shop/new-300", "-o", file, "--server", url)
    assert made.code == 0, made.err
    assert re.search(r"offsets \d+ to \d+, \d+ events, \d+ decisions, \d\.\d MiB", made.out)
    assert os.listdir(tmp_path) == ["incident.tar"]
    verified = terminal.run("bundle", "verify", file)
    assert (verified.code, "complete and undamaged" in verified.out) == (0, True)
    shown = json.loads(terminal.run("bundle", "inspect", file, "-o", "json").out)
    assert (shown["around"], shown["members"][-1]["name"]) == ("shop/new-300", "lag.json")
    assert "shop/new-300" in terminal.run("bundle", "inspect", file).out


def test_a_failed_create_leaves_no_file(
    terminal: terminals.Terminal, url: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "b.tar"
    for arguments, code, words in (
        (("--around", "shop/never", "--server", url), 1, "shop/never"),
        (("--from", "99999", "--server", url), 2, "beyond the head"),
        (("--from", "1", "--minutes", "5", "--server", url), 2, "minutes how far a bundle reaches from it"),
        (("--server", "http://127.0.0.1:9"), 5, "unreachable"),
    ):
        done = terminal.run("bundle", "create", "-o", file, *arguments)
        assert (done.code, words in done.err) == (code, True), done
        assert not list(tmp_path.iterdir())
    file.write_text("mine")
    assert terminal.run("bundle", "create", "-o", file, "--server", url).code == 2
    assert file.read_text() == "mine"
    assert terminal.run("bundle", "create", "-o", tmp_path / "no" / "b.tar", "--server", url).code == 2


def test_a_damaged_bundle_is_not_opened(terminal: terminals.Terminal, incident: pathlib.Path) -> None:
    whole = incident.read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(b"events.jsonl.gz") + 600] ^= 1
    file = incident.with_name("damaged.tar")
    for data, words in ((bytes(damaged), "events.jsonl.gz is damaged"), (whole[:4096], "cut off")):
        file.write_bytes(data)
        for command in (("verify",), ("inspect",), ("open", "--no-browser")):
            done = terminal.run("bundle", *command, file)
            assert (done.code, done.out, words in done.err) == (1, "", True), done
            assert len(done.err.splitlines()) == 1
    missing = terminal.run("bundle", "open", "--no-browser", file.with_name("nothing.tar"))
    assert (missing.code, "No such file" in missing.err) == (2, True)


@pytest.mark.parametrize("field", ["firstMs", "lastMs", "createdMs", "t"])
def test_a_bundle_of_a_time_beyond_all_clocks_is_not_opened(
    terminal: terminals.Terminal, incident: pathlib.Path, tmp_path: pathlib.Path, field: str
) -> None:
    """Its digests fit."""
    file = tmp_path / "far.tar"
    file.write_bytes(bundled.timed(incident.read_bytes(), **{field: 10**17}))
    member = "events.jsonl.gz" if field == "t" else "bundle.json"
    for command in (("verify",), ("inspect",), ("open", "--no-browser")):
        done = terminal.run("bundle", *command, file)
        assert (done.code, done.out, f"{member} is damaged: {10**17} ms" in done.err) == (1, "", True), done
        assert len(done.err.splitlines()) == 1


def test_a_bundle_of_the_latest_time_is_shown_and_gets_pseudonyms(
    terminal: terminals.Terminal, incident: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The header of a member of a tar has no time that late."""
    file, renamed = tmp_path / "late.tar", tmp_path / "renamed.tar"
    latest = 253_402_300_799_999
    file.write_bytes(bundled.timed(incident.read_bytes(), lastMs=latest, createdMs=latest, t=latest))
    assert "9999-12-31T23:59:59." in terminal.run("bundle", "inspect", file).out
    done = terminal.run("bundle", "pseudonymize", file, "-o", renamed)
    assert (done.code, "offsets" in done.out) == (0, True), done
    assert terminal.run("bundle", "verify", renamed).code == 0


def test_an_opened_bundle_answers_as_its_source_did(world: api_worlds.World, incident: pathlib.Path) -> None:
    with opened(incident) as (address, variables):
        assert address.startswith("http://127.0.0.1:")
        context = ssl.create_default_context(cafile=variables["TOPOLOG_CLIENT_CA"])
        context.load_cert_chain(variables["TOPOLOG_CLIENT_CERT"], variables["TOPOLOG_CLIENT_KEY"])

        def ask(path: str) -> error_shape.Json:
            url = f"{variables['TOPOLOG_CLIENT_VIEW_URL']}/apis/v1/{path}"
            with urllib.request.urlopen(url, timeout=20, context=context) as reply:
                return json.load(reply)

        assert ask("lag")["bundle"]["around"] == "shop/new-300"
        for question in QUESTIONS:
            here, there = world.client.get(f"/apis/v1/{question}").json, ask(question)
            for answer in (here, there):
                assert answer is not None
                for field in ("attempt", "attempts", "attemptsComplete", "metadata", "difference"):
                    answer.pop(field, None)
            assert there == here
        page = urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(address, timeout=20)
        with page:
            assert b"<title>Topolog</title>" in page.read()


def test_now_is_the_end_of_an_opened_bundle(
    store_server: embedded.Server,
    terminal: terminals.Terminal,
    incident: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its clock stands still, and that of this machine is ahead of it."""
    ahead = types.SimpleNamespace(time=lambda: time.time() + 3600)
    monkeypatch.setattr(moment_option, "time", ahead)
    with (
        bundled.opened(store_server, incident.read_bytes()) as world,
        http_servers.serving_http(world.app) as url,
    ):
        for words in (
            ("get", "pods", "--at", "now"),
            ("get", "events", "--where", "to=now"),
            ("get", "decisions", "--where", "until=now"),
            ("explain", "shop/new-300", "--preemption", "--at", "now"),
            ("explain", "shop/new-300", "--at", "now"),
            ("simulate", "shop/new-300", "--at", "now"),
            ("fit", "shop/new-300", "--at", "now"),
            ("diff", "now"),
            ("diff", "now", "now", "--delete-pod", "shop/web-7"),
            ("bisect", "--exists", "node:host-1", "--to", "now"),
            ("replay", "--to", "now"),
        ):
            done = terminal.run(*words, "--server", url)
            assert done.code in (0, 1), (words, done)
            assert "in the future" not in done.err
