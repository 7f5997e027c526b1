"""``topolog get`` and ``explain`` over real mTLS, against a server with canned responses."""

import http.server
import json
import pathlib
import re
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from app.cli import explain
from app.cli.client import api_client
from app.serving.tls import certificate_issuer
from tests.support import commands


class Canned(http.server.BaseHTTPRequestHandler):
    """Responds from a table and records the requested paths."""

    replies: ClassVar[dict[str, tuple[int, object]]] = {}
    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        path = urllib.parse.urlsplit(self.path).path
        status, body = self.replies.get(
            path, (404, {"message": f"nothing at {path}", "reasonCode": "NotFound"})
        )
        text = isinstance(body, str)
        encoded = str(body).encode() if text else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/markdown" if text else "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory of the certificates that ``topolog up`` would create for the cluster "default"."""
    state = tmp_path_factory.mktemp("state")
    return certificate_issuer.issue(state / "topolog" / "default" / "certs", ["127.0.0.1"]).directory


@pytest.fixture
def server(certs: pathlib.Path) -> Iterator[str]:
    """The URL of an extender that requires a client certificate."""
    Canned.replies, Canned.requested = {}, []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certs / "ca.crt"))
    context.load_cert_chain(certs / "server.crt", certs / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canned)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"https://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    thread.join()
    listening.server_close()


def run(server: str, certs: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the server with the certificates that ``up`` creates."""
    state = str(certs.parent.parent.parent)
    return commands.called(*arguments, TOPOLOG_CLIENT_URL=server, XDG_STATE_HOME=state)


PENDING = {
    "items": [
        {
            "namespace": "ns",
            "name": "p",
            "age": 12.5,
            "attempts": 2,
            "reason": "no capacity",
            "change": ["a", "b"],
        },
        {"namespace": "ns", "name": "q\n\x1b[31m", "age": None, "attempts": 0, "reason": "", "change": []},
    ],
    "metadata": {"position": "i/7", "asOf": "", "continue": None, "remaining": 3},
}


def test_the_certificates_of_up_are_named_in_place_of_the_kubeconfig(
    certs: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They outlast `topolog up`, after which nothing listens there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(certs.parent.parent.parent))
    options = dict.fromkeys(("server", "server_name", "cert", "key", "ca"))
    ways = (api_client.extender, api_client.view)
    for found in (each(None, options) for each in ways):
        assert found.otherwise.startswith(f"; remove {certs}, ")
    for found in (each(None, {**options, "server": "https://127.0.0.1:9"}) for each in ways):
        assert found.otherwise == "", "the kubeconfig would not be used"


def test_control_characters_do_not_break_a_table(server: str, certs: pathlib.Path) -> None:
    Canned.replies["/apis/v1/pending"] = (200, PENDING)
    done = run(server, certs, "get", "pending", "--limit", "2", "--at", "7")
    assert done.returncode == 0, done.stderr
    head, first, second = done.stdout.splitlines()
    assert head.split() == ["POD", "AGE", "ATTEMPTS", "REASON", "SMALLEST", "CHANGE"]
    assert first.split() == ["ns/p", "12s", "2", "no", "capacity", "a"]
    assert second.split() == ["ns/q", "[31m", "-", "0", "-", "-"]
    assert "3 more" in done.stderr
    assert Canned.requested == ["/apis/v1/pending?at=7&limit=2"]


def test_json_output_is_the_response_of_the_server(server: str, certs: pathlib.Path) -> None:
    Canned.replies["/apis/v1/pending"] = (200, PENDING)
    assert json.loads(run(server, certs, "get", "pending", "-o", "json").stdout) == PENDING


def test_an_object_is_shown_as_fields_and_tables(server: str, certs: pathlib.Path) -> None:
    policy = {
        "name": "p",
        "valid": True,
        "labelSelector": {"matchLabels": {"app": "web"}},
        "domains": [{"desired": 3, "domain": "host", "placed": 1}],
    }
    Canned.replies["/apis/v1/plugins/WorkloadPolicy/policies/ns/p"] = (200, policy)
    done = run(server, certs, "get", "policies", "ns/p")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["FIELD", "VALUE"],
        ["name", "p"],
        ["valid", "yes"],
        ["labelSelector.matchLabels", "app=web"],
        [],
        ["domains:"],
        ["DOMAIN", "DESIRED", "PLACED"],
        ["host", "3", "1"],
    ]


def test_counts_are_shown_with_their_reasons(server: str, certs: pathlib.Path) -> None:
    decision = {"id": "1-0", "reasons": {"no capacity (a=b)": 3, "no label": 1}}
    metadata = {"continue": "token", "remaining": None}
    Canned.replies["/apis/v1/decisions"] = (200, {"items": [decision], "metadata": metadata})
    done = run(server, certs, "get", "decisions")
    assert done.stdout.splitlines()[1].endswith("3 no capacity (a=b); 1 no label")
    assert done.stderr == "... and maybe more (--limit)\n"


