"""What the simulation found, one step at a time: each was a mistake once.

The histories are those of failing seeds, cut down to what mattered.
"""

import random
from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from structlog import testing

from app.domain import events
from app.kube import errors
from app.kube.client import fast_client
from app.kube.election import electors, leases
from app.kube.writes import binding
from app.store import errors as store_errors
from app.store import schemas, stores
from app.store.log import codecs, incarnations, logs
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.simulation import processes, virtual_time
from tests.support.simulation.cluster import api_client, cluster_objects
from tests.support.simulation.oracle import guarantees
from tests.support.simulation.store import lagging_replica, lossy_calls
from workers.controller import orphaned_placements


class World:
    """A cluster, a store on a server of its own, and the processes that a test starts."""

    def __init__(self, server: embedded.Server) -> None:
        self.clock = virtual_time.Clock()
        self.cluster = cluster_objects.Cluster()
        for name, role in cluster_objects.NODES.items():
            self.cluster.node(name, role=role)
        self.cluster.policy({"host": 1, "member": 1})
        self.server = server
        self.direct = connections.connect(server.url)
        self.direct.flushdb()
        names = declared.names("found")
        schemas.migrate(self.direct, names, declared.SCHEMA)
        self.watchdog = guarantees.Watchdog(self.direct, names, self.cluster)
        self._stores: list[stores.Store] = []

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.direct.close()

    def way(self) -> api_client.Client:
        return api_client.Client(self.cluster, self.clock, api_client.Faults(random.Random(0), 0.0))

    def store(self, *, emptied: bool = False) -> stores.Store:
        self._stores.append(processes.opened(self.server.url, "found", emptied=emptied))
        return self._stores[-1]

    def extender(self) -> processes.Extender:
        return processes.extender(self.store(), self.way(), self.clock, "extender")

    def recorder(self, name: str = "recorder") -> processes.Recorder:
        """One that leads and has recorded everything."""
        recorder = processes.Recorder(self.store(), self.way(), self.clock, random.Random(0), name)
        self.clock.advance(1.0)
        assert recorder.begin()
        self.observe(recorder)
        return recorder

    def listen(self, recorder: processes.Recorder) -> None:
        """The recorder observes every change of the cluster."""
        for kind in cluster_objects.EVERY:
            while getattr(recorder.observe(kind), "version", "") != str(self.cluster.objects.version):
                pass

    def observe(self, recorder: processes.Recorder) -> None:
        """And is recorded."""
        self.listen(recorder)
        assert recorder.run_once() is None

    def empty(self) -> None:
        """The store loses everything."""
        self.watchdog.compare()
        self.direct.flushdb()
        self.watchdog.failed_over()

    def events(self) -> list[events.AnyEvent]:
        """All that is in the log."""
        self.watchdog.compare()
        return [codecs.decode(entry.payload) for entry in self.watchdog.entries]


@pytest.fixture(scope="module")
def own() -> Iterator[embedded.Server]:
    server = embedded.Server()
    yield server
    server.stop()


@pytest.fixture
def world(own: embedded.Server) -> Iterator[World]:
    made = World(own)
    with testing.capture_logs(), virtual_time.installed(made.clock):
        yield made
        made.close()


