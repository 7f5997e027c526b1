"""What the simulation found, one step at a time: each was a mistake once.

The histories are those of failing seeds, cut down to what mattered.
"""

import random
from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from structlog import testing

from app.domain import events
from app.kube import binding, electing, errors, leases
from app.kube import connecting as kube_connecting
from app.store import codecs, connecting, embedded, incarnations, keys, logs, opening
from app.store import errors as store_errors
from tests.campaigns import clocks, clusters, failing, parts, promises, wires
from workers import settling


class World:
    """A cluster, a store on a server of its own, and the processes that a test starts."""

    def __init__(self, server: embedded.Server) -> None:
        self.clock = clocks.Clock()
        self.cluster = clusters.Cluster()
        for name, role in clusters.NODES.items():
            self.cluster.node(name, role=role)
        self.cluster.policy({"host": 1, "member": 1})
        self.server = server
        self.direct = connecting.connect(server.url)
        self.direct.flushdb()
        names = keys.Keys("found")
        opening.migrate(self.direct, names)
        self.watchdog = promises.Watchdog(self.direct, names, self.cluster)
        self._stores: list[opening.Store] = []

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.direct.close()

    def way(self) -> clusters.Client:
        return clusters.Client(self.cluster, self.clock, clusters.Faults(random.Random(0), 0.0))

    def store(self, *, emptied: bool = False) -> opening.Store:
        self._stores.append(parts.opened(self.server.url, "found", emptied=emptied))
        return self._stores[-1]

    def extender(self) -> parts.Extender:
        return parts.extender(self.store(), self.way(), self.clock, "extender")

    def recorder(self, name: str = "recorder") -> parts.Recorder:
        """One that leads and has recorded everything."""
        recorder = parts.Recorder(self.store(), self.way(), self.clock, random.Random(0), name)
        self.clock.advance(1.0)
        assert recorder.begin()
        self.hear(recorder)
        return recorder

    def listen(self, recorder: parts.Recorder) -> None:
        """Everything that the cluster has to tell comes to the recorder."""
        for kind in clusters.RESOURCES:
            while getattr(recorder.hear(kind), "version", "") != str(self.cluster.objects.version):
                pass

    def hear(self, recorder: parts.Recorder) -> None:
        """And is recorded."""
        self.listen(recorder)
        assert recorder.turn() is None

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
    with testing.capture_logs(), clocks.installed(made.clock):
        yield made
        made.close()


