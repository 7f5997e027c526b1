"""How often the processes of an extender read the log, and what a question shows."""

from unittest import mock

import msgspec
import werkzeug.test

from app import bootstrap, settings
from app.store import stores
from app.store.log import logs
from app.store.server import embedded
from app.store.state import followers
from tests.support.store import writers


def test_the_introspection_process_reads_several_events_at_once(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    process = bootstrap.Following(chosen)
    with mock.patch.object(followers.Follower, "start", autospec=True) as started:
        process.start()
    process.stop()
    assert started.call_args.kwargs["gather"] > bootstrap.Service.gather == 0


def test_a_question_shows_what_was_appended_before_it_while_the_thread_rests(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    process = bootstrap.Following(chosen)
    process.gather = 3600.0
    client = werkzeug.test.Client(process.introspection)
    process.start()
    try:
        assert client.get("/apis/v1/pods").headers["X-Topolog-Position"].endswith("/0")
        for number in range(1, 6):
            store.log.append(logs.Batch(events=[writers.seen(f"u{number}")]))
            if number != 4:  # A question may also find several events.
                answer = client.get("/apis/v1/pods")
                assert answer.headers["X-Topolog-Position"].endswith(f"/{number}")
                assert len(msgspec.json.decode(answer.data)["items"]) == number
    finally:
        process.stop()
