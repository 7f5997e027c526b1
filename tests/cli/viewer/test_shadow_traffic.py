"""A shadow over live traffic, in a process of ``topolog view`` that is killed meanwhile."""

import itertools
import threading

import pytest

from app.domain import events
from tests.support import polling
from tests.support.browser.seen_worlds import Json, Seen, ask
from tests.support.extender import api_worlds, questions
from tests.support.extender.error_shape import body

PATH = "/apis/v1/shadows/tight"
OVERRIDES = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+1"}}]
DECISIONS, AT_ONCE = 5000, 50


def traffic(seen: Seen, enough: threading.Event, killed: threading.Event) -> None:
    """Decisions until all kills are over, and a policy that changes now and then.

    Some pods fit by the shadow alone, some by both.
    """
    for first in itertools.count(0, AT_ONCE):
        if first >= DECISIONS and killed.is_set():
            return
        api_worlds.decide(seen.world, *(api_worlds.pod(f"live-{first + at}") for at in range(AT_ONCE)))
        if first % 1000 == 0:
            seen.world.append(api_worlds.policy(host=1 + first // 1000 % 3))
        if first >= DECISIONS // 5:
            enough.set()


@pytest.mark.scenario("WI-9")
def test_a_process_that_is_killed_counts_again_and_misses_no_decision(seen: Seen) -> None:
    asked = {"overrides": OVERRIDES, "until": "2100-01-01T00:00:00Z"}
    assert seen.world.client.put(PATH, json=asked).status_code == 200
    # As an extender does when it starts; another process computes under recorded configurations only.
    seen.world.append(events.ConfigurationApplied(seen.world.registry.configuration()))
    enough, killed = threading.Event(), threading.Event()
    deciding = threading.Thread(target=traffic, args=(seen, enough, killed))
    deciding.start()
    assert enough.wait(120)
    try:
        for _ in range(3):
            seen.viewer.stop(kill=True)
            seen.viewer.start()
            polling.eventually(lambda: comparisons(seen), "it compares", within=120)
    finally:
        killed.set()
        deciding.join(120)
    assert not deciding.is_alive()
    replayed = replay(seen, body(seen.world.client.get(PATH))["since"])
    assert replayed["examined"] >= DECISIONS
    found = compared(seen, total(replayed))
    assert {name: found[name] for name in replayed} == replayed
    assert sum(number > 0 for number in found["classes"].values()) > 1
    assert (found["gap"], found["problem"]) == (False, None)


@pytest.mark.scenario("WI-9")
def test_what_was_trimmed_before_it_was_compared_is_reported(seen: Seen) -> None:
    store = seen.world.store
    assert seen.world.client.put(PATH, json={"overrides": OVERRIDES}).status_code == 200
    seen.world.append(events.ConfigurationApplied(seen.world.registry.configuration()))
    since = body(seen.world.client.get(PATH))["since"]
    api_worlds.decide(seen.world, *(api_worlds.pod(f"early-{at}") for at in range(20)))
    assert compared(seen, total(replay(seen, since)))["gap"] is False
    seen.viewer.stop(kill=True)
    # A policy that changes, so that the later decisions see other states; their log is trimmed, too.
    seen.world.append(api_worlds.policy(host=2))
    api_worlds.decide(seen.world, *(api_worlds.pod(f"middle-{at}") for at in range(20)))
    seen.world.append(api_worlds.policy(host=3))
    state = store.follower.catch_up()
    store.checkpoints.write(state, store.follower.dated()[1] or 0)
    before = store.client.xlen(store.keys.decisions)
    api_worlds.decide(seen.world, *(api_worlds.pod(f"late-{at}") for at in range(20)))
    late = store.client.xlen(store.keys.decisions) - before
    assert store.log.trim(state.offset, state.offset, reader_timeout=-1.0)
    kept = late + 10
    store.client.xtrim(store.keys.decisions, maxlen=kept, approximate=False)
    seen.viewer.start()
    replayed = replay(seen, since)
    found = compared(seen, total(replayed))
    assert {name: found[name] for name in replayed} == replayed
    assert total(found) == kept
    assert found["skipped"]["trimmed"] == 10
    assert (found["gap"], found["problem"]) == (True, None)


def compared(seen: Seen, records: int) -> Json:
    """The differences, once so many records are read and it has seen that there are no more."""

    def found() -> Json:
        read = differences(seen)
        return read if total(read) == records and read["behindSeconds"] == 0 else None

    return polling.eventually(found, "all is compared", within=120, seen=lambda: differences(seen))


def total(found: Json | None) -> int:
    """How many records were read; none before it has begun."""
    return found["examined"] + sum(found["skipped"].values()) if found is not None else 0


def replay(seen: Seen, since: int) -> Json:
    """The counters of a replay of everything since an offset, in as many parts as it takes."""
    counted: Json = {"examined": 0, "same": 0, "classes": {}, "skipped": {}}
    more: dict[str, object] = {"from": str(since)}
    while more:
        part = questions.ask(seen.world, "replay", overrides=OVERRIDES, compare="scores", budget=20, **more)
        counted = {name: added(value, part[name]) for name, value in counted.items()}
        more = {} if part["complete"] else {"continue": part["continue"]}
    return counted


def added(first: Json, second: Json) -> Json:
    """The sum of two counters, or of two groups of counters."""
    if isinstance(second, dict):
        return {name: first.get(name, 0) + number for name, number in second.items()}
    return first + second


def differences(seen: Seen) -> Json:
    """What the process has compared by now; None before it has begun."""
    return ask(seen, PATH)[1].get("differences")


def comparisons(seen: Seen) -> int:
    """How many decisions it has compared."""
    found = differences(seen)
    return found["examined"] if found is not None else 0
