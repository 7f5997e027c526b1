"""GET /export: a bundle explains as its source did, holds no secret, and making it changes nothing."""

import gc
import itertools
import json
import random
import secrets
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from app import settings
from app.api.introspection import services
from app.api.v1.exports import exports
from app.domain import events
from app.store.bundles import layout
from app.store.server import embedded
from tests.support.extender import api_worlds, bundled, error_shape

FIRST = 120
PASSWORDS = ("hunter2-of-the-store", "hunter2-of-the-sentinels", "hunter2-of-the-keystore", "-----BEGIN")
CONFIGURED = {
    "TOPOLOG_STORE_URL": f"redis+sentinel://topolog:{PASSWORDS[0]}@a:1,b:1,c:1/m"
    f"?sentinel_username=s&sentinel_password={PASSWORDS[1]}",
    "TLS_KEYSTORE_PATH": "/keys/server.p12",
    "TLS_KEYSTORE_PASSWORD": PASSWORDS[2],
}


@pytest.fixture(scope="module")
def source(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    with api_worlds.processes(store_server, f"src{secrets.token_hex(4)}") as start:
        yield bundled.lived(start(), configured=settings.load(None, CONFIGURED))


@pytest.fixture(scope="module")
def bundle(source: api_worlds.World) -> bytes:
    return bundled.exported(source, f"?from={FIRST}")


@pytest.fixture(scope="module")
def elsewhere(store_server: embedded.Server, bundle: bytes) -> Iterator[api_worlds.World]:
    with bundled.opened(store_server, bundle) as world:
        yield world


def ask(world: api_worlds.World, path: str) -> error_shape.Json:
    """The JSON of a reply."""
    reply = world.client.get(f"/apis/v1/{path}")
    assert reply.status_code == 200, reply.text
    return reply.json


def refused(world: api_worlds.World, query: str, status: int, code: str) -> str:
    """The message of a refused export."""
    reply = world.client.get(f"/apis/v1/export?{query}")
    assert (reply.status_code, error_shape.body(reply)["reasonCode"]) == (status, code)
    return str(error_shape.body(reply)["message"])


# -- laws ---------------------------------------------------------------------------------


@pytest.mark.scenario("WI-10")
def test_a_bundle_explains_as_its_source_did(source: api_worlds.World, elsewhere: api_worlds.World) -> None:
    explained = 0
    for row in bundled.decisions(source):
        if int(row["position"].rpartition("/")[2]) < FIRST:
            assert elsewhere.client.get(f"/apis/v1/decisions/{row['id']}").status_code == 404
            continue
        assert ask(elsewhere, f"decisions/{row['id']}") == ask(source, f"decisions/{row['id']}")
        there = bundled.explanation(elsewhere, bundled.path_of(row))
        assert there == bundled.explanation(source, bundled.path_of(row))
        assert there["source"] == "decision"
        assert there["difference"] is None
        explained += 1
    assert explained > 20


def test_the_same_question_at_a_position_has_the_same_bytes(
    source: api_worlds.World, elsewhere: api_worlds.World
) -> None:
    last = source.store.follower.catch_up().offset
    questions = [
        f"frames?from={FIRST}&to={last}&count=30&color=quota:shop/spread",
        f"series?of=waiting&from={FIRST}&to={last}",
        f"moments?from={FIRST + 1}&to={last}&buckets=20",
        *(f"map?at={at}&color=pods" for at in random.Random(1).sample(range(FIRST, last), 20)),
    ]
    for question in questions:
        here, there = (world.client.get(f"/apis/v1/{question}") for world in (source, elsewhere))
        assert there.status_code == 200, there.text
        assert there.data == here.data


def test_a_replay_finds_no_difference_in_a_bundle(elsewhere: api_worlds.World) -> None:
    question, looked = {"from": str(FIRST)}, 0
    while True:
        reply = elsewhere.client.post("/apis/v1/replay", json=question)
        assert reply.status_code == 200, reply.text
        answer = error_shape.body(reply)
        assert answer["examined"] == answer["same"]
        assert not any(answer["skipped"].values())
        looked += answer["examined"]
        if not answer["continue"]:
            break
        # The budget was spent.
        question["continue"] = answer["continue"]
    assert looked > 20


def test_a_bundle_has_no_secret_of_its_source(bundle: bytes) -> None:
    text = b"".join(bundled.members(bundle).values()).decode()
    assert not [one for one in PASSWORDS if one in text]
    shown = json.loads(bundled.members(bundle)[layout.SETTINGS])["settings"]
    assert shown["tls.keystore_password"] == "(hidden)"
    assert "a:1,b:1,c:1/m" in shown["store.url"]


def test_making_a_bundle_leaves_the_store_as_it_was(source: api_worlds.World) -> None:
    def dumped() -> dict[bytes, bytes | None]:
        client, prefix = source.store.client, source.store.keys.prefix
        # Readers note how far they have read.
        kept = [key for key in client.scan_iter(f"{prefix}*") if not key.endswith(b":readers")]
        return {key: client.dump(key) for key in kept}

    before = dumped()
    bundled.exported(source, "?from=0")
    bundled.exported(source, "?around=shop/p1&minutes=5")
    assert dumped() == before


def test_a_bundle_from_the_first_event_is_whole(
    store_server: embedded.Server, source: api_worlds.World
) -> None:
    with bundled.opened(store_server, bundled.exported(source, "?from=0")) as world:
        assert ask(world, "events?limit=1000")["items"] == ask(source, "events?limit=1000")["items"]
        pod = ask(source, "decisions?limit=1")["items"][0]["pod"]["name"]
        assert ask(world, f"pods/shop/{pod}/explain") == ask(source, f"pods/shop/{pod}/explain")


def test_a_stretch_before_the_start_of_the_incarnation_can_be_opened(
    store_server: embedded.Server, process: api_worlds.Process
) -> None:
    world = api_worlds.filled(process())
    former = "000000000001-00000001"
    last = world.append(
        events.RecorderElected(by="r", epoch="1", incarnation=former), api_worlds.pod_seen("x")
    )
    with bundled.opened(store_server, bundled.exported(world, f"?from=3&to={last}")) as opened:
        assert ask(opened, f"nodes?at={last}")["items"] == ask(world, f"nodes?at={last}")["items"]
        assert ask(opened, f"map?at={last}") == ask(world, f"map?at={last}")


def test_an_opened_bundle_is_named_and_its_time_stands_still(elsewhere: api_worlds.World) -> None:
    shown = ask(elsewhere, "lag")["bundle"]
    assert (shown["first"], shown["by"], shown["created"]) == (
        FIRST,
        "operator@example",
        "2026-07-01T10:00:00.000Z",
    )
    assert ask(elsewhere, "consistency")["state"] == "unknown"


# -- which stretch ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=5&at=9", "from and to name a range"),
        ("from=5&minutes=5", "from and to name a range"),
        ("to=9&minutes=10", "from and to name a range"),
        ("from=200&to=100", "after to, which is offset 100"),
        ("to=99999", "to: offset 99999 is beyond the head"),
        ("from=2099-01-01T00:00:00Z", "from: 2099-01-01T00:00:00.000Z is in the future"),
        ("at=2099-01-01T00:00:00Z", "at: 2099-01-01T00:00:00.000Z is in the future"),
        ("at=99999", "at: offset 99999 is beyond the head"),
        ("at=2020-01-01T00:00:00Z", "at: the stretch ends before the first event of the log, which is of 20"),
        ("to=2020-01-01T00:00:00Z", "to: the stretch ends before the first event of the log, which is of 20"),
        ("from=0&to=0", "name a later moment"),
        ("around=web", "NAMESPACE/NAME"),
        ("minutes=0", "minutes"),
        ("pseudonyms=true", "pseudonyms"),
    ],
)
def test_a_wrong_stretch_is_refused(source: api_worlds.World, query: str, words: str) -> None:
    assert words in refused(source, query, 400, "BadRequest")


