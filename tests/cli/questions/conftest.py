"""An API on a real store behind real HTTP, for the commands that ask questions."""

import threading
from collections.abc import Iterator

import pytest
from werkzeug import serving

from app.store.server import embedded
from tests.support.extender import api_worlds, questions


@pytest.fixture
def six(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """F6: four pods are placed, two wait."""
    with api_worlds.processes(store_server, cluster) as start:
        made = api_worlds.world(start())
        made.append(*questions.f6())
        yield made


@pytest.fixture
def run(six: api_worlds.World) -> Iterator[questions.Run]:
    """Runs commands against F6."""
    server = serving.make_server("127.0.0.1", 0, six.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield questions.Run(f"http://127.0.0.1:{server.server_port}", six)
    server.shutdown()
    server.server_close()
    thread.join()