def test_a_moment_before_the_log_is_named(server: str, certs: pathlib.Path) -> None:
    for position, words in (("i/0", ": this is before the first event of the log"), ("i/10", "")):
        Canned.replies["/apis/v1/pods"] = (200, {"items": [], "metadata": {"position": position}})
        assert run(server, certs, "get", "pods", "--at", "24h").stderr == f"nothing found{words}\n"


def test_conditions_are_passed_to_the_server(server: str, certs: pathlib.Path) -> None:
    Canned.replies["/apis/v1/decisions"] = (200, {"items": [], "metadata": {}})
    done = run(server, certs, "get", "decisions", "--where", "pod=ns/p", "--where", "outcome=refused")
    assert done.returncode == 0
    assert Canned.requested == ["/apis/v1/decisions?pod=ns%2Fp&outcome=refused&limit=100"]


def test_explain_prints_markdown_or_json(server: str, certs: pathlib.Path) -> None:
    Canned.replies["/apis/v1/pods/ns/p/explain"] = (200, "| node | score |")
    assert run(server, certs, "explain", "ns/p", "--attempt", "2").stdout == "| node | score |\n"
    Canned.replies["/apis/v1/pods/ns/p/explain"] = (200, {"fits": True})
    assert json.loads(run(server, certs, "explain", "ns/p", "-o", "json").stdout) == {"fits": True}
    run(server, certs, "explain", "ns/p", "--decision", "17-0", "-o", "json")
    assert Canned.requested == [
        "/apis/v1/pods/ns/p/explain?attempt=2&format=markdown",
        "/apis/v1/pods/ns/p/explain?format=json",
        "/apis/v1/pods/ns/p/explain?decision=17-0&format=json",
    ]


@pytest.mark.parametrize("with_", [("--attempt", "2"), ("--preemption",)])
def test_a_decision_is_not_explained_as_something_else(
    server: str, certs: pathlib.Path, with_: tuple[str, ...]
) -> None:
    done = run(server, certs, "explain", "ns/p", "--decision", "17-0", *with_)
    assert (done.returncode, Canned.requested) == (2, [])


PREEMPTION = {
    "pod": {"namespace": "ns", "name": "p", "uid": "u"},
    "priority": 50,
    "eligible": {"is": True, "reason": ""},
    "needed": True,
    "fits": 0,
    "chosen": "n1",
    "decidedBy": "fewest victims",
    "nodes": [
        {
            "node": "n1",
            "reasons": ["Insufficient cpu", "Too many pods"],
            "victims": [
                {"namespace": "a", "name": "x", "priority": 7, "violating": True, "coDependent": False},
                {"namespace": "b", "name": "y", "priority": -1, "violating": False, "coDependent": True},
            ],
            "violations": 1,
            "dropped": "",
        },
        {"node": "n2", "reasons": ["cordoned"], "victims": [], "violations": 0, "dropped": "no help"},
    ],
    "more": 3,
    "notModelled": ["volumes"],
    "complete": True,
    "unjudged": 0,
}


def test_a_preemption_is_shown_as_a_table_or_json(server: str, certs: pathlib.Path) -> None:
    Canned.replies["/apis/v1/pods/ns/p/preemption"] = (200, PREEMPTION)
    lines = run(server, certs, "explain", "ns/p", "--preemption", "--at", "7").stdout.splitlines()
    assert [re.split(r"  +", line) for line in lines] == [
        ["ns/p (priority 50) would evict 2 pods from node n1. Decided by: fewest victims."],
        [""],
        ["NODE", "DOES NOT FIT BECAUSE", "VICTIMS", "VIOLATIONS", "NO CANDIDATE BECAUSE"],
        [
            "n1",
            "Insufficient cpu, Too many pods",
            "a/x (7, violates a budget); b/y (-1, co-dependent)",
            "1",
            "-",
        ],
        ["n2", "cordoned", "-", "-", "no help"],
        ["(3 more nodes)"],
        [""],
        ["Not modelled: volumes."],
    ]
    assert (
        json.loads(run(server, certs, "explain", "ns/p", "--preemption", "-o", "json").stdout) == PREEMPTION
    )
    assert Canned.requested == [
        "/apis/v1/pods/ns/p/preemption?at=7&limit=1000",
        "/apis/v1/pods/ns/p/preemption",
    ]
    done = run(server, certs, "explain", "ns/p", "--preemption", "--attempt", "1")
    assert (done.returncode, "use it with --at" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"eligible": {"is": False, "reason": "not eligible due to preemptionPolicy=Never."}},
            "ns/p (priority 50) evicts no pod: not eligible due to preemptionPolicy=Never.",
        ),
        (
            {"needed": False, "fits": 2, "chosen": None},
            "ns/p (priority 50) needs no eviction: 2 nodes admit it as they are.",
        ),
        ({"chosen": None}, "ns/p (priority 50) evicts no pod: no eviction on any node would make it fit."),
        (
            {"chosen": None, "complete": False},
            "ns/p (priority 50) evicts no pod: no eviction on any node that was judged would make it fit.",
        ),
    ],
)
def test_the_conclusion_of_a_dry_run_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert explain.conclusion(PREEMPTION | changes) == sentence


