"""``topolog view`` ends at once: a browser that is cut off asks the next process again."""

import pathlib
import urllib.request

from app import settings, view_process
from app.store.server import embedded
from tests.support.browser import viewers
from tests.support.browser.seen_worlds import Seen


def test_it_waits_neither_for_idle_connections_nor_long_for_questions() -> None:
    options = view_process.options(settings.load(None, {"TOPOLOG_SERVER_GRACE": "600"}))
    assert (options.graceful_seconds, options.limits.stopping) == (2, 0)
    assert view_process.options(settings.load(None, {"TOPOLOG_SERVER_GRACE": "1"})).graceful_seconds == 1


def test_a_port_in_use_is_named_by_its_own_setting() -> None:
    options = view_process.options(settings.load(None, {"TOPOLOG_VIEW_PORT": "9443"}))
    assert (options.setting, options.port) == ("view.port", 9443)


def test_open_streams_do_not_keep_it(
    seen: Seen, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    cluster = seen.world.store.keys.cluster
    environ = {
        "TOPOLOG_STORE_URL": store_server.url,
        "TOPOLOG_CLUSTER": cluster,
        "TOPOLOG_SERVER_GRACE": "600",
    }
    viewer = viewers.Viewer(environ, tmp_path / "view.log")
    viewer.start()
    streams = [urllib.request.urlopen(f"{viewer.url}/apis/v1/watch", timeout=30) for _ in range(3)]
    process = viewer.process
    # It fails if the process has not ended after half a minute.
    viewer.stop()
    assert process is not None
    assert process.returncode == 0
    for stream in streams:
        stream.close()
