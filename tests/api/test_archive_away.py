"""While the archive is away, what the log and the store's checkpoints cover is answered without it."""

import contextlib
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn
from unittest import mock

import msgspec
import pytest
import structlog
from werkzeug.test import TestResponse

from app import settings
from app.api.introspection import times
from app.api.v1.pictures import lives
from app.domain import events
from app.store import schemas, stores
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.extender import api_worlds, bundled
from tests.support.extender.error_shape import assert_problem, body, items
from workers.compactor import compactors

AWAY = "the archive is away: the archive cannot be listed: HTTP 503"
QUESTIONS: Mapping[str, Mapping[str, object]] = {
    "bisect": {"fits": "shop/web-3"},
    "replay": {"mode": "chain"},
    "simulate": {"pod": "shop/web-3"},
    "diff": {"from": {}, "to": {}},
}
NEED_THE_PAST = {
    "/apis/v1/bisect",
    "/apis/v1/decisions/<identifier>",
    "/apis/v1/events",
    "/apis/v1/export",
    "/apis/v1/pods/<namespace>/<name>/life",
    "/apis/v1/replay",
    "/apis/v1/simulate",
}
"""Those that read what was trimmed, unless they are asked about something later."""
KINDS = {"pods": "web-1", "nodes": "host-1", "polic": "spread"}