def test_what_seems_no_news_beside_a_foreign_event_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder with much to do bets on nobody else writing: it lost the end of a pod that way."""
    recorder = world.recorder()
    monkeypatch.setattr("workers.drafting.ALONE", 3)
    pod = world.cluster.pod("web-0")
    somebody = world.store().log
    foreign = logs.Batch(events=(events.Quarantined(kind="pods", object="p", reason="a test says so"),))

    def others(_: connecting.Wire, call: wires.Call, __: connecting.Packed, ask: wires.Ask) -> object:
        if call is wires.Call.APPEND and not written:
            written.append(foreign)
            somebody.append(foreign)
        return ask()

    written: list[logs.Batch] = []
    with wires.watched(others):
        world.hear(recorder)
    assert written
    world.cluster.objects.remove("pods", (clusters.NAMESPACE, "web-0"))
    world.hear(recorder)
    assert any(
        isinstance(one, events.PodGone) and one.uid == pod["metadata"]["uid"] for one in world.events()
    )


def test_the_range_of_a_loss_is_what_anybody_knows_of(world: World) -> None:
    """The word in the Lease may be old: others have said since how far the log went."""
    replica = failing.Replica(world.direct)
    recorder = world.recorder()
    noted = recorder.store.log.head().offset
    world.clock.advance(parts.TERMS.retry)  # leaves word
    replica.follow()
    world.cluster.pod("web-0")
    assert recorder.elector is not None
    recorder.elector.frozen = True
    world.hear(recorder)
    extender = world.extender()
    lost = extender.store.follower.catch_up().offset
    assert lost > noted
    recorder.close()
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() == promises.Loss(extender.store.log.incarnation, noted + 1, lost)
    assert extender.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")
    successor = parts.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")
    for _ in range(10):
        world.clock.advance(parts.TERMS.retry)
        successor.begin()
    assert successor.leads
    (told,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (told.lost_from, told.lost_to) == (noted + 1, lost)


def emptied_after_a_beginning(world: World, lost: list[str]) -> wires.Watch:
    """The first beginning of an incarnation is lost at once; ``lost`` gets what the store holds then."""

    def watch(
        _: connecting.Wire, call: wires.Call, __: connecting.Packed, ask: wires.Ask
    ) -> connecting.Reply:
        answer = ask()
        if call is wires.Call.REWIND and not lost:
            world.empty()
            lost.append(str(world.direct.dbsize()))
        return answer

    return watch


def test_a_loss_right_after_a_loss_is_healed_too(world: World) -> None:
    """It came to light while the first one was told, where nobody expected it, and ended the recorder."""
    recorder = world.recorder()
    first = recorder.store.log.incarnation
    world.clock.advance(parts.TERMS.retry)  # leaves word
    world.cluster.pod("early")
    world.hear(recorder)  # and goes on
    head = recorder.store.log.head().offset

    lost: list[str] = []
    world.empty()
    world.cluster.pod("web-0")
    with wires.watched(emptied_after_a_beginning(world, lost)):
        world.listen(recorder)
        assert isinstance(recorder.turn(), store_errors.Rewound)
        for _ in range(20):
            world.clock.advance(parts.TERMS.retry)
            if recorder.begin():
                break
    world.hear(recorder)
    assert lost == ["0"]
    (told,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (told.from_incarnation, told.lost_from, told.lost_to) == (first, 1, head)
    assert recorder.store.log.incarnation != first
    assert any(isinstance(one, events.PodSeen) and one.pod.name == "web-0" for one in world.events())


def test_a_beginning_that_is_lost_at_once_is_made_again_with_the_same_range(world: World) -> None:
    """Who began knew of the loss by the word in the Lease alone, and told of something older instead."""

    def lead(recorder: parts.Recorder) -> None:
        while not recorder.begin():
            world.clock.advance(parts.TERMS.retry)

    lost: list[str] = []
    first = world.recorder("first")
    second = parts.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    assert not second.begin()
    oldest = second.store.follower.catch_up().position.incarnation
    world.empty()
    world.cluster.pod("web-0")
    world.listen(first)
    assert isinstance(first.turn(), store_errors.Rewound)
    lead(first)
    world.hear(first)
    world.clock.advance(parts.TERMS.retry)  # leaves word
    known = first.store.log.seen
    assert known.incarnation != oldest == second.store.log.incarnation
    first.close()
    world.empty()
    with wires.watched(emptied_after_a_beginning(world, lost)):
        lead(second)
    assert lost == ["0"]
    (told,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (told.from_incarnation, told.lost_from, told.lost_to) == (known.incarnation, 1, known.offset)


def test_a_note_of_a_loss_that_is_lost_itself_makes_nothing_else_lost(world: World) -> None:
    """A failover between two looks: what the Lease spoke of was there, and was told as lost."""
    replica = failing.Replica(world.direct)
    recorder = world.recorder()
    world.clock.advance(parts.TERMS.retry)  # leaves word
    replica.follow()
    kept = recorder.store.log.head().offset
    assert recorder.elector is not None
    recorder.elector.frozen = True
    world.cluster.pod("web-0")
    world.hear(recorder)
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
        _: connecting.Wire, call: wires.Call, packed: connecting.Packed, ask: wires.Ask
    ) -> object:
        answer = ask()
        # The question about the word in the Lease.
        if call is wires.Call.DOUBT and wires.arguments(packed)[1] == b"%d" % kept and not again:
            again.append(str(answer))
            promote()
        return answer

    again: list[str] = []
    promote()
    assert bind()  # leaves a note in the store
    successor = parts.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")

    def lead() -> None:
        while not successor.begin():
            world.clock.advance(parts.TERMS.retry)

    with wires.watched(failing_over):
        lead()
    assert again
    bind()  # and another one
    world.cluster.pod("web-1")
    world.listen(successor)
    assert isinstance(successor.turn(), store_errors.Rewound)
    lead()
    (told,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (told.lost_from, told.lost_to) == (kept + 1, lost)


def test_an_incarnation_that_is_lost_unread_is_told_as_lost(world: World) -> None:
    """Whoever had only heard of it told of a range that ended before it began."""
    replica = failing.Replica(world.direct)
    recorder = world.recorder()
    replica.follow()
    world.cluster.pod("web-0")
    world.hear(recorder)

    def lose() -> promises.Loss | None:
        world.watchdog.compare()
        replica.promote()
        return world.watchdog.failed_over()

    def crashing(_: connecting.Wire, call: wires.Call, __: connecting.Packed, ask: wires.Ask) -> object:
        answer = ask()
        if call is wires.Call.REWIND:
            raise wires.Crashed("after the call")
        return answer

    assert lose() is not None
    world.cluster.pod("web-1")

    def healing() -> None:
        world.listen(recorder)
        recorder.turn()
        while not recorder.begin():
            world.clock.advance(parts.TERMS.retry)

    with wires.watched(crashing), pytest.raises(wires.Crashed):
        healing()
    recorder.close()
    heard = world.extender()
    unread = heard.store.log.incarnation
    loss = lose()
    assert loss is not None
    assert loss.incarnation == unread
    assert heard.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")
    successor = parts.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")
    for _ in range(20):
        world.clock.advance(parts.TERMS.retry)
        if successor.begin():
            break
    told = [one for one in world.events() if isinstance(one, events.StoreRewound)][-1]
    assert told.from_incarnation == unread
    assert told.lost_from <= loss.first <= told.lost_to


def test_a_checkpoint_serves_whoever_goes_along_to_another_incarnation(world: World) -> None:
    """The part before it is trimmed: without the checkpoint there is no way to go along."""
    replica = failing.Replica(world.direct)
    recorder = world.recorder()
    compacting = world.store()
    compacting.follower.catch_up()
    snapshot, at_ms = compacting.follower.dated()
    assert at_ms is not None
    compacting.checkpoints.write(snapshot, at_ms)
    compacting.log.trim(snapshot.offset, snapshot.offset, reader_timeout=-1.0)
    replica.follow()
    world.cluster.pod("web-0")
    world.hear(recorder)
    extender = world.extender()
    extender.store.follower.catch_up()
    replica.promote()
    assert recorder.turn() is not None
    assert recorder.begin()
    world.hear(recorder)
    assert {pod.name for pod in extender.store.follower.catch_up().pods.values()} == {"web-0"}


def refusing(reasons: list[str]) -> Callable[..., object]:
    """The API server's side of Bindings: each is done or not, and nobody hears of it."""
    exchange = clusters.Client.exchange

    def exchanged(
        self: clusters.Client, method: str, path: str, body: bytes = b"", *, timeout: float
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
        mock.patch.object(clusters.Client, "exchange", refusing(["done", "lost", "refused"])),
        mock.patch.object(binding.ApiBinder, "_resolved", return_value=binding.Unknown("nobody knows")),
    ):
        assert "not known" in extender.bind("shop", "web-0", uid, "h1")
        world.clock.advance(binding.UNFENCED)
        assert extender.bind("shop", "web-0", uid, "h1") == ""
    assert dict(extender.store.follower.catch_up().counts) == {"shop/spread|role=host": 1}