@pytest.mark.parametrize("path", ["nodes", "export"])
def test_a_time_in_the_future_is_refused_in_an_opened_bundle(elsewhere: api_worlds.World, path: str) -> None:
    reply = elsewhere.client.get(f"/apis/v1/{path}?at=2099-01-01T00:00:00Z")
    assert reply.status_code == 400
    assert "at: 2099-01-01T00:00:00.000Z is in the future" in error_shape.body(reply)["message"]


def test_a_pod_that_never_was_is_not_found(source: api_worlds.World) -> None:
    assert "shop/never" in refused(source, "around=shop/never", 404, "NotFound")


def test_a_pod_is_found_by_its_events_or_decisions_long_after_it_is_gone(source: api_worlds.World) -> None:
    gone = [one for one in ask(source, "events?type=PodGone&limit=1000")["items"]]
    about = json.loads(bundled.members(bundled.exported(source, f"?around={gone[0]['name']}"))[layout.ABOUT])
    assert about["around"] == gone[0]["name"]
    assert about["first"] <= gone[0]["offset"] <= about["last"]


def test_a_pod_that_is_gone_is_found_by_its_deletion_long_after_its_decisions(
    process: api_worlds.Process,
) -> None:
    world = api_worlds.filled(process())
    api_worlds.decide(world, api_worlds.pod("web-3"))
    client: Any = world.store.client
    key, hour = world.store.keys.decisions, 3_600_000
    decisions = client.xrange(key)
    client.delete(key)
    for identity, fields in decisions:
        client.xadd(key, fields, id=f"{int(identity.partition(b'-')[0]) - hour}-*")
    gone = world.append(events.PodGone(uid="uid-web-3", namespace="shop", name="web-3"))
    world.now[0] = (world.store.histories.appended_ms(gone) or 0) / 1000
    about = json.loads(bundled.members(bundled.exported(world, "?around=shop/web-3&minutes=1"))[layout.ABOUT])
    assert about["first"] < gone <= about["last"]