def opened(server: embedded.Server, cluster: str, archive: pathlib.Path) -> stores.Store:
    return stores.open_store(
        settings.Store(url=server.url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=api_worlds.plugins_of_the_seeds().indexed(),
        archive=str(archive),
    )


@pytest.fixture
def world(store_server: embedded.Server, cluster: str, tmp_path: pathlib.Path) -> Iterator[api_worlds.World]:
    """A cluster with a history, a decision and a flag, in a store with an archive."""
    client = connections.connect(store_server.url)
    schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.close()
    store = opened(store_server, cluster, tmp_path)
    store.decisions.start()
    made = api_worlds.world(store)
    made.append(*api_worlds.history())
    api_worlds.decide(made, api_worlds.pod("web-3"))
    made.client.put("/debug/flags/s", data="3")
    made.append(api_worlds.node("last"))
    store.follower.catch_up()
    yield made
    store.close()


Started = Callable[[], api_worlds.World]


@pytest.fixture
def trimmed(
    world: api_worlds.World, store_server: embedded.Server, tmp_path: pathlib.Path
) -> Iterator[Started]:
    """Starts a process that has read nothing of the archive; all events but the last one are trimmed."""
    world.store.client.delete(world.store.keys.readers)
    with contextlib.ExitStack() as running:

        def start() -> api_worlds.World:
            other = opened(store_server, world.store.keys.cluster, tmp_path)
            running.callback(other.close)
            return api_worlds.world(other)

        options = settings.Compaction(events=1, keep=0, archive=str(tmp_path))
        compactors.Compactor(start().store, options).run_once()
        yield start


@contextlib.contextmanager
def away(world: api_worlds.World) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError("HTTP 503")

    assert world.store.archive is not None
    storage = type(world.store.archive.storage)
    with mock.patch.object(storage, "names", refuse), mock.patch.object(storage, "read", refuse):
        yield


def answers(world: api_worlds.World) -> dict[str, tuple[int, str]]:
    """Route -> status and reason of an error, at the head of the log."""
    (decision,) = (one.id for one in world.store.decisions.latest(limit=1))
    names = {"namespace": "shop", "identifier": decision, "letter": "s"}
    found = {}
    for rule in world.app.url_map.iter_rules():
        if "GET" not in (rule.methods or ()) or not rule.rule.startswith(("/apis", "/debug")):
            continue
        name = next((one for kind, one in KINDS.items() if kind in rule.rule), "job")
        path = rule.rule
        for argument, value in {**names, "name": name}.items():
            path = path.replace(f"<{argument}>", value)
        query = "?of=waiting" if path.endswith("/series") else ""
        found[rule.rule] = seen(world.client.get(f"{path}{query}", buffered=not path.endswith("/watch")))
    for question, asked in QUESTIONS.items():
        found[f"/apis/v1/{question}"] = seen(world.client.post(f"/apis/v1/{question}", json=asked))
    return found


def seen(response: TestResponse) -> tuple[int, str]:
    reason = "" if response.status_code < 400 else str(body(response)["reasonCode"])
    response.close()
    return response.status_code, reason


def resumed(world: api_worlds.World, offset: int) -> TestResponse:
    """A stream that a client resumes behind an offset."""
    return world.client.get("/apis/v1/watch", headers={"Last-Event-ID": str(offset)})


def test_a_log_that_has_every_event_answers_without_the_archive(world: api_worlds.World) -> None:
    before = answers(world)
    with away(world), structlog.testing.capture_logs() as lines:
        assert answers(api_worlds.world(world.store)) == before
        assert resumed(world, 3).status_code == 200
        assert body(world.client.get("/apis/v1/nodes?at=9"))["items"]
        for path in ("export?from=3", "export?around=shop/web-1", "moments?from=2&to=20"):
            assert world.client.get(f"/apis/v1/{path}").status_code == 200, path
    assert lines == []


def test_a_trimmed_log_answers_what_it_covers_without_the_archive(trimmed: Started) -> None:
    """Only those routes need the archive that read what was trimmed; they name it."""
    before, other = answers(trimmed()), trimmed()
    with away(other):
        found = answers(other)
        assert {answer for answer in before.values() if answer[0] == 503} == set()
        assert found == before | dict.fromkeys(NEED_THE_PAST, (503, "ArchiveAway"))
        assert_problem(other.client.get("/apis/v1/export"), 503, "ArchiveAway", AWAY)


def test_a_stream_is_resumed_without_the_archive_where_the_log_continues_it(trimmed: Started) -> None:
    world = trimmed()
    first = world.store.log.oldest()
    world.append(api_worlds.node("later"))
    with away(world):
        response = resumed(world, first - 1)
        assert response.status_code == 200
        assert f"/{first + 1}\nevent: NodeSeen" in response.text
        assert_problem(resumed(world, first - 2), 503, "ArchiveAway", AWAY)
    assert resumed(world, first - 2).status_code == 200


@pytest.mark.parametrize("path", ["frames", "moments", "series?of=waiting"])
def test_a_window_begins_where_the_store_does_while_the_archive_is_away(trimmed: Started, path: str) -> None:
    world = trimmed()
    first = world.store.log.oldest()
    world.append(api_worlds.node("later"))
    with away(world), structlog.testing.capture_logs() as lines:
        response = world.client.get(f"/apis/v1/{path}")
    assert response.headers["X-Topolog-Oldest"] == str(first)
    assert body(response)["metadata"]["first"] == first
    assert {(one["event"], one["error"]) for one in lines} == {
        ("the archive cannot be read", "the archive cannot be listed: HTTP 503")
    }
    response = trimmed().client.get(f"/apis/v1/{path}")
    assert response.headers["X-Topolog-Oldest"] == "0"
    assert body(response)["metadata"]["first"] == 0


def test_the_life_of_a_pod_that_the_log_has_needs_no_archive(
    trimmed: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "_BEHIND_MS", 0)
    world = trimmed()
    last_ms = world.store.histories.appended_ms(world.append(api_worlds.node("later")))
    assert last_ms is not None
    created = times.rfc3339(last_ms / 1000)
    time.sleep(0.002)  # The next event has a later time.
    with away(world):
        world.append(events.PodSeen(pod=msgspec.structs.replace(api_worlds.pod("late"), created=created)))
        found = body(world.client.get("/apis/v1/pods/shop/late/life"))
    assert ([one["kind"] for one in found["items"]], found["complete"]) == (["seen"], True)


def test_the_latest_of_a_long_life_needs_no_archive(
    trimmed: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pod is older than the log, of which only the last events are read."""
    monkeypatch.setattr(lives, "_MOST_EVENTS", 1)
    world = trimmed()
    last = world.append(events.PodSeen(pod=api_worlds.pod("web-1", "host-2")))
    with away(world):
        found = body(world.client.get("/apis/v1/pods/shop/web-1/life"))
    assert (found["first"], found["complete"]) == (last, False)
    assert found["items"]


def test_a_bundle_of_what_the_log_has_needs_no_archive(
    trimmed: Started, store_server: embedded.Server
) -> None:
    world = trimmed()
    first = world.store.log.oldest()
    last = world.append(api_worlds.node("later"))
    with away(world):
        data = bundled.exported(world, f"?from={first}")
    with bundled.opened(store_server, data) as shown:
        assert shown.store.follower.catch_up().offset == last
        assert len(items(shown.client.get(f"/apis/v1/nodes?at={first}"))) == 7


def test_a_flag_whose_event_cannot_be_read_has_its_value(trimmed: Started) -> None:
    world = trimmed()
    with away(world):
        without = items(world.client.get("/apis/v1/flags"))[0]
    flag = items(world.client.get("/apis/v1/flags"))[0]
    assert (flag["value"], flag["by"]) == ("3", "operator@example")
    assert without == flag | {"by": "", "at": ""}
