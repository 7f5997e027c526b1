"""Extenders record their configuration in the log: once, after the first lists, and again if it was lost."""

import threading

from app import plugins
from app.domain import events
from app.framework import registry
from app.store import stores
from app.store.log import batches
from app.verbs import applied_configuration
from tests.support import declared

PRESENT = registry.Registry([plugin() for plugin in plugins.USUAL])
HEAVIER = registry.Registry([plugin() for plugin in plugins.USUAL], weights={"JobAffinity": 3})


def applied(
    store: stores.Store, chosen: registry.Registry = PRESENT, by: str = "extender-1/7"
) -> applied_configuration.AppliedConfiguration:
    """An extender with these plugins."""
    return applied_configuration.AppliedConfiguration(
        chosen.configuration(), store.follower.catch_up, store.log, by
    )


def listed(store: stores.Store) -> None:
    kinds = sorted(declared.SCHEMA.names)
    store.log.append(
        batches.Batch(events=tuple(events.Relisted(kind, "", "1", "first list") for kind in kinds))
    )


def recorded(store: stores.Store) -> list[tuple[str, str]]:
    """The digests in the log with the processes that appended them, oldest first."""
    found = [entry.event for entry in store.log.read(0)]
    return [
        (one.configuration.digest, one.by) for one in found if isinstance(one, events.ConfigurationApplied)
    ]


def test_a_configuration_is_recorded_once_whatever_restarts(store: stores.Store) -> None:
    listed(store)
    for process in ("extender-1/7", "extender-1/8", "extender-2/7"):
        applied(store, by=process).record()
    assert recorded(store) == [(PRESENT.digest, "extender-1/7")]


def test_each_configuration_of_a_rollout_is_recorded(store: stores.Store) -> None:
    listed(store)
    before, after = applied(store), applied(store, HEAVIER, "extender-1/9")
    for process in (before, after, before, after):
        process.record()
    assert recorded(store) == [(PRESENT.digest, "extender-1/7"), (HEAVIER.digest, "extender-1/9")]


def test_nothing_is_recorded_before_every_kind_was_listed(store: stores.Store) -> None:
    applied(store).record()
    assert recorded(store) == []


def test_of_replicas_that_start_at_once_one_appends(store: stores.Store) -> None:
    listed(store)
    start = threading.Barrier(8)

    def run(number: int) -> None:
        process = applied(store, by=f"extender-{number}/7")
        start.wait()
        process.record()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [digest for digest, _ in recorded(store)] == [PRESENT.digest]


def test_an_append_that_is_refused_is_tried_again(store: stores.Store) -> None:
    listed(store)
    process = applied(store)
    snapshot = store.follower.catch_up()
    other = applied_configuration.AppliedConfiguration(
        HEAVIER.configuration(), lambda: snapshot, store.log, "x"
    )
    process.record()
    other.record()  # Its snapshot is older than the event: the append is refused.
    assert [digest for digest, _ in recorded(store)] == [PRESENT.digest]
    snapshot = store.follower.catch_up()
    other.record()
    assert [digest for digest, _ in recorded(store)] == [PRESENT.digest, HEAVIER.digest]