def test_a_range_has_the_decisions_that_saw_its_states(source: api_worlds.World) -> None:
    found = bundled.members(bundled.exported(source, "?from=100&to=200"))
    rows = ask(source, "decisions?limit=1000")["items"]
    expected = [one["id"] for one in rows if 100 <= int(one["position"].rpartition("/")[2]) <= 200]
    listed = [json.loads(line)["id"] for line in found[layout.DECISIONS].splitlines()[1:]]
    assert listed == expected[::-1]
    assert len(found[layout.EVENTS].splitlines()) == 102


# -- failures -----------------------------------------------------------------------------


def test_what_cannot_be_read_makes_the_export_fail(process: api_worlds.Process) -> None:
    world = api_worlds.filled(process())
    world.store.follower.catch_up()  # A process that reads the log from before would refuse to answer.
    world.store.client.xdel(world.store.keys.log, "5-0")
    found = bundled.members(bundled.exported(world, "?from=1"))
    assert layout.MANIFEST not in found
    assert "offset 5 is missing" in json.loads(found[layout.FAILED])["message"]


def test_one_bundle_is_made_at_a_time(source: api_worlds.World) -> None:
    with source.app.app_context():
        exports = services.current().exports
    with exports.admitted():
        reply = source.client.get("/apis/v1/export?from=0")
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "1")
    abandoned = source.client.get("/apis/v1/export?from=0", buffered=False)
    abandoned.close()
    with exports.admitted():
        pass
    assert source.client.head("/apis/v1/export?from=0").status_code == 200
    with exports.admitted():
        pass


def test_the_collector_runs_between_the_pieces_of_an_export(source: api_worlds.World) -> None:
    """A client may take an hour to read it, in which others are answered."""
    reply = source.client.get("/apis/v1/export?from=0", buffered=False)
    running = [gc.isenabled() for _ in reply.response]
    reply.close()
    assert running
    assert all(running)


def test_an_export_pauses_while_it_waits_for_heavy_questions(
    source: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the processor from the question that it waits for."""
    with source.app.app_context():
        turns = services.current().turns
    slept: list[float] = []
    times = types.SimpleNamespace(monotonic=itertools.count().__next__, sleep=slept.append)
    reply = source.client.get("/apis/v1/export?from=0", buffered=False)
    monkeypatch.setattr(exports, "time", times)
    monkeypatch.setattr(turns, "_places", threading.BoundedSemaphore(1))
    with turns.admitted():
        found = bundled.members(reply.get_data())
    assert "heavy question" in json.loads(found[layout.FAILED])["message"]
    assert len(slept) > 100
    assert min(slept) > 0.0


def test_a_range_that_is_too_long_is_refused(
    source: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_EVENTS", 50)
    assert "at most 50" in refused(source, "from=0", 400, "TooMuch")
    monkeypatch.undo()
    monkeypatch.setattr(layout, "MOST_DECISIONS", 3)
    found = bundled.members(bundled.exported(source, "?from=0"))
    assert "more than 3 decisions" in json.loads(found[layout.FAILED])["message"]
    monkeypatch.undo()
    monkeypatch.setattr(layout, "MOST_BYTES", 4096)
    found = bundled.members(bundled.exported(source, "?from=0"))
    assert "fewer minutes" in json.loads(found[layout.FAILED])["message"]
