"""``topolog status`` on real processes: what is so is on the screen, and what needs attention is named."""

import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml
from click import testing

from app import cli
from app.cli.status import screens
from app.doctor.run import overview, process_facts
from app.telemetry import metrics
from tests.support import polling
from tests.support.monitoring import installations

Json = dict[str, Any]
ESCAPE = "\x1b["
BARE = {"XDG_STATE_HOME": "/proc/nonexistent", "KUBECONFIG": "/proc/nonexistent", "HOME": "/proc/nonexistent"}
NOW = 1_782_900_000.0
"""2026-07-01T10:00:00Z."""
NOWHERE = {"TOPOLOG_SERVER_HEALTH_PORT": "9", "TOPOLOG_CLIENT_URL": "https://127.0.0.1:9"}


def arguments(found: installations.Installation) -> list[str]:
    """The options for every process of an installation."""
    tls = found.stage.folder / "tls"
    port = found.processes[metrics.EXTENDER].port
    named = [
        part for one in found.processes.values() for part in ("--process", f"http://127.0.0.1:{one.health}")
    ]
    files = ("--cert", tls / "viewer.crt", "--key", tls / "viewer.key", "--ca", tls / "ca.crt")
    return [*named, "--server", f"https://127.0.0.1:{port}", *map(str, files)]


def shown(*options: str, **environ: str) -> tuple[int, str]:
    done = testing.CliRunner().invoke(cli.topolog, ["status", *options], env={**BARE, **environ})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def document(found: installations.Installation) -> Json:
    _, text = shown(*arguments(found), "-o", "json")
    read: Json = json.loads(text)
    return read


@pytest.fixture
def sound(healthy: installations.Installation) -> installations.Installation:
    """A healthy installation, after its first audit of everything."""

    def audited() -> bool:
        seen = document(healthy)
        return bool(seen["verdict"] == "ok" and seen["audit"]["state"] == "consistent")

    polling.eventually(audited, "all is well", within=60.0, seen=lambda: document(healthy))
    return healthy


@pytest.fixture
def pending(sound: installations.Installation) -> Iterator[installations.Installation]:
    """The installation with three pods that name a policy which does not exist, and one without a reason."""
    names = ("lost-1", "lost-2", "lost-3", "new")
    sound.stage.node("n1")
    for name in names:
        labels = {"workload-policy/kosmos.io": "absent"} if name.startswith("lost") else {}
        sound.stage.pod("shop", name, labels)
    polling.eventually(
        lambda: document(sound)["cluster"]["pods"]["pending"] == len(names), "the extender has seen them"
    )
    yield sound
    for name in names:
        sound.stage.api.objects.remove("pods", ("shop", name))
    sound.stage.api.objects.remove("nodes", ("", "n1"))


def test_a_healthy_installation_has_all_sections_and_no_attention(sound: installations.Installation) -> None:
    code, _ = shown(*arguments(sound))
    seen = document(sound)
    assert (code, seen["verdict"], seen["attention"]) == (0, "ok", [])
    assert {one["role"] for one in seen["processes"]} == set(metrics.ALL)
    assert all(one["ready"] for one in seen["processes"])
    leads = {one["role"]: one["leads"] for one in seen["processes"]}
    assert leads == {role: True if role in metrics.ELECTED else None for role in metrics.ALL}
    assert seen["store"]["up"] is True
    assert seen["store"]["head"] >= 1
    assert (seen["audit"]["state"], seen["audit"]["total"]) == ("consistent", 0)
    assert [(one["file"], one["secondsLeft"] > 0) for one in seen["certificates"]] == [
        ("server", True),
        ("ca", True),
    ]
    (recorder,) = [one for one in seen["processes"] if one["role"] == metrics.RECORDER]
    assert 0 <= recorder["lagSeconds"] < 60


def test_the_screen_fits_80_columns_and_has_no_colours_in_a_pipe(pending: installations.Installation) -> None:
    code, text = shown(*arguments(pending), FORCE_COLOR="1")
    lines = text.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24, "one screen"
    assert ESCAPE not in text
    assert lines[0].endswith("OK")
    for name in ("STORE", "TLS", "AUDIT", "CLUSTER", "PENDING", "PLUGINS", *metrics.ALL):
        assert any(line.startswith(name) for line in lines), name


def test_pending_pods_are_grouped_by_reason(pending: installations.Installation) -> None:
    groups = document(pending)["pending"]
    assert [(one["pods"], one["by"]) for one in groups] == [(3, "WorkloadPolicy"), (1, "none")]
    assert "absent" in groups[0]["reason"]
    assert groups[0]["example"].startswith("shop/lost-")
    _, text = shown(*arguments(pending))
    assert "1 pod, up to" in text
    assert re.search(r"^PENDING   3 pods, up to \S+: WorkloadPolicy: ", text, re.MULTILINE)