def test_a_promise_that_is_taken_up_again_is_made_anew(world: World) -> None:
    """Else it would be old for whoever looks for promises that nobody keeps."""
    world.recorder()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    extender = world.extender()
    with mock.patch.object(clusters.Client, "exchange", refusing(["lost", "lost"])):
        assert "not known" in extender.bind("shop", "web-0", uid, "h1")
    settler = parts.settler(world.extender(), world.clock)
    assert settler.turn() == 0
    world.clock.advance(binding.UNFENCED)
    with mock.patch.object(clusters.Client, "exchange", refusing(["lost", "lost"])):
        assert "not known" in extender.bind("shop", "web-0", uid, "h1")
    assert settler.turn() == 0
    world.clock.advance(settling.OLD)
    assert settler.turn() == 0
    world.clock.advance(binding.UNFENCED)
    assert settler.turn() == 1


def test_no_binding_is_repeated_after_its_time(world: World) -> None:
    """A process that was stopped between two attempts goes on later than anybody waits for it."""
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    sent: list[float] = []

    def stopped(*_: object, timeout: float, **__: object) -> object:
        sent.append(timeout)
        world.clock.advance(30.0)
        raise errors.Unreachable("simulated: no answer")

    with mock.patch.object(clusters.Client, "exchange", stopped):
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

    def slow(_: connecting.Wire, call: wires.Call, __: connecting.Packed, ask: wires.Ask) -> object:
        answer = ask()
        if call is wires.Call.APPEND:
            world.clock.now = deadline - left
        return answer

    def lost(*_: object, timeout: float, **__: object) -> object:
        sent.append(world.clock.now)
        world.clock.advance(timeout)
        raise errors.Unreachable("simulated: no answer")

    with wires.watched(slow), mock.patch.object(clusters.Client, "exchange", lost):
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

    with mock.patch.object(clusters.Client, "exchange", slow):
        outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=3.0)
    assert isinstance(outcome, binding.Unknown)
    assert len(sent) == 3  # the last one reads the pod
    assert all(when + timeout <= deadline + 1e-6 for when, timeout in sent[:-1])


