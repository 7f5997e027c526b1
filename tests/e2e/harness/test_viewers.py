"""The client of the introspection API in end-to-end tests, against a server with canned replies."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest
import urllib3

from tests.support.e2e import viewers

BEHIND = (503, {"message": "offset 3 of 9; try again", "reasonCode": "Behind"})
CROWDED = (429, {"message": "another heavy question; try again", "reasonCode": "TooManyRequests"})
AWAY = (503, {"message": "the store is away", "reasonCode": "StoreAway"})
MISSING = (404, {"message": "cannot find pod shop/a", "reasonCode": "NotFound"})
FOUND = (200, {"name": "a"})
PATH = "/apis/v1/pods/shop/a"


class Canned(http.server.ThreadingHTTPServer):
    """Replies in this order, and notes what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[tuple[int, object]] = []
        self.asked: list[str] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Canned

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.asked.append(f"{self.command} {self.path} {body}".rstrip())
        status, content = self.server.replies.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[Canned]:
    with Canned() as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


@pytest.fixture
def viewer(server: Canned) -> Iterator[viewers.Viewer]:
    with urllib3.PoolManager(retries=False, timeout=10.0) as pool:
        yield viewers.Viewer(pool, f"http://127.0.0.1:{server.server_address[1]}")


def test_a_process_that_cannot_answer_yet_is_asked_again(server: Canned, viewer: viewers.Viewer) -> None:
    server.replies += [BEHIND, BEHIND, FOUND, CROWDED, FOUND, BEHIND, CROWDED, FOUND]
    assert viewer.ask(PATH) == viewer.find(PATH) == viewer.question("simulate", {"pod": "a"}) == FOUND[1]
    assert server.asked == [f"GET {PATH}"] * 5 + ['POST /apis/v1/simulate {"pod":"a"}'] * 3


def test_an_object_is_found_or_missing_by_one_answer(server: Canned, viewer: viewers.Viewer) -> None:
    """It may be gone the moment after."""
    server.replies += [FOUND, MISSING]
    assert viewer.find(PATH) == FOUND[1]
    assert viewer.find(PATH) is None


@pytest.mark.parametrize("refusal", [AWAY, MISSING], ids=["away", "missing"])
def test_any_other_error_fails_at_once(
    server: Canned, viewer: viewers.Viewer, refusal: tuple[int, object]
) -> None:
    server.replies += [refusal]
    with pytest.raises(AssertionError, match=f"GET {PATH}: {refusal[0]} "):
        viewer.ask(PATH)