def test_what_seems_no_news_beside_a_foreign_event_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder with many changes expects no other writer: it lost the end of a pod that way."""
    recorder = world.recorder()
    monkeypatch.setattr("workers.recorder.batch_builder.OPTIMISTIC_MIN", 3)
    pod = world.cluster.pod("web-0")
    other_log = world.store().log
    foreign = logs.Batch(events=(events.Quarantined(kind="pods", object="p", reason="a test"),))

    def others(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        if call is lossy_calls.Call.APPEND and not written:
            written.append(foreign)
            other_log.append(foreign)
        return ask()

    written: list[logs.Batch] = []
    with lossy_calls.watched(others):
        world.observe(recorder)
    assert written
    world.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, "web-0"))
    world.observe(recorder)
    assert any(
        isinstance(one, events.PodGone) and one.uid == pod["metadata"]["uid"] for one in world.events()
    )


def test_the_range_of_a_loss_includes_what_any_process_has_read(world: World) -> None:
    """The note in the Lease may be old: others have recorded since how far the log went."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    noted = recorder.store.log.head().offset
    world.clock.advance(processes.TERMS.retry)  # writes its note
    replica.follow()
    world.cluster.pod("web-0")
    assert recorder.elector is not None
    recorder.elector.frozen = True
    world.observe(recorder)
    extender = world.extender()
    lost = extender.store.follower.catch_up().offset
    assert lost > noted
    recorder.close()
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() == guarantees.Loss(extender.store.log.incarnation, noted + 1, lost)
    assert extender.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")
    successor = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")
    for _ in range(10):
        world.clock.advance(processes.TERMS.retry)
        successor.begin()
    assert successor.leads
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.lost_from, reported.lost_to) == (noted + 1, lost)


def emptied_after_a_beginning(world: World, lost: list[str]) -> lossy_calls.Watch:
    """The first beginning of an incarnation is lost at once; ``lost`` gets what the store holds then."""

    def watch(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> connections.Reply:
        answer = ask()
        if call is lossy_calls.Call.REWIND and not lost:
            world.empty()
            lost.append(str(world.direct.dbsize()))
        return answer

    return watch


def test_a_loss_right_after_a_loss_is_healed_too(world: World) -> None:
    """It was detected while the first one was being reported, and the error ended the recorder."""
    recorder = world.recorder()
    first = recorder.store.log.incarnation
    world.clock.advance(processes.TERMS.retry)  # writes its note
    world.cluster.pod("early")
    world.observe(recorder)  # and goes on
    head = recorder.store.log.head().offset

    lost: list[str] = []
    world.empty()
    world.cluster.pod("web-0")
    with lossy_calls.watched(emptied_after_a_beginning(world, lost)):
        world.listen(recorder)
        assert isinstance(recorder.run_once(), store_errors.Rewound)
        for _ in range(20):
            world.clock.advance(processes.TERMS.retry)
            if recorder.begin():
                break
    world.observe(recorder)
    assert lost == ["0"]
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.from_incarnation, reported.lost_from, reported.lost_to) == (first, 1, head)
    assert recorder.store.log.incarnation != first
    assert any(isinstance(one, events.PodSeen) and one.pod.name == "web-0" for one in world.events())


def test_a_beginning_that_is_lost_at_once_is_made_again_with_the_same_range(world: World) -> None:
    """The recorder knew of the loss from the note in the Lease alone, and reported an older one instead."""

    def lead(recorder: processes.Recorder) -> None:
        while not recorder.begin():
            world.clock.advance(processes.TERMS.retry)

    lost: list[str] = []
    first = world.recorder("first")
    second = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    assert not second.begin()
    oldest = second.store.follower.catch_up().position.incarnation
    world.empty()
    world.cluster.pod("web-0")
    world.listen(first)
    assert isinstance(first.run_once(), store_errors.Rewound)
    lead(first)
    world.observe(first)
    world.clock.advance(processes.TERMS.retry)  # writes its note
    known = first.store.log.seen
    assert known.incarnation != oldest == second.store.log.incarnation
    first.close()
    world.empty()
    with lossy_calls.watched(emptied_after_a_beginning(world, lost)):
        lead(second)
    assert lost == ["0"]
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.from_incarnation, reported.lost_from, reported.lost_to) == (
        known.incarnation,
        1,
        known.offset,
    )