def test_json_and_yaml_are_the_same_document(sound: installations.Installation) -> None:
    one = document(sound)
    other = yaml.safe_load(shown(*arguments(sound), "-o", "yaml")[1])
    assert one.keys() == other.keys()
    assert [each["name"] for each in one["processes"]] == [each["name"] for each in other["processes"]]


def test_what_is_missing_needs_attention(sound: installations.Installation) -> None:
    usual = arguments(sound)
    at = usual.index(f"http://127.0.0.1:{sound.processes[metrics.RECORDER].health}")
    code, text = shown(*usual[: at - 1], *usual[at + 1 :])
    assert code == 1
    assert text.splitlines()[0].endswith("PROBLEM")
    assert "problem  R02  recorder: none" in text


def test_without_an_extender_nothing_is_known_of_the_cluster(sound: installations.Installation) -> None:
    usual = arguments(sound)
    usual[usual.index("--server") + 1] = "https://127.0.0.1:9"
    code, text = shown(*usual)
    assert code == 1
    for name in ("AUDIT", "CLUSTER", "PENDING", "PLUGINS"):
        assert re.search(rf"^{name} +unknown$", text, re.MULTILINE), name
    assert "STORE     answers every process" in text
    assert "unsure   R10" in text


def test_nothing_running_is_unsure() -> None:
    code, text = shown(**NOWHERE)
    assert code == 1
    assert text.splitlines()[0].endswith("UNSURE")
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("unsure") == 2, "the processes and the extender, each with its cause"