@pytest.mark.parametrize("left", [0.0, -0.5])
def test_a_binding_that_has_no_time_at_all_is_not_sent(world: World, left: float) -> None:
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=left)
    assert outcome == binding.Refused("not bound: there was no time left for it")
    assert world.cluster.bindings == 0


def test_a_denied_repetition_proves_nothing_about_the_first_binding(world: World) -> None:
    """The answer to the first was lost; the second attempt was denied."""
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    exchange = clusters.Client.exchange
    sent: list[str] = []

    def denied(
        self: clusters.Client, method: str, path: str, body: bytes = b"", *, timeout: float
    ) -> kube_connecting.Reply:
        sent.append(method)
        if sent == ["POST", "POST"]:
            return kube_connecting.Reply(403, b'{"kind":"Status","code":403,"reason":"Forbidden"}')
        reply = exchange(self, method, path, body, timeout=timeout)
        if method == "POST":
            raise errors.Unreachable("simulated: the answer was lost")
        return reply

    with mock.patch.object(clusters.Client, "exchange", denied):
        outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=3.0)
    assert sent == ["POST", "POST", "GET"]
    assert outcome == binding.Bound()


def test_a_promise_made_anew_for_the_same_node_is_not_taken_back_for_the_old_one(world: World) -> None:
    """Whoever wanted another node had looked at the old one; the new one's Binding had been carried out."""
    world.recorder()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    one, other = world.extender(), world.extender()
    with mock.patch.object(clusters.Client, "exchange", refusing(["lost", "lost"])):
        assert "not known" in one.bind("shop", "web-0", uid, "h1")
    assert "may yet be bound" in other.bind("shop", "web-0", uid, "m1")
    world.clock.advance(binding.UNFENCED)
    exchange = clusters.Client.exchange
    answers: list[str] = []

    def looked(
        self: clusters.Client, method: str, path: str, body: bytes = b"", *, timeout: float
    ) -> kube_connecting.Reply:
        reply = exchange(self, method, path, body, timeout=timeout)
        if method == "GET" and not answers:
            answers.append("asked")
            answers.append(one.bind("shop", "web-0", uid, "h1"))
        return reply

    with mock.patch.object(clusters.Client, "exchange", looked):
        assert "cannot be taken back yet" in other.bind("shop", "web-0", uid, "m1")
    assert answers == ["asked", ""]
    assert dict(other.store.follower.catch_up().counts) == {"shop/spread|role=host": 1}