def test_a_note_of_a_loss_that_is_lost_itself_makes_nothing_else_lost(world: World) -> None:
    """A failover between two reads: the entry named in the Lease existed, and was reported as lost."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    world.clock.advance(processes.TERMS.retry)  # writes its note
    replica.follow()
    kept = recorder.store.log.head().offset
    assert recorder.elector is not None
    recorder.elector.frozen = True
    world.cluster.pod("web-0")
    world.observe(recorder)
    extender = world.extender()
    lost = extender.store.follower.catch_up().offset
    recorder.close()

    def promote() -> None:
        world.watchdog.compare()
        replica.promote()
        world.watchdog.failed_over()

    def bind() -> str:
        return extender.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")

    def failing_over(
        _: connections.Wire, call: lossy_calls.Call, packed: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        # The question about the word in the Lease.
        if call is lossy_calls.Call.DOUBT and lossy_calls.arguments(packed)[1] == b"%d" % kept and not again:
            again.append(str(answer))
            promote()
        return answer

    again: list[str] = []
    promote()
    assert bind()  # leaves a note in the store
    successor = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")

    def lead() -> None:
        while not successor.begin():
            world.clock.advance(processes.TERMS.retry)

    with lossy_calls.watched(failing_over):
        lead()
    assert again
    bind()  # and another one
    world.cluster.pod("web-1")
    world.listen(successor)
    assert isinstance(successor.run_once(), store_errors.Rewound)
    lead()
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.lost_from, reported.lost_to) == (kept + 1, lost)


def test_an_incarnation_that_is_lost_unread_is_reported_as_lost(world: World) -> None:
    """A reader that had only its name reported a range that ended before it began."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    replica.follow()
    world.cluster.pod("web-0")
    world.observe(recorder)

    def lose() -> guarantees.Loss | None:
        world.watchdog.compare()
        replica.promote()
        return world.watchdog.failed_over()

    def crashing(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.REWIND:
            raise lossy_calls.Crashed("after the call")
        return answer

    assert lose() is not None
    world.cluster.pod("web-1")

    def healing() -> None:
        world.listen(recorder)
        recorder.run_once()
        while not recorder.begin():
            world.clock.advance(processes.TERMS.retry)

    with lossy_calls.watched(crashing), pytest.raises(lossy_calls.Crashed):
        healing()
    recorder.close()
    informed = world.extender()
    unread = informed.store.log.incarnation
    loss = lose()
    assert loss is not None
    assert loss.incarnation == unread
    assert informed.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")
    successor = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")
    for _ in range(20):
        world.clock.advance(processes.TERMS.retry)
        if successor.begin():
            break
    reported = [one for one in world.events() if isinstance(one, events.StoreRewound)][-1]
    assert reported.from_incarnation == unread
    assert reported.lost_from <= loss.first <= reported.lost_to


def test_a_checkpoint_serves_a_reader_that_moves_to_another_incarnation(world: World) -> None:
    """The part before it is trimmed: without the checkpoint there is no way to go along."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    compacting = world.store()
    compacting.follower.catch_up()
    snapshot, at_ms = compacting.follower.dated()
    assert at_ms is not None
    compacting.checkpoints.write(snapshot, at_ms)
    compacting.log.trim(snapshot.offset, snapshot.offset, reader_timeout=-1.0)
    replica.follow()
    world.cluster.pod("web-0")
    world.observe(recorder)
    extender = world.extender()
    extender.store.follower.catch_up()
    replica.promote()
    assert recorder.run_once() is not None
    assert recorder.begin()
    world.observe(recorder)
    assert {pod.name for pod in extender.store.follower.catch_up().pods.values()} == {"web-0"}


def refusing(reasons: list[str]) -> Callable[..., object]:
    """The API server's side of Bindings: each is carried out or not, and no caller gets the outcome."""
    exchange = api_client.Client.exchange

    def exchanged(
        self: api_client.Client, method: str, path: str, body: bytes = b"", *, timeout: float
    ) -> object:
        if method != "POST":
            return exchange(self, method, path, body, timeout=timeout)
        reason = reasons.pop(0)
        if reason == "done":
            exchange(self, method, path, body, timeout=timeout)
        self._clock.advance(timeout)
        raise errors.Unreachable("simulated", refused=reason == "refused")

    return exchanged


def test_a_refused_repetition_proves_nothing_about_the_first_binding(world: World) -> None:
    """The first was carried out unseen; that a later one could not connect must not free its place."""
    world.recorder()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    extender = world.extender()
    with (
        mock.patch.object(api_client.Client, "exchange", refusing(["done", "lost", "refused"])),
        mock.patch.object(binding.ApiBinder, "_read_outcome", return_value=binding.Unknown("no reply")),
    ):
        assert "not known" in extender.bind("shop", "web-0", uid, "h1")
        world.clock.advance(binding.UNFENCED)
        assert extender.bind("shop", "web-0", uid, "h1") == ""
    assert dict(extender.store.follower.catch_up().counts) == {"shop/spread|role=host": 1}


def test_a_placement_that_is_resumed_is_appended_again(world: World) -> None:
    """Otherwise the controller would treat it as an old orphaned placement."""
    world.recorder()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    extender = world.extender()
    with mock.patch.object(api_client.Client, "exchange", refusing(["lost", "lost"])):
        assert "not known" in extender.bind("shop", "web-0", uid, "h1")
    settler = processes.settler(world.extender(), world.clock)
    assert settler.run_once() == 0
    world.clock.advance(binding.UNFENCED)
    with mock.patch.object(api_client.Client, "exchange", refusing(["lost", "lost"])):
        assert "not known" in extender.bind("shop", "web-0", uid, "h1")
    assert settler.run_once() == 0
    world.clock.advance(orphaned_placements.OLD - 1.0)
    assert settler.run_once() == 0
    world.clock.advance(1.0)
    assert settler.run_once() == 1


def test_no_binding_is_repeated_after_its_time(world: World) -> None:
    """A process that was stopped between two attempts resumes later than any other process expects."""
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    sent: list[float] = []

    def stopped(*_: object, timeout: float, **__: object) -> object:
        sent.append(timeout)
        world.clock.advance(30.0)
        raise errors.Unreachable("simulated: no answer")

    with mock.patch.object(api_client.Client, "exchange", stopped):
        outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=3.0)
    assert isinstance(outcome, binding.Unknown)
    assert len(sent) == 2  # one Binding, and one look at the pod


