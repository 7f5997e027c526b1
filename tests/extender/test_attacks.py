"""Bodies that kube-scheduler never sends: the right answer, nothing written, and the process goes on."""

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.support.extender import stages

NAMES_LIMIT = 4 * 1024 * 1024
BAD_NAMES = {
    "NUL": "a\0b",
    "newline": 'a\n{"event":"call","verb":"bind","outcome":"bound"}',
    "hash tag": "a{}b",
    "brace": "{topolog}",
    "path": "../../secrets",
    "parent": "..",
    "slash": "a/b",
    "space": "a b",
    "1 MB": "a" * 1_000_000,
    "254": "a" * 254,
    "empty": "",
    "line separator": "a\u2028b",
}


@pytest.fixture
def pod(stage: stages.Stage, own: str) -> stages.Json:
    stage.node(f"{own}-1")
    made = stage.pod(own, "pod")
    stage.seen()
    return made


DEEP = b'{"Pod":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001
LISTS = b'{"Pod":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
SPELLED = {
    "empty": b"",
    "not JSON": b"hello",
    "half": b'{"Pod":{"metadata":',
    "list": b"[]",
    "null": b"null",
    "string": b'"Pod"',
    "number": b"17",
    "200k deep": DEEP,
    "200k lists": LISTS,
    "65 deep": b'{"Pod":' + b'{"a":' * 65 + b"1" + b"}" * 65 + b',"NodeNames":["a"]}',
    "5000 digits": b'{"Pod":{"spec":{"priority":' + b"1" * 5000 + b'}},"NodeNames":[]}',
    "NaN": b'{"Pod":NaN,"NodeNames":["a"]}',
    "NaN inside": b'{"Pod":{"spec":{"priority":NaN}},"NodeNames":["a"]}',
    "Infinity": b'{"Pod":{"spec":{"priority":-Infinity}},"NodeNames":["a"]}',
    "lone surrogate": b'{"Pod":{"metadata":{"name":"\\ud800"}},"NodeNames":["a"]}',
    "no UTF-8": b'{"Pod":{"metadata":{"name":"\xff\xfe"}},"NodeNames":["a"]}',
    "UTF-16": '{"Pod":{},"NodeNames":["a"]}'.encode("utf-16"),
    "BOM": '{"Pod":{},"NodeNames":["a"]}'.encode("utf-8-sig"),
    "twice": b'{"Pod":{},"Pod":{},"NodeNames":["a"]}',
    "twice in another case": b'{"Pod":{},"pod":{},"NodeNames":["a"]}',
    "twice inside": b'{"Pod":{"metadata":{"name":"a","name":"b"}},"NodeNames":["a"]}',
    "garbage behind": b'{"Pod":{},"NodeNames":["a"]}{"Pod":{}}',
    "pod is a list": b'{"Pod":[],"NodeNames":["a"]}',
    "pod is null": b'{"Pod":null,"NodeNames":["a"]}',
    "pod without a name": b'{"Pod":{"metadata":{}},"NodeNames":["a"]}',
    "nothing": b"{}",
}


@pytest.mark.parametrize("spelled", list(SPELLED))
def test_a_malformed_call_is_a_bad_request(stage: stages.Stage, unharmed: None, spelled: str) -> None:
    caller = stage.caller()
    for path in stages.paths():
        reply = caller.post(path, SPELLED[spelled])
        # Without nodes kube-scheduler's contract has an answer of its own.
        contract = spelled == "nothing" and path in ("/filter", "/filter_onlyone", "/prioritize", "/priority")
        if contract:
            assert reply.status == 200
        else:
            assert (reply.status, reply.json["reasonCode"]) == (400, "BadRequest"), (path, reply.raw[:200])
            assert len(reply.json["message"]) < 1_000


@pytest.mark.parametrize("form", ["names", "nodes"])
@pytest.mark.parametrize("bad", list(BAD_NAMES))
def test_node_names_that_no_node_can_have(
    stage: stages.Stage, own: str, pod: stages.Json, unharmed: None, bad: str, form: str
) -> None:
    caller, name = stage.caller(), BAD_NAMES[bad]
    asked = (
        stages.request(pod, f"{own}-1", name)
        if form == "names"
        else {"Pod": pod, "Nodes": {"items": [{"metadata": {"name": n}} for n in (f"{own}-1", name)]}}
    )
    for path in ("/filter", "/filter_onlyone", "/prioritize"):
        reply = caller.post(path, asked)
        assert (reply.status, reply.json["reasonCode"]) == (400, "BadRequest")
        assert len(reply.raw) < 1_000
    victims = {"Pod": pod, "NodeNameToMetaVictims": {name: {"Pods": [{"UID": "u"}]}}}
    assert caller.post("/preempt", victims).status == 400


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize("bad", list(BAD_NAMES))
def test_a_bind_with_names_that_nothing_can_have(
    stage: stages.Stage, own: str, pod: stages.Json, unharmed: None, bad: str, field: str
) -> None:
    seen = len(stage.api.seen)
    reply = stage.caller().post("/bind", {**stages.bind(pod, f"{own}-1"), field: BAD_NAMES[bad]})
    assert reply.status == 400
    assert len(reply.raw) < 1_000
    asked = [each.path for each in stage.api.seen[seen:] if "secrets" in each.path or own in each.path]
    assert asked == []


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "labels", "label key"])
@pytest.mark.parametrize(
    "bad", [name for name in BAD_NAMES if name not in ("empty", "254", "space", "path", "parent", "slash")]
)
def test_a_pod_with_names_that_no_pod_can_have(
    stage: stages.Stage, own: str, pod: stages.Json, unharmed: None, bad: str, field: str
) -> None:
    metadata, text = dict(pod["metadata"]), BAD_NAMES[bad]
    match field:
        case "labels":
            metadata["labels"] = {"app": text}
        case "label key":
            metadata["labels"] = {text: "app"}
        case _:
            metadata[field] = text
    asked = {**pod, "metadata": metadata}
    fits = field in ("labels", "label key") and bad in ("hash tag", "brace")
    for path in ("/filter", "/prioritize"):
        reply = stage.caller().post(path, stages.request(asked, f"{own}-1"))
        assert reply.status == (200 if fits else 400)
        assert len(reply.raw) < 1_000