def test_a_store_that_is_away_is_on_the_screen(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installations.running(tmp_path) as broken:
        broken.server.stop()

        def seen() -> Json:
            return document(broken)

        polling.eventually(lambda: seen()["store"]["up"] is False, "it is seen", within=60.0, seen=seen)
        code, text = shown(*arguments(broken))
        assert code == 1
        assert "DOES NOT ANSWER" in text
        assert "NOT READY" in text
        # One cause is one line, whichever processes and checks it concerns.
        (line,) = re.findall(r"^problem  R12  .*$", text, re.MULTILINE)
        assert line.endswith("and 4 more: the store does not")
        assert max(map(len, text.splitlines())) <= 80
        whole = seen()
    monkeypatch.setattr("app.cli.status.screens.sys.stdout.isatty", lambda: True, raising=False)
    assert len(list(screens.lines(whole))) <= 32, "on a terminal"


def serving(name: str, role: str = metrics.EXTENDER, **ends: float) -> process_facts.Process:
    """A process that serves files which end in these seconds."""
    samples = tuple(({"file": file}, NOW + left) for file, left in ends.items())
    exposed = {"topolog_certificate_expiry_timestamp_seconds": samples} if ends else {"topolog_store_up": ()}
    return process_facts.Process(name, role, True, samples=exposed)


ENDS: dict[str, tuple[list[process_facts.Process], str]] = {
    "the first of several processes": (
        [serving("a", server=9000, ca=10**6), serving("b", metrics.VIEW, server=8000, ca=10**7, crl=100)],
        "crl expires in 100s, server expires in 2h, ca expires in 11d",
    ),
    "one that is over": ([serving("a", server=-9000), serving("b", server=9000)], "server EXPIRED 2h ago"),
    "plain HTTP": ([serving("a")], "all serve plain HTTP"),
    "none that serves": ([serving("a", metrics.RECORDER)], "unknown"),
    "one that was not seen": ([process_facts.Process("a", metrics.EXTENDER, unseen="no reply")], "unknown"),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_first_end_of_each_tls_file_is_shown(name: str) -> None:
    found, line = ENDS[name]
    made = overview.document(found, overview.Answers(), (), NOW)
    lines = screens.lines({"topolog": "0.1.0", "name": "a", "at": "2026-07-01T10:00:00Z", **made})
    assert f"TLS       {line}" in map(click.unstyle, lines)


def test_the_process_of_an_end_is_named() -> None:
    found, _ = ENDS["the first of several processes"]
    made = overview.document(found, overview.Answers(), (), NOW)["certificates"]
    assert [(one["file"], one["process"]) for one in made] == [("crl", "b"), ("server", "b"), ("ca", "a")]
    assert made[0]["expires"] == "2026-07-01T10:01:40Z"


# -- on a terminal ------------------------------------------------------------------------------


def on_a_terminal(columns: int, **environ: str) -> str:
    """What a terminal of this width gets."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    usual = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", "status"],
        stdout=terminal,
        stderr=terminal,
        env={**usual, **BARE, **NOWHERE, **environ},
    ):
        os.close(terminal)
        parts = []
        while True:
            try:
                parts.append(os.read(controller, 65_536))
            except OSError:  # The last process that had it open has ended.
                break
    os.close(controller)
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_has_colours_and_its_width(columns: int) -> None:
    text = on_a_terminal(columns)
    assert ESCAPE in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    widest = max(map(len, plain.splitlines()))
    assert widest <= columns
    assert widest > columns - 20


def test_no_color_is_respected() -> None:
    text = on_a_terminal(80, NO_COLOR="1")
    assert ESCAPE not in text
    assert "UNSURE" in text


# -- large installations ------------------------------------------------------------------------


def test_long_names_and_many_reasons_stay_on_one_screen() -> None:
    def process(number: int) -> Json:
        name = f"topolog-system/topolog-extender-7c9d8f6b5-{number:05}"
        state = "store: the store is away: Error 111 connecting to 10.0.0.1:6379. Connection refused."
        return {"role": "extender", "name": name, "ready": False, "upSeconds": 10**7, "state": state}

    def group(number: int) -> Json:
        reason = f"the quota of the workload policy shop/spread-{number} is used up in each of its domains"
        return {
            "by": "WorkloadPolicy",
            "reason": reason,
            "pods": 100_000,
            "oldestSeconds": 90_000,
            "example": f"a-very-long-namespace-of-a-tenant/a-very-long-name-of-a-pod-{number}",
        }

    found = {
        "topolog": "0.1.0",
        "name": "a" * 63,
        "at": "2026-07-01T10:00:00Z",
        "verdict": "problem",
        "processes": [process(number) for number in range(12)],
        "store": {"up": False, "head": 10**9, "memoryUsed": 10**11, "memoryLimit": 10**12},
        "certificates": [
            {"file": "server", "secondsLeft": -200_000},
            {"file": "ca", "secondsLeft": 200_000},
        ],
        "audit": {"state": "inconsistent", "total": 7, "age": 3.0, "problem": "DEL " + "x" * 200},
        "cluster": {"nodes": 5000, "schedulable": 4999, "pods": {"bound": 1, "inFlight": 2, "pending": 3}},
        "pending": [group(number) for number in range(20)],
        "plugins": [{"name": "policies", "seen": "12", "wrong": "1 invalid"}] * 9,
        "attention": [
            {"verdict": "warning", "id": "R01", "subject": "s" * 100, "seen": f"{at} " * 100}
            for at in range(40)
        ],
    }
    lines = [click.unstyle(line) for line in screens.lines(found)]
    assert max(map(len, lines)) <= 80
    assert sum("-000" in line for line in lines) == 12, "each name keeps the end by which replicas differ"
    assert "TLS       server EXPIRED 2d ago, ca expires in 2d" in lines
    assert any("and 12 more" in line for line in lines)
    assert lines[-1] == "... and 24 more"
    assert " ".join(map(str.strip, lines)).count("15 " * 100) == 1, "through a pipe, no sentence is cut"


NOTHING: Json = {
    "topolog": "0.1.0",
    "name": "a",
    "at": "2026-07-01T10:00:00Z",
    "verdict": "unsure",
    "processes": [],
    "store": {"up": None, "head": None, "memoryUsed": None},
    "certificates": None,
    "audit": None,
    "cluster": None,
    "pending": [],
    "plugins": [],
}


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_reason_is_cut_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setattr("app.cli.status.screens.sys.stdout.isatty", lambda: terminal, raising=False)
    one = {"verdict": "unsure", "id": "R01", "subject": "a", "seen": "why " * 200 + "end"}
    text = "\n".join(map(click.unstyle, screens.lines({**NOTHING, "attention": [one]})))
    assert text.endswith(" ..." if terminal else " end")


@pytest.mark.parametrize(
    ("ids", "span"),
    [
        ("R01 R02 R03", "R01..R03"),
        ("R01 R04 R05 R14", "R01,R04..R05,R14"),
        ("R09 R10", "R09..R10"),
        ("C09 R10", "C09,R10"),
    ],
)
def test_checks_are_a_span_only_where_none_is_left_out(ids: str, span: str) -> None:
    attention = [
        {"verdict": "unsure", "id": one, "subject": "processes", "seen": "no"} for one in ids.split()
    ]
    (*_, last) = screens.lines({**NOTHING, "attention": attention})
    assert click.unstyle(last) == f"unsure   {span}  processes: no"