@pytest.mark.parametrize("left", [0.15, 0.07, 0.001, -1.0])
def test_no_binding_is_repeated_after_its_time_when_little_of_it_was_left(world: World, left: float) -> None:
    """A bind that had a tenth of a second granted although less was left sent its repetition too late."""
    pod = world.cluster.pod("web-0")
    uid = pod["metadata"]["uid"]
    world.recorder()
    extender = world.extender()
    extender.offer(pod)
    budget = extender.context.budgets.bind
    deadline = world.clock.now + budget
    sent: list[float] = []

    def slow(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.APPEND:
            world.clock.now = deadline - left
        return answer

    def lost(*_: object, timeout: float, **__: object) -> object:
        sent.append(world.clock.now)
        world.clock.advance(timeout)
        raise errors.Unreachable("simulated: no answer")

    with lossy_calls.watched(slow), mock.patch.object(api_client.Client, "exchange", lost):
        error = extender.bind("shop", "web-0", uid, "h1")
    assert ("the time for this bind is over" in error) == (left < 0.1)
    assert bool(sent) == (left >= 0.1)
    assert all(when <= deadline for when in sent[:-1])  # the last one reads the pod


def test_a_repeated_binding_has_no_more_time_than_is_left(world: World) -> None:
    """One that was begun just before the deadline was under way when others took it for over."""
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    deadline = world.clock.now + 3.0
    sent: list[tuple[float, float]] = []

    def slow(*_: object, timeout: float, **__: object) -> object:
        sent.append((world.clock.now, timeout))
        world.clock.advance(2.9 if len(sent) == 1 else timeout)
        raise errors.Unreachable("simulated: no answer")

    with mock.patch.object(api_client.Client, "exchange", slow):
        outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=3.0)
    assert isinstance(outcome, binding.Unknown)
    assert len(sent) == 3  # the last one reads the pod
    assert all(when + timeout <= deadline + 1e-6 for when, timeout in sent[:-1])


