"""Whether the store answers, on a real server that ends, hangs and returns."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import settings
from app.store.health import availability
from app.store.server import connections, embedded
from tests.support import polling
from tests.support.store import servers


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    started = embedded.Server(tmp_path / "server", append_only=True)
    yield started
    started.stop()


def test_it_is_down_before_the_first_answer_and_while_the_server_is_away(server: embedded.Server) -> None:
    with connections.connect(server.url, timeout=2.0) as client:
        measured = availability.Availability(client)

        def up() -> bool:
            measured.measure()
            return measured.up

        assert not measured.up
        assert up()
        server.kill()
        assert not up()
        server.start()
        assert up()
        with servers.suspended(server.pid):
            assert not up(), "a server that accepts connections and does not answer"


def test_an_outage_is_noticed_within_five_seconds_by_default() -> None:
    """Of the pause between two requests, and the wait for a reply."""
    assert availability.EVERY + settings.Store().socket_timeout < 5.0


def test_its_thread_follows_the_server_until_it_is_stopped(server: embedded.Server) -> None:
    with connections.connect(server.url, timeout=2.0) as client:
        measured = availability.Availability(client)
        measured.start()
        polling.eventually(lambda: measured.up, "it answers")
        server.kill()
        polling.eventually(lambda: not measured.up, "it is away")
        server.start()
        polling.eventually(lambda: measured.up, "it is back")
        assert "availability" in [one.name for one in threading.enumerate()]
        measured.stop()
        assert "availability" not in [one.name for one in threading.enumerate()]
