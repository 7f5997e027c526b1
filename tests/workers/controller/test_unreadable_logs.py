"""A controller that cannot read the log does nothing by what it has read before."""

import collections
import threading
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from app import plugins
from app.framework import registry, registry_builder
from app.kube.election import electors
from app.store import errors, keys, stores
from tests.support import bind_times
from tests.support.workers import clusters, pending_pods, recordings
from workers.controller import controllers


class Running:
    """A controller in a thread, and how often it has begun each of its steps."""

    def __init__(self, store: stores.Store, cluster: clusters.Cluster, built: registry.Registry) -> None:
        self.store = store
        self.elector = electors.Elector(
            cluster.client, "ns", "topolog-controller", durations=recordings.TERMS
        )
        self.controller = controllers.Controller(
            store, cluster.client, built, old=bind_times.OLD, elector=self.elector
        )
        self.steps: collections.Counter[str] = collections.Counter()
        self.raised: list[errors.StoreError] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def counted(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """Count the steps of a part."""
        part = getattr(self.controller, name)
        run = part.run_once

        def counting(*given: object, **options: object) -> object:
            self.steps[name] += 1
            return run(*given, **options)

        monkeypatch.setattr(part, "run_once", counting)

    def start(self) -> None:
        """Start it, and wait until it has reconciled everything."""
        self.thread.start()
        recordings.eventually(lambda: self.controller._led[0] != "", "it leads")

    def stop(self) -> None:
        self.controller.stop()
        if self.thread.ident is not None:
            self.thread.join(recordings.LIMIT)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        try:
            self.controller.run()
        except errors.StoreError as error:
            self.raised.append(error)


@pytest.fixture
def running(
    recorded: Callable[[], recordings.Recording],
    again: Callable[..., stores.Store],
    cluster_side: clusters.Cluster,
) -> Iterator[Running]:
    cluster_side.node("n", zone="host")
    pending_pods.pending(cluster_side, "p0")
    recorded().ready()
    names = tuple(kind.name for kind in plugins.USUAL)
    built = registry_builder.build(plugins.USUAL, enabled=names, weights={}, score_max=10, args={})
    made = Running(again(indexed=built.indexed()), cluster_side, built)
    yield made
    made.stop()


def test_a_controller_ends_at_an_event_of_a_later_version_and_leaves_the_lease_to_others(
    running: Running, cluster_side: clusters.Cluster
) -> None:
    running.start()
    _append_of_a_later_version(running.store)
    running.thread.join(recordings.LIMIT)
    (error,) = running.raised
    assert isinstance(error, errors.Newer)
    assert running.elector.tenure is None
    lease = cluster_side.server.objects.get("leases", ("ns", "topolog-controller"))
    assert lease["spec"]["holderIdentity"] == ""


def test_a_controller_that_starts_before_an_event_of_a_later_version_ends_there(running: Running) -> None:
    _append_of_a_later_version(running.store)
    running.thread.start()
    running.thread.join(recordings.LIMIT)
    (error,) = running.raised
    assert isinstance(error, errors.Newer)


def test_an_error_that_is_gone_at_the_next_read_of_it_ends_a_controller_too(running: Running) -> None:
    made, error = running.controller, errors.Newer("of a later version")
    found = iter([error])
    read = mock.PropertyMock(side_effect=lambda: next(found, None))
    with mock.patch.object(type(running.store.follower), "error", read, create=True):
        made._catch_up()
    assert made._unreadable is error


def _append_of_a_later_version(store: stores.Store) -> None:
    client, names = store.client, store.keys
    client.eval(
        "local head = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)"
        " return redis.call('XADD', KEYS[2], head .. '-0', 't', '1', 'e', ARGV[2], 'w', '')",
        2,
        names.meta,
        names.log,
        keys.HEAD,
        '{"v":1,"type":"Tomorrow"}',
    )


def test_a_controller_pauses_while_the_store_is_away_and_forgets_nothing(
    running: Running, cluster_side: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, follower = running.controller, running.store.follower
    for name in ("waker", "orphans", "reconciliation", "statuses", "evictor", "refusals", "poster"):
        running.counted(monkeypatch, name)
    monkeypatch.setattr(controllers, "EVENTS_EVERY", 0.05)
    running.start()
    forgotten: list[str] = []
    for part in (made.reconciliation, made.evictor):
        monkeypatch.setattr(part, "forget", lambda: forgotten.append("state"))
    monkeypatch.setattr(made.reconciliation, "resume", lambda: forgotten.append("reconciled"))
    advance = follower._reads.advance

    def away(*_: object) -> object:
        raise errors.away("no answer")

    def still() -> bool:
        """Whether nothing but Events is dealt with while several of them could be posted."""
        before = running.steps.copy()
        recordings.eventually(lambda: running.steps["poster"] >= before["poster"] + 40, "Events are posted")
        return {**running.steps, "poster": 0} == {**before, "poster": 0}

    assert not still()
    monkeypatch.setattr(follower._reads, "advance", away)
    recordings.eventually(lambda: follower.error is not None, "the log cannot be read")
    recordings.eventually(still, "nothing is done by what was read before")
    assert made.leads
    monkeypatch.setattr(follower._reads, "advance", advance)
    cluster_side.policy("p", host=1)
    recordings.eventually(lambda: pending_pods.woken(cluster_side) == ["p0"], "it goes on where it was")
    assert forgotten == []