@pytest.mark.parametrize("left", [0.0, -0.5])
def test_a_binding_that_has_no_time_at_all_is_not_sent(world: World, left: float) -> None:
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=left)
    assert outcome == binding.NotBound("not bound: the timeout passed before the Binding was sent")
    assert world.cluster.bindings == 0


def test_a_denied_repetition_proves_nothing_about_the_first_binding(world: World) -> None:
    """The answer to the first was lost; the second attempt was denied."""
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    exchange = api_client.Client.exchange
    sent: list[str] = []

    def denied(
        self: api_client.Client, method: str, path: str, body: bytes = b"", *, timeout: float
    ) -> fast_client.Reply:
        sent.append(method)
        if sent == ["POST", "POST"]:
            return fast_client.Reply(403, b'{"kind":"Status","code":403,"reason":"Forbidden"}')
        reply = exchange(self, method, path, body, timeout=timeout)
        if method == "POST":
            raise errors.Unreachable("simulated: the answer was lost")
        return reply

    with mock.patch.object(api_client.Client, "exchange", denied):
        outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=3.0)
    assert sent == ["POST", "POST", "GET"]
    assert outcome == binding.Bound()


def test_a_placement_appended_again_for_the_same_node_is_not_released_instead_of_the_old_one(
    world: World,
) -> None:
    """A bind to another node had read the old one; the new one's Binding had been carried out."""
    world.recorder()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    one, other = world.extender(), world.extender()
    with mock.patch.object(api_client.Client, "exchange", refusing(["lost", "lost"])):
        assert "not known" in one.bind("shop", "web-0", uid, "h1")
    assert "may still be bound" in other.bind("shop", "web-0", uid, "m1")
    world.clock.advance(binding.UNFENCED)
    exchange = api_client.Client.exchange
    answers: list[str] = []

    def looked(
        self: api_client.Client, method: str, path: str, body: bytes = b"", *, timeout: float
    ) -> fast_client.Reply:
        reply = exchange(self, method, path, body, timeout=timeout)
        if method == "GET" and not answers:
            answers.append("asked")
            answers.append(one.bind("shop", "web-0", uid, "h1"))
        return reply

    with mock.patch.object(api_client.Client, "exchange", looked):
        assert "cannot be released yet" in other.bind("shop", "web-0", uid, "m1")
    assert answers == ["asked", ""]
    assert dict(other.store.follower.catch_up().counts) == {"shop/spread|role=host": 1}


def observe_without_replies(world: World, recorder: processes.Recorder) -> None:
    """The changes of the cluster are appended, and the replies are lost."""

    def unheard(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.APPEND and not recorder.problem:
            lost.append(answer)
            raise lossy_calls.away("the answer was lost")
        return answer

    lost: list[object] = []
    with lossy_calls.watched(unheard):
        world.observe(recorder)
    assert lost


def test_a_batch_whose_answer_was_lost_is_known_again_in_the_log(world: World) -> None:
    """Drafted again after it, the pod that had come and gone came and went once more."""
    recorder = world.recorder()
    world.cluster.pod("web-0")
    world.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, "web-0"))
    observe_without_replies(world, recorder)
    found = [one for one in world.events() if isinstance(one, events.PodSeen | events.PodGone)]
    assert [type(one).__name__ for one in found] == ["PodSeen", "PodGone"]


