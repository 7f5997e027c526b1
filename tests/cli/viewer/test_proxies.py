"""The proxy of ``topolog dashboard``: it passes on what a viewer asks, and nothing for anyone else."""

import gzip
import http.client
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from app import settings
from app.cli.client import api_client
from app.cli.viewer import proxies
from app.serving.access import roles
from app.serving.http import bodies
from tests.support.browser.seen_worlds import Seen


class Reply(NamedTuple):
    """A reply of the proxy."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Upstream(http.server.ThreadingHTTPServer):
    """Answers everything, and notes what arrives."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Echo)
        self.arrived: list[tuple[str, str, bytes]] = []


class _Echo(http.server.BaseHTTPRequestHandler):
    server: Upstream

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def _answer(self, body: bytes) -> None:
        self.server.arrived.append((self.command, self.path, body))
        seen = {name.lower(): value for name, value in self.headers.items()}
        data = json.dumps({"seen": seen}).encode()
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", '"tag"')
        self.send_header("Set-Cookie", "secret=1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[proxies.Proxy]:
    url = f"http://127.0.0.1:{upstream.server_address[1]}"
    with proxies.Proxy(api_client.ExtenderClient(settings.Client(url=url))) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def ask(
    proxy: proxies.Proxy, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> Reply:
    """A request, with the headers as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.number, timeout=20)
    connection.request(method, path, body, dict(headers))
    response = connection.getresponse()
    found = Reply(
        response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    )
    connection.close()
    return found


def entered(proxy: proxies.Proxy) -> dict[str, str]:
    """The cookie that the printed address is exchanged for."""
    path = proxy.address("/dashboard/?at=5").partition(str(proxy.number))[2]
    reply = ask(proxy, "GET", path, {})
    assert (reply.status, reply.headers["location"]) == (302, "/dashboard/?at=5")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    return {"Cookie": cookie.partition(";")[0]}


@pytest.mark.scenario("UI-11")
def test_with_the_cookie_questions_are_passed_on(proxy: proxies.Proxy, upstream: Upstream) -> None:
    cookie = entered(proxy)
    reply = ask(proxy, "GET", "/apis/v1/nodes?limit=3", {**cookie, "If-None-Match": '"x"'})
    assert (reply.status, reply.headers["etag"]) == (200, '"tag"')
    seen = json.loads(reply.body)["seen"]
    assert seen["if-none-match"] == '"x"'
    assert "cookie" not in seen
    assert "set-cookie" not in reply.headers
    asked = {**cookie, "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    for path in sorted(roles.QUESTIONS):
        assert ask(proxy, "POST", path, asked, b"{}").status == 200
    assert ask(proxy, "GET", "/missing", cookie).status == 404
    assert [(method, body) for method, _, body in upstream.arrived] == [
        ("GET", b""),
        *[("POST", b"{}")] * len(roles.QUESTIONS),
        ("GET", b""),
    ]


def test_every_question_of_the_api_is_passed_on(
    proxy: proxies.Proxy, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "QUESTIONS", roles.QUESTIONS | {"/apis/v1/another"})
    monkeypatch.setattr(bodies, "QUESTION", 2 * bodies.QUESTION)
    question = b"x" * bodies.QUESTION
    assert ask(proxy, "POST", "/apis/v1/another", entered(proxy), question).status == 200
    assert upstream.arrived == [("POST", "/apis/v1/another", question)]


def test_an_answer_crosses_the_proxy_compressed_and_only_once(seen: Seen) -> None:
    path = "/apis/v1/frames?from=1&to=20"
    client = api_client.ExtenderClient(settings.Client(url=seen.viewer.url))
    with proxies.Proxy(client) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        cookie = entered(made)
        plain = ask(made, "GET", path, cookie)
        packed = ask(made, "GET", path, {**cookie, "Accept-Encoding": "gzip, br"})
        again = {**cookie, "Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]}
        unchanged = ask(made, "GET", path, again)
        made.shutdown()
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert len(packed.body) == int(packed.headers["content-length"]) < len(plain.body) / 2
    assert gzip.decompress(packed.body) == plain.body
    assert (unchanged.status, unchanged.body) == (304, b"")


@pytest.mark.scenario("UI-11")
@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/apis/v1/nodes", {"Cookie": ""}),
        ("GET", "/apis/v1/nodes", {"Cookie": "topolog=guess"}),
        ("GET", "/dashboard/?token=guess", {}),
        ("POST", "/apis/v1/simulate", {"Content-Length": "9" * 5000}),
        ("GET", "/apis/v1/nodes", {"Host": "evil.example"}),
        ("GET", "/apis/v1/nodes", {"Host": "127.0.0.1:1"}),
        ("GET", "/apis/v1/nodes", {"Origin": "http://evil.example"}),
        ("GET", "/apis/v1/nodes", {"Sec-Fetch-Site": "cross-site"}),
        ("POST", "/apis/v1/simulate", {"Origin": "http://evil.example"}),
        ("POST", "/filter", {}),
        ("POST", "/debug/flags/s", {}),
        ("PUT", "/debug/flags/s", {}),
        ("DELETE", "/apis/v1/nodes", {}),
    ],
)
def test_anything_else_is_refused_and_reaches_nothing(
    proxy: proxies.Proxy, upstream: Upstream, method: str, path: str, headers: Mapping[str, str]
) -> None:
    reply = ask(proxy, method, path, {**entered(proxy), **headers}, b"{}" if method == "POST" else None)
    assert reply.status == 403
    assert set(json.loads(reply.body)) == {"message", "reasonCode"}
    assert upstream.arrived == []


def test_a_cookie_that_is_not_text_is_refused(proxy: proxies.Proxy, upstream: Upstream) -> None:
    reply = ask(proxy, "GET", "/apis/v1/nodes", {"Cookie": f"{proxy.cookie}=\xe9"})
    assert reply.status == 403
    assert upstream.arrived == []


def test_a_large_question_is_refused(proxy: proxies.Proxy, upstream: Upstream) -> None:
    # It is refused by its length, before it is read: sending it could end with a broken pipe.
    reply = ask(
        proxy, "POST", "/apis/v1/fit", {**entered(proxy), "Content-Length": str(bodies.QUESTION + 1)}, b""
    )
    assert reply.status == 403
    assert upstream.arrived == []


def test_a_server_that_is_away_is_named(upstream: Upstream) -> None:
    client = api_client.ExtenderClient(settings.Client(url="http://127.0.0.1:9", timeout=1.0))
    with proxies.Proxy(client) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        reply = ask(made, "GET", "/apis/v1/nodes", entered(made))
        made.shutdown()
    assert (reply.status, reply.headers["retry-after"]) == (502, "2")
    assert "unreachable" in json.loads(reply.body)["message"]
