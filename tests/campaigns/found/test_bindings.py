"""Bindings without an outcome: each case was a mistake once.

The histories are those of failing seeds of the simulation, cut down to what mattered.
"""

from collections.abc import Callable
from unittest import mock

import pytest

from app.kube import errors
from app.kube.client import fast_client
from app.kube.writes import binding
from app.store.server import connections
from tests.support import bind_times
from tests.support.simulation import processes, stepped_worlds
from tests.support.simulation.cluster import api_client
from tests.support.simulation.store import lossy_calls


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


def test_a_refused_repetition_proves_nothing_about_the_first_binding(world: stepped_worlds.World) -> None:
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


def test_a_placement_that_is_resumed_is_appended_again(world: stepped_worlds.World) -> None:
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
    world.clock.advance(bind_times.OLD - 1.0)
    assert settler.run_once() == 0
    world.clock.advance(1.0)
    assert settler.run_once() == 1


def test_no_binding_is_repeated_after_its_time(world: stepped_worlds.World) -> None:
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
    assert len(sent) == 2  # one Binding, and one read of the pod


@pytest.mark.parametrize("left", [0.15, 0.07, 0.001, -1.0])
def test_no_binding_is_repeated_after_its_time_when_little_of_it_was_left(
    world: stepped_worlds.World, left: float
) -> None:
    """A bind that had a tenth of a second granted although less was left sent its repetition too late."""
    pod = world.cluster.pod("web-0")
    uid = pod["metadata"]["uid"]
    world.recorder()
    extender = world.extender()
    extender.offer(pod)
    budget = extender.context.time_limits.bind
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


def test_a_repeated_binding_has_no_more_time_than_is_left(world: stepped_worlds.World) -> None:
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
def test_a_binding_that_has_no_time_at_all_is_not_sent(world: stepped_worlds.World, left: float) -> None:
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    outcome = binding.ApiBinder(world.way()).bind("shop", "web-0", uid, "h1", timeout=left)
    assert outcome == binding.NotBound("not bound: the timeout passed before the Binding was sent")
    assert world.cluster.bindings == 0


def test_a_denied_repetition_proves_nothing_about_the_first_binding(world: stepped_worlds.World) -> None:
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
    world: stepped_worlds.World,
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