def test_very_many_names(stage: stages.Stage, own: str, pod: stages.Json, unharmed: None) -> None:
    caller = stage.caller()
    for path in ("/filter", "/prioritize"):
        names = [f"{own}-{number}" for number in range(100_000)]
        reply = caller.post(path, stages.request(pod, *names))
        assert (reply.status, len(reply.raw) < 1_000) == (400, True)
        assert "the limit is 16384" in reply.json["message"]
        assert len(caller.post(path, stages.request(pod, *names[:16_000])).raw) > 16_000


def test_bodies_have_limits(stage: stages.Stage, own: str, pod: stages.Json, unharmed: None) -> None:
    caller = stage.caller()
    names = [f"{own}-{number:0200}" for number in range(NAMES_LIMIT // 200)]
    reply = caller.post("/filter", stages.request(pod, *names))
    assert (reply.status, reply.json["reasonCode"]) == (413, "BodyTooLarge")
    with raw(stage) as connection:
        # Its head is enough: nothing of such a body is read.
        connection.sendall(
            HEAD.replace(b"/filter", b"/bind") + b"Content-Length: %d\r\n\r\n" % (NAMES_LIMIT + 1)
        )
        assert received(connection).startswith(b"HTTP/1.1 413")
    victims = [{"UID": f"{number:0200}"} for number in range(NAMES_LIMIT // 200)]
    offer = {f"{own}-1": {"Pods": victims, "NumPDBViolations": 0}}
    reply = caller.post("/preempt", {"Pod": pod, "NodeNameToMetaVictims": offer})
    assert (reply.status, reply.json["reasonCode"]) == (413, "BodyTooLarge")
    node = stage.api.objects.get("nodes", ("", f"{own}-1"))
    node["metadata"]["annotations"] = {"big": "x" * NAMES_LIMIT}
    reply = caller.post("/filter", {"Pod": pod, "Nodes": {"items": [node]}, "NodeNames": None})
    assert (reply.status, reply.json["Nodes"]["items"]) == (200, [node])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
def test_nothing_is_decompressed(
    stage: stages.Stage, own: str, pod: stages.Json, unharmed: None, encoding: str
) -> None:
    for path in stages.paths():
        asked = stages.request(pod, f"{own}-1")
        assert stage.caller().post(path, asked, {"Content-Encoding": encoding}).status == 415


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_only_json_is_taken(
    stage: stages.Stage, own: str, pod: stages.Json, unharmed: None, kind: str
) -> None:
    for path in stages.paths("/api"):
        assert (
            stage.caller().post(path, stages.request(pod, f"{own}-1"), {"Content-Type": kind}).status == 415
        )


@contextlib.contextmanager
def raw(stage: stages.Stage) -> Iterator[ssl.SSLSocket]:
    """A raw connection."""
    tls = stage.folder / "tls"
    context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
    context.load_cert_chain(tls / "scheduler.crt", tls / "scheduler.key")
    plain = socket.create_connection(("127.0.0.1", stage.replicas[0].port), timeout=30)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        yield connection


def received(connection: ssl.SSLSocket) -> bytes:
    """Everything until the other end closes."""
    found = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65_536):
            found += piece
    return found


HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
LENGTHS = {
    "missing": (HEAD + b"\r\n{}", b"411"),
    "no number": (HEAD + b"Content-Length: two\r\n\r\n{}", b"400"),
    "negative": (HEAD + b"Content-Length: -2\r\n\r\n{}", b"400"),
    "too long": (HEAD + b"Content-Length: 99999999999\r\n\r\n{}", b"413"),
    "very long": (HEAD + b"Content-Length: " + b"9" * 4_000 + b"\r\n\r\n{}", b"413"),
    "two": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
    "chunked": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"411"),
    "both": (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"400"),
    "folded": (HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}", b"400"),
    "short": (HEAD + b"Content-Length: 99\r\n\r\n{}", b"408"),
}


@pytest.mark.parametrize("length", list(LENGTHS))
def test_a_length_that_is_false_or_missing(stage: stages.Stage, unharmed: None, length: str) -> None:
    sent, status = LENGTHS[length]
    with raw(stage) as connection:
        connection.sendall(sent)
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1, "what follows is not taken for a second request"


def test_a_recorded_bind_that_is_sent_again_changes_nothing(stage: stages.Stage, own: str) -> None:
    stage.node(f"{own}-1")
    pod = stage.pod(own, "pod")
    stage.seen()
    recorded = stages.bind(pod, f"{own}-1")
    assert stage.caller().post("/bind", recorded).json == {"Error": ""}
    head = stage.seen().offset
    assert stage.caller(replica=1).post("/bind", recorded).json == {"Error": ""}
    assert stage.seen().offset == head
    stage.api.objects.remove("pods", (own, "pod"))
    again = stage.pod(own, "pod")
    stage.seen()
    assert stage.caller().post("/bind", recorded).json["Error"]
    assert stage.bound(again) == ""