def test_checkpoints_that_go_while_the_log_is_trimmed_end_no_compactor(world: World) -> None:
    """A new incarnation lets all of them go; there is nothing to trim to then."""
    recorder = world.recorder()
    compactor = processes.compactor(world.store(), world.clock, patient=False)
    for number in range(26):
        if number == 10:
            world.observe(recorder)
            compactor.run_once()
        world.cluster.pod(f"web-{number}")
    world.observe(recorder)
    names = declared.names("found")

    def gone(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        if call is lossy_calls.Call.TRIM:
            deleted.append(world.direct.delete(names.checkpoints))
        return ask()

    deleted: list[object] = []
    with lossy_calls.watched(gone):
        compactor.run_once()
    assert deleted == [1]
    assert world.store().log.oldest() == 1
    compactor.run_once()


def test_what_was_reported_when_a_former_incarnation_began_is_not_reported_again(world: World) -> None:
    """That one is lost as well: its successor speaks of it, and the Lease of the one before."""
    leadership = world.recorder().leadership
    recovery = leadership._recovery
    first, second, third = ("019e7053ca40-00000001", "019e70579676-00000002", "019e7058067e-00000003")
    word = electors.Tenure(epoch="9", transitions=1, handover_note=str(incarnations.Watermark(first, 21, 5)))
    state = leadership._log.state()
    reported = state._replace(incarnation=third, former=second, head=12)
    assert recovery.lost(word, reported) is None
    untold = state._replace(incarnation=third, former="019e7053ca39-00000000", head=12)
    assert recovery.lost(word, untold) == incarnations.Watermark(first, 21, 5)


def test_a_batch_that_was_known_again_is_missed_when_it_is_lost(world: World) -> None:
    """The reply to its append was lost; that it was found in the log has to be remembered."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    replica.follow()
    world.cluster.pod("web-0")
    observe_without_replies(world, recorder)
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() is not None
    assert isinstance(recorder.run_once(), store_errors.Rewound)


def test_a_placement_differs_from_the_one_at_its_offset_before_a_loss(world: World) -> None:
    """It was taken for as old as that one, and given up while its Binding was under way."""
    replica = lagging_replica.Replica(world.direct)
    recorder, one, other = world.recorder(), world.extender(), world.extender()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    world.observe(recorder)
    replica.follow()
    before = recorder.store.log.head().offset

    def fill(log: logs.Log, until: int) -> None:
        nothing = events.Quarantined(kind="pods", object="p", reason="a test")
        log.append(logs.Batch(events=(nothing,) * (until - log.head().offset)))

    def lost(*_: object, **__: object) -> object:
        raise errors.Unreachable("simulated: no answer")

    fill(other.store.log, before + 100)
    other.offer(world.cluster.objects.get("pods", (cluster_objects.NAMESPACE, "web-0")))
    with mock.patch.object(other.client, "exchange", lost):
        assert "not known" in other.bind("shop", "web-0", uid, "h1")
    assert "may still be bound there" in one.bind("shop", "web-0", uid, "m1")
    former = one.store.follower.snapshot.placement_position(uid)
    world.watchdog.compare()
    replica.promote()
    world.watchdog.failed_over()
    world.clock.advance(60.0)
    with pytest.raises(store_errors.StoreError):
        one.store.follower.catch_up()
    assert isinstance(recorder.run_once(), store_errors.Rewound)
    assert recorder.begin()
    world.observe(recorder)
    fill(recorder.store.log, before + 100)

    ways: list[str] = []
    exchange = other.client.exchange

    def meanwhile(method: str, path: str, body: bytes = b"", *, timeout: float) -> object:
        ways.append(one.bind("shop", "web-0", uid, "m1"))
        return exchange(method, path, body, timeout=timeout)

    with mock.patch.object(other.client, "exchange", meanwhile):
        assert other.bind("shop", "web-0", uid, "h1") == ""
    made = one.store.follower.snapshot.placement_position(uid)
    assert former is not None
    assert made is not None
    assert made.offset == former.offset
    assert made != former
    assert "may still be bound there" in ways[0]
    world.observe(recorder)
    world.watchdog.compare()
    assert world.cluster.bound[uid] == {"h1"}


def test_a_recorder_asks_what_its_predecessor_knew_of_an_incarnation_that_it_began_itself(
    world: World,
) -> None:
    """Others have recorded since, and left in the Lease how far: the store may have lost that."""

    def lead(recorder: processes.Recorder) -> None:
        while not recorder.begin():
            world.clock.advance(processes.TERMS.retry)

    replica = lagging_replica.Replica(world.direct)
    first = world.recorder("first")
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    world.empty()
    world.listen(first)
    world.cluster.pod("web-0")
    world.listen(first)
    assert isinstance(first.run_once(), store_errors.Rewound)
    lead(first)
    world.observe(first)
    began = first.store.log.incarnation
    assert first.elector is not None
    read = first.store.log.seen.offset
    first.freeze(True)
    world.clock.advance(processes.TERMS.lease + 1.0)
    second = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    lead(second)
    world.observe(second)
    replica.follow()
    kept = second.store.log.head().offset
    world.cluster.pod("web-1")
    world.observe(second)
    lost = second.store.log.head().offset
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    second.close()
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() == guarantees.Loss(began, kept + 1, lost)
    first.freeze(False)
    world.clock.advance(processes.TERMS.lease + 1.0)
    lead(first)
    [rewound] = [one for one in world.events() if isinstance(one, events.StoreRewound)][1:]
    assert rewound.lost_to == lost
    # Only the process that died had certainly read what the store kept of its term.
    assert read < rewound.lost_from <= kept + 1


def test_a_leader_that_was_paused_leaves_the_note_of_the_one_between(world: World) -> None:
    """It holds the Lease again before its own loop notices, and what it had read is older."""
    first = world.recorder("first")
    assert first.elector is not None
    first.freeze(True)
    world.clock.advance(processes.TERMS.lease + 1.0)
    second = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    while not second.begin():
        world.clock.advance(processes.TERMS.retry)
    world.observe(second)
    world.cluster.pod("web-1")
    world.observe(second)
    head = second.store.log.head().offset
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    second.close()
    first.freeze(False)
    for _ in range(4):
        # Its elector takes the Lease again, and renews it; the recorder itself does nothing yet.
        world.clock.advance(processes.TERMS.lease)
        first.elector.run_once()
        first.elector.run_once()
    assert first.elector.tenure is not None
    note = leases.note(world.cluster.objects.get("leases", ("topolog", "recorder")), "topolog.io/known")
    known = incarnations.parse_watermark(note)
    assert known is not None
    assert known.offset == head


def test_what_an_incarnation_kept_of_the_one_before_it_is_not_lost(world: World) -> None:
    """A recorder reported the loss of an incarnation from another one, which it then missed: without end."""
    first = world.recorder("first")
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    third = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "third")
    known, spare = first.store.log.incarnation, world.store()
    third.freeze(True)
    world.empty()
    world.cluster.pod("web-0")

    def crashing(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.REWIND:
            raise lossy_calls.Crashed("after the call")
        return answer

    def healing() -> None:
        world.listen(first)
        first.run_once()
        lead(world, first)

    # It begins another incarnation, of which the Lease has no note: the third recorder has read it.
    with lossy_calls.watched(crashing), pytest.raises(lossy_calls.Crashed):
        healing()
    first.close()
    assert not third.begin()
    unnoted = third.store.log.incarnation
    assert unnoted != known
    world.empty()
    # The second one knows the note only.
    second = processes.Recorder(spare, world.way(), world.clock, random.Random(0), "second")
    world.clock.advance(processes.TERMS.lease + 1.0)
    assert lead(world, second)
    second.close()
    third.freeze(False)
    assert not third.begin()  # and follows the next one
    world.clock.advance(processes.TERMS.lease + 1.0)
    assert lead(world, third)
    reported = [one.from_incarnation for one in world.events() if isinstance(one, events.StoreRewound)]
    assert reported == [known, unnoted]
    world.observe(third)


def lead(world: World, recorder: processes.Recorder) -> bool:
    """Whether the recorder leads after a few attempts."""
    for _ in range(10):
        if recorder.begin():
            return True
        world.clock.advance(processes.TERMS.retry)
    return False