def heard_without_answers(world: World, recorder: parts.Recorder) -> None:
    """What the cluster has to tell is recorded, and nobody hears that it was."""

    def unheard(_: connecting.Wire, call: wires.Call, __: connecting.Packed, ask: wires.Ask) -> object:
        answer = ask()
        if call is wires.Call.APPEND and not recorder.trouble:
            lost.append(answer)
            raise wires.away("the answer was lost")
        return answer

    lost: list[object] = []
    with wires.watched(unheard):
        world.hear(recorder)
    assert lost


def test_a_batch_whose_answer_was_lost_is_known_again_in_the_log(world: World) -> None:
    """Drafted again after it, the pod that had come and gone came and went once more."""
    recorder = world.recorder()
    world.cluster.pod("web-0")
    world.cluster.objects.remove("pods", (clusters.NAMESPACE, "web-0"))
    heard_without_answers(world, recorder)
    found = [one for one in world.events() if isinstance(one, events.PodSeen | events.PodGone)]
    assert [type(one).__name__ for one in found] == ["PodSeen", "PodGone"]


def test_checkpoints_that_go_while_the_log_is_trimmed_end_no_compactor(world: World) -> None:
    """A new incarnation lets all of them go; there is nothing to trim to then."""
    recorder = world.recorder()
    compactor = parts.compactor(world.store(), world.clock, patient=False)
    for number in range(26):
        if number == 10:
            world.hear(recorder)
            compactor.turn()
        world.cluster.pod(f"web-{number}")
    world.hear(recorder)
    names = keys.Keys("found")

    def gone(_: connecting.Wire, call: wires.Call, __: connecting.Packed, ask: wires.Ask) -> object:
        if call is wires.Call.TRIM:
            let_go.append(world.direct.delete(names.checkpoints))
        return ask()

    let_go: list[object] = []
    with wires.watched(gone):
        compactor.turn()
    assert let_go == [1]
    assert world.store().log.oldest() == 1
    compactor.turn()


def test_what_was_told_when_a_former_incarnation_began_is_not_told_again(world: World) -> None:
    """That one is lost as well: its successor speaks of it, and the Lease of the one before."""
    office = world.recorder().office
    first, second, third = ("019e7053ca40-00000001", "019e70579676-00000002", "019e7058067e-00000003")
    word = electing.Tenure(epoch="9", number=1, note=str(incarnations.Known(first, 21, 5)))
    standing = office._log.standing()
    told = standing._replace(incarnation=third, former=second, head=12)
    assert office._lost(word, told) is None
    untold = standing._replace(incarnation=third, former="019e7053ca39-00000000", head=12)
    assert office._lost(word, untold) == incarnations.Known(first, 21, 5)


def test_a_batch_that_was_known_again_is_missed_when_it_is_lost(world: World) -> None:
    """Nobody had heard that it was appended; that it was found in the log has to be remembered."""
    replica = failing.Replica(world.direct)
    recorder = world.recorder()
    replica.follow()
    world.cluster.pod("web-0")
    heard_without_answers(world, recorder)
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() is not None
    assert isinstance(recorder.turn(), store_errors.Rewound)