def test_nodes_that_are_refused_alike_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    nodes: Any = PREEMPTION["nodes"]
    chosen, other = nodes
    alike = [{**other, "node": f"n{number}"} for number in range(2, 9)]
    apart = {**other, "node": "n9", "dropped": "another cause"}
    explain.show_dry_run(PREEMPTION | {"nodes": [chosen, *alike, apart]})
    lines = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[2:6]] == ["NODE", "n1", "7 nodes: n2, n3, n4, ...", "n9"]
    assert lines[4][1:] == ["cordoned", "-", "-", "no help"]


def test_a_pod_that_may_not_preempt_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = PREEMPTION | {"eligible": {"is": False, "reason": "not pending: it is on node n1."}}
    explain.show_dry_run(result)
    assert capsys.readouterr().out.splitlines() == [explain.conclusion(result)]


def test_nodes_that_a_dry_run_had_no_time_for_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    explain.show_dry_run(PREEMPTION | {"complete": False, "unjudged": 2})
    assert "(2 nodes were not judged: the budget was spent)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (400, "BadRequest", 2),
        (403, "Forbidden", 5),
        (404, "NotFound", 1),
        (404, "NotRecorded", 2),
        (410, "PositionGone", 1),
        (429, "TooManyRequests", 5),
        (503, "Behind", 4),
        (503, "StoreAway", 4),
        (503, "StoreRefused", 4),
        (503, "StoreRewound", 4),
        (503, "TooManyLargeBodies", 5),
        (503, "Unavailable", 5),
    ],
)
def test_an_error_is_its_message_and_an_exit_code(
    server: str, certs: pathlib.Path, status: int, reason: str, code: int
) -> None:
    Canned.replies["/apis/v1/nodes/n"] = (status, {"message": "the message", "reasonCode": reason})
    done = run(server, certs, "get", "nodes", "n")
    used = f" (the client certificate is {certs / 'viewer.crt'})" if status == 403 else ""
    assert (done.returncode, done.stderr) == (code, f"topolog: the message{used}\n")


@pytest.mark.parametrize("status", [404, 503])
def test_an_error_that_is_not_of_topolog_is_no_answer_about_an_object(
    server: str, certs: pathlib.Path, status: int
) -> None:
    Canned.replies["/apis/v1/nodes/n"] = (status, "<html>nothing here</html>")
    done = run(server, certs, "get", "nodes", "n")
    assert done.returncode == 5
    assert f"{server} is not an extender: its reply to /apis/v1/nodes/n is HTTP {status}" in done.stderr


def test_without_a_client_certificate_the_error_names_the_options(server: str, certs: pathlib.Path) -> None:
    done = commands.called("get", "nodes", "--server", server, "--ca", str(certs / "ca.crt"))
    assert done.returncode == 5
    assert "--cert and --key" in done.stderr


def test_an_extender_of_another_ca_is_not_trusted(server: str, certs: pathlib.Path) -> None:
    viewer = ("--cert", str(certs / "viewer.crt"), "--key", str(certs / "viewer.key"))
    done = commands.called("get", "nodes", "--server", server, *viewer)
    assert done.returncode == 5
    assert "--ca" in done.stderr
    assert Canned.requested == []


def test_missing_certificate_files_are_a_settings_error(server: str) -> None:
    done = commands.called("get", "nodes", "--server", server, "--ca", "/nowhere/ca.crt")
    assert done.returncode == 3
    assert done.stderr == (
        "topolog: cannot load the CA certificates /nowhere/ca.crt (client.ca): No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        (
            "viewer.crt",
            "operator.key",
            "with the private key {0}/operator.key (client.cert, client.key): the key",
        ),
        ("none.crt", "viewer.key", "cannot load the certificate {0}/none.crt: No such file or directory"),
        ("viewer.crt", "none.key", "cannot load the private key {0}/none.key: No such file or directory"),
        ("ca.key", "viewer.key", "not in PEM form"),
    ],
)
def test_the_file_that_cannot_be_used_is_named(
    server: str, certs: pathlib.Path, cert: str, key: str, words: str
) -> None:
    files = ("--ca", str(certs / "ca.crt"), "--cert", str(certs / cert), "--key", str(certs / key))
    done = commands.called("get", "nodes", "--server", server, *files)
    assert done.returncode == 3
    assert words.format(certs) in done.stderr


@pytest.mark.parametrize(
    "url", ["foo", "127.0.0.1:8443", "ftp://a", "https://", "https://a:99999", "https://user:secret@a:1"]
)
@pytest.mark.parametrize(
    "command",
    [("get", "pods", "--server"), ("doctor", "run", "--process"), ("doctor", "scheduler", "--configz")],
)
def test_a_wrong_url_is_refused_with_how_it_is_written(command: tuple[str, ...], url: str) -> None:
    done = commands.called(*command, url)
    assert done.returncode == 2
    assert "write https://HOST:PORT" in done.stderr
    assert "secret" not in done.stderr
    assert "Warning" not in done.stderr
