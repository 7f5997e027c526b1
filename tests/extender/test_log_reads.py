"""How often the processes of an extender read the log, and what a question shows."""

from unittest import mock

import msgspec
import werkzeug.test

from app import extender_process, following_process, settings, view_process
from app.domain import events
from app.domain.fold import node_sums
from app.serving.access import roles
from app.serving.tls import role_names
from app.store import keys, stores
from app.store.log import batches
from app.store.server import embedded
from app.store.state import followers
from app.telemetry import metrics, readings
from tests.support import polling
from tests.support.extender import api_worlds
from tests.support.store import writers


def test_the_introspection_process_reads_several_events_at_once(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    process = following_process.FollowingProcess(chosen)
    with mock.patch.object(followers.Follower, "start", autospec=True) as started:
        process.start()
    process.stop()
    assert started.call_args.kwargs["gather"] > extender_process.Service.gather == 0


def test_a_question_shows_what_was_appended_before_it_while_the_thread_rests(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    process = following_process.FollowingProcess(chosen)
    process.gather = 3600.0
    client = werkzeug.test.Client(following_process.application(process.dependencies()))
    process.start()
    try:
        assert client.get("/apis/v1/pods").headers["X-Topolog-Position"].endswith("/0")
        for number in range(1, 6):
            store.log.append(batches.Batch(events=[writers.seen(f"u{number}")]))
            if number != 4:  # A question may also find several events.
                answer = client.get("/apis/v1/pods")
                assert answer.headers["X-Topolog-Position"].endswith(f"/{number}")
                assert len(msgspec.json.decode(answer.data)["items"]) == number
    finally:
        process.stop()


def test_view_adds_up_the_requests_before_the_first_map(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    appended: list[events.AnyEvent] = [*map(api_worlds.node, ("n1", "n2")), api_worlds.pod_seen("a-1", "n1")]
    store.log.append(batches.Batch(events=appended))
    process = view_process.ViewProcess(chosen, roles.RoleBindings({}, anonymous=role_names.ROLES))
    client = werkzeug.test.Client(process.introspection)
    process.start()
    try:
        process.settle()
        with mock.patch.object(node_sums, "holding", side_effect=AssertionError("pods are added up")):
            answer = client.get("/apis/v1/map?color=pods")
    finally:
        process.stop()
    classes = {one["label"]: one["count"] for one in msgspec.json.decode(answer.data)["classes"]}
    assert (classes["unused"], classes["under 25 %"]) == (1, 1)


def test_view_reports_the_store_as_up_while_it_answers_and_the_log_cannot_be_read(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    process = view_process.ViewProcess(chosen, roles.RoleBindings({}, anonymous=role_names.ROLES))
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.client.xadd(store.keys.log, {"t": 1, "e": b'{"v":1,"type":"Tomorrow"}'}, id="2-0")
    store.client.hset(store.keys.meta, keys.HEAD, "2")
    process.start()
    try:
        polling.eventually(lambda: process.checks()["store"], "the log cannot be read")
        polling.eventually(lambda: _value(metrics.STORE_UP) == 1.0, "the store answers")
    finally:
        process.stop()


def _value(metric: readings.Reading) -> float | None:
    return next((sample.value for one in metric.collect() for sample in one.samples), None)