def test_a_promise_is_another_one_than_that_at_its_offset_before_a_loss(world: World) -> None:
    """It was taken for as old as that one, and given up while its Binding was under way."""
    replica = failing.Replica(world.direct)
    recorder, one, other = world.recorder(), world.extender(), world.extender()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    world.hear(recorder)
    replica.follow()
    before = recorder.store.log.head().offset

    def fill(log: logs.Log, until: int) -> None:
        nothing = events.Quarantined(kind="pods", object="p", reason="a test says so")
        log.append(logs.Batch(events=(nothing,) * (until - log.head().offset)))

    def lost(*_: object, **__: object) -> object:
        raise errors.Unreachable("simulated: no answer")

    fill(other.store.log, before + 100)
    other.offer(world.cluster.objects.get("pods", (clusters.NAMESPACE, "web-0")))
    with mock.patch.object(other.client, "exchange", lost):
        assert "not known" in other.bind("shop", "web-0", uid, "h1")
    assert "may yet be bound there" in one.bind("shop", "web-0", uid, "m1")
    former = one.store.follower.snapshot.promise(uid)
    world.watchdog.compare()
    replica.promote()
    world.watchdog.failed_over()
    world.clock.advance(60.0)
    with pytest.raises(store_errors.StoreError):
        one.store.follower.catch_up()
    assert isinstance(recorder.turn(), store_errors.Rewound)
    assert recorder.begin()
    world.hear(recorder)
    fill(recorder.store.log, before + 100)

    ways: list[str] = []
    exchange = other.client.exchange

    def meanwhile(method: str, path: str, body: bytes = b"", *, timeout: float) -> object:
        ways.append(one.bind("shop", "web-0", uid, "m1"))
        return exchange(method, path, body, timeout=timeout)

    with mock.patch.object(other.client, "exchange", meanwhile):
        assert other.bind("shop", "web-0", uid, "h1") == ""
    made = one.store.follower.snapshot.promise(uid)
    assert former is not None
    assert made is not None
    assert made.offset == former.offset
    assert made != former
    assert "may yet be bound there" in ways[0]
    world.hear(recorder)
    world.watchdog.compare()
    assert world.cluster.bound[uid] == {"h1"}


def test_a_recorder_asks_what_its_predecessor_knew_of_an_incarnation_that_it_began_itself(
    world: World,
) -> None:
    """Others have recorded since, and left in the Lease how far: the store may have lost that."""

    def lead(recorder: parts.Recorder) -> None:
        while not recorder.begin():
            world.clock.advance(parts.TERMS.retry)

    replica = failing.Replica(world.direct)
    first = world.recorder("first")
    world.clock.advance(parts.TERMS.retry)  # leaves its note
    world.empty()
    world.listen(first)
    world.cluster.pod("web-0")
    world.listen(first)
    assert isinstance(first.turn(), store_errors.Rewound)
    lead(first)
    world.hear(first)
    began = first.store.log.incarnation
    assert first.elector is not None
    first.freeze(True)
    world.clock.advance(parts.TERMS.lease + 1.0)
    second = parts.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    lead(second)
    world.hear(second)
    replica.follow()
    kept = second.store.log.head().offset
    world.cluster.pod("web-1")
    world.hear(second)
    lost = second.store.log.head().offset
    world.clock.advance(parts.TERMS.retry)  # leaves its note
    second.close()
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() == promises.Loss(began, kept + 1, lost)
    first.freeze(False)
    world.clock.advance(parts.TERMS.lease + 1.0)
    lead(first)
    told = [one for one in world.events() if isinstance(one, events.StoreRewound)]
    assert [(one.lost_from, one.lost_to) for one in told[1:]] == [(kept + 1, lost)]


def test_a_leader_that_was_paused_leaves_the_note_of_the_one_between(world: World) -> None:
    """It holds the Lease again before its own loop notices, and what it had read is older."""
    first = world.recorder("first")
    assert first.elector is not None
    first.freeze(True)
    world.clock.advance(parts.TERMS.lease + 1.0)
    second = parts.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    while not second.begin():
        world.clock.advance(parts.TERMS.retry)
    world.hear(second)
    world.cluster.pod("web-1")
    world.hear(second)
    head = second.store.log.head().offset
    world.clock.advance(parts.TERMS.retry)  # leaves its note
    second.close()
    first.freeze(False)
    for _ in range(4):
        # Its elector takes the Lease again, and renews it; the recorder itself does nothing yet.
        world.clock.advance(parts.TERMS.lease)
        first.elector.turn()
        first.elector.turn()
    assert first.elector.tenure is not None
    note = leases.note(world.cluster.objects.get("leases", ("topolog", "recorder")), "topolog.io/known")
    known = incarnations.read_known(note)
    assert known is not None
    assert known.offset == head
