"""Elections and watches survive odd replies, and retry without haste."""

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings

from app.kube import errors
from app.kube.client import clients
from app.kube.election import electors
from app.kube.watch import kinds, reflectors
from app.simulation import populations
from app.simulation.apiserver import apiservers, faults
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.kube import fake_clock, odd_replies, plain_access

LEASE = ("ns", "topolog-recorder")


@contextlib.contextmanager
def cluster() -> Iterator[tuple[apiservers.ApiServer, clients.Client]]:
    """A server and a client for one example."""
    with apiservers.ApiServer(declared.SCHEMA, bookmarks=0.05) as server:
        client = clients.Client(plain_access.of(server.url))
        with contextlib.closing(client):
            yield server, client


@contextlib.contextmanager
def leading(server: apiservers.ApiServer) -> Iterator[electors.Elector]:
    """A candidate that runs in its thread and leads."""
    client = clients.Client(plain_access.of(server.url))
    terms = electors.Durations(lease=2.5, renew=2.0, retry=0.01)
    elector = electors.Elector(client, *LEASE, durations=terms)
    elector.start()
    try:
        assert elector.wait(10.0) is not None
        yield elector
    finally:
        elector.stop()
        client.close()


def renamed(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """The object with a label of this value."""
    return found | {"metadata": found["metadata"] | {"labels": {"name": name}}}


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("body", odd_replies.BODIES)
def test_an_election_survives_an_odd_reply_for_the_lease(
    server: apiservers.ApiServer, method: str, body: bytes
) -> None:
    with leading(server) as elector:
        odd = server.faults.add(
            faults.FaultKind.RAW, faults.calls(method, LEASE[1]), raw=odd_replies.answer(body), times=2
        )
        for at in itertools.count():
            if odd.struck == 2:
                break
            # A change of the Lease makes the next renewal read it first.
            server.objects.change("leases", LEASE, functools.partial(renamed, str(at)))
            time.sleep(0.01)
        for _ in range(3):
            assert elector.wait(10.0) is not None
            assert elector.confirm()


@given(odd=odd_replies.answers())
@example(odd=odd_replies.answer(odd_replies.HTML))
@settings(max_examples=sizes.examples(60), deadline=None)
def test_an_odd_reply_for_the_lease_is_at_most_a_kube_error(odd: bytes) -> None:
    with cluster() as (server, client):
        elector = electors.Elector(client, *LEASE, clock=fake_clock.VirtualClock())
        for method in ("POST", "GET", "PUT"):
            server.faults.clear()
            server.faults.add(faults.FaultKind.RAW, faults.calls(method, ""), raw=odd, times=1)
            elector.run_once()
        server.faults.clear()
        elector.run_once()
        elector.run_once()
        assert elector.tenure is not None
        assert elector.problem == ""
        elector.resign()


def read(odd: bytes, *, watch: bool) -> fake_clock.VirtualClock:
    """Give a reflector three odd replies, and wait until it yields a pod that was created meanwhile."""

    def meanwhile(waits: int) -> None:
        assert waits < 50, "it only waits"

    clock = fake_clock.VirtualClock(meanwhile)
    with cluster() as (server, client):
        server.objects.create("pods", populations.pod("ns", "before"))
        reflector = reflectors.Reflector(client, kinds.PODS, clock=clock)
        matches = faults.watches("pods") if watch else faults.lists("pods")
        server.faults.add(faults.FaultKind.RAW, matches, raw=odd, times=3)
        undecodable, wanted = 0, "before"
        for change in reflector.changes():
            undecodable += isinstance(change, kinds.UndecodableObject)
            match change:
                case reflectors.Part(objects=objects) if wanted in {found.name for found in objects}:
                    if wanted == "later":
                        break
                    wanted = "later"
                    server.objects.create("pods", populations.pod("ns", wanted))
                case reflectors.Seen(object=found) if found.name == wanted:
                    break
        reflector.stop()
    assert undecodable <= 3 * 12
    return clock


@pytest.mark.parametrize("line", odd_replies.LINES)
def test_a_watch_survives_an_odd_line(line: bytes) -> None:
    clock = read(odd_replies.watched(line), watch=True)
    # Three useless replies, each followed by a longer pause.
    assert len(clock.waits) == 3
    assert max(clock.waits) == clock.waits[-1] > clock.waits[0]


@pytest.mark.parametrize("line", odd_replies.NAMELESS)
def test_what_a_line_without_a_name_changed_is_listed(line: bytes) -> None:
    assert len(read(odd_replies.watched(line), watch=True).waits) == 1


@given(odd=odd_replies.answers())
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_list_survives_any_odd_reply(odd: bytes) -> None:
    read(odd, watch=False)


@given(odd=odd_replies.answers())
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_watch_survives_any_odd_reply(odd: bytes) -> None:
    read(odd, watch=True)


@pytest.mark.parametrize("odd", odd_replies.EVERY)
def test_every_odd_reply_is_a_reply_or_a_kube_error(
    server: apiservers.ApiServer, client: clients.Client, odd: bytes
) -> None:
    server.faults.add(faults.FaultKind.RAW, lambda request: True, raw=odd, times=10)
    with contextlib.suppress(errors.KubeError):
        client.get("/api/v1/pods", timeout=5.0)
    with contextlib.suppress(errors.KubeError), client.stream("/api/v1/pods", {}, silence=5.0) as stream:
        list(stream)
