"""One odd answer ends nothing: elections and watches go on, and they do not hurry."""

import contextlib
import functools
import itertools
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings

from app.kube import accessing, clients, electing, errors, kinds, reflecting
from app.simulation import apiservers, faults, populating
from tests.kube import clocks, oddities

LEASE = ("ns", "topolog-recorder")


@contextlib.contextmanager
def cluster() -> Iterator[tuple[apiservers.ApiServer, clients.Client]]:
    """A server and a client of an example's own."""
    with apiservers.ApiServer(bookmarks=0.05) as server:
        client = clients.Client(accessing.plain(server.url))
        with contextlib.closing(client):
            yield server, client


@contextlib.contextmanager
def standing(server: apiservers.ApiServer) -> Iterator[electing.Elector]:
    """A candidate in its thread, that has won."""
    client = clients.Client(accessing.plain(server.url))
    terms = electing.Terms(lease=1.0, renew=0.6, retry=0.01)
    elector = electing.Elector(client, *LEASE, terms=terms)
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
@pytest.mark.parametrize("body", oddities.BODIES)
def test_an_odd_answer_for_the_lease_ends_no_election(
    server: apiservers.ApiServer, method: str, body: bytes
) -> None:
    with standing(server) as elector:
        odd = server.faults.add(
            faults.Kind.RAW, faults.calls(method, LEASE[1]), raw=oddities.answer(body), times=2
        )
        for at in itertools.count():
            if odd.struck == 2:
                break
            # So that the Lease is read, too: what was to be replaced has changed.
            server.objects.change("leases", LEASE, functools.partial(renamed, str(at)))
            time.sleep(0.01)
        for _ in range(3):
            assert elector.wait(10.0) is not None
            assert elector.confirm()


@given(odd=oddities.answers())
@example(odd=oddities.answer(oddities.HTML))
@settings(max_examples=150, deadline=None)
def test_a_lease_is_read_and_written_or_an_error_of_ours(odd: bytes) -> None:
    with cluster() as (server, client):
        elector = electing.Elector(client, *LEASE, clock=clocks.VirtualClock())
        for method in ("POST", "GET", "PUT"):
            server.faults.clear()
            server.faults.add(faults.Kind.RAW, faults.calls(method, ""), raw=odd, times=1)
            elector.turn()
        server.faults.clear()
        elector.turn()
        elector.turn()
        assert elector.tenure is not None
        assert elector.trouble == ""
        elector.resign()


def read(odd: bytes, *, watch: bool) -> clocks.VirtualClock:
    """Have three odd answers given to a reflector, and wait until it shows a pod that came meanwhile."""

    def meanwhile(waits: int) -> None:
        assert waits < 50, "it only waits"

    clock = clocks.VirtualClock(meanwhile)
    with cluster() as (server, client):
        server.objects.create("pods", populating.pod("ns", "before"))
        reflector = reflecting.Reflector(client, kinds.PODS, clock=clock)
        matches = faults.watches("pods") if watch else faults.lists("pods")
        server.faults.add(faults.Kind.RAW, matches, raw=odd, times=3)
        poisons, wanted = 0, "before"
        for change in reflector.changes():
            poisons += isinstance(change, reflecting.Poison)
            match change:
                case reflecting.Part(objects=objects) if wanted in {found.name for found in objects}:
                    if wanted == "later":
                        break
                    wanted = "later"
                    server.objects.create("pods", populating.pod("ns", wanted))
                case reflecting.Seen(object=found) if found.name == wanted:
                    break
        reflector.stop()
    assert poisons <= 3 * 12
    return clock


@pytest.mark.parametrize("line", oddities.LINES)
def test_an_odd_line_ends_no_watch(line: bytes) -> None:
    clock = read(oddities.watched(line), watch=True)
    # Three answers of no use, each followed by a pause, and longer ones each time.
    assert len(clock.waits) == 3
    assert max(clock.waits) == clock.waits[-1] > clock.waits[0]


@given(odd=oddities.answers())
@settings(max_examples=100, deadline=None)
def test_no_answer_ends_a_list(odd: bytes) -> None:
    read(odd, watch=False)


@given(odd=oddities.answers())
@settings(max_examples=100, deadline=None)
def test_no_answer_ends_a_watch(odd: bytes) -> None:
    read(odd, watch=True)


@pytest.mark.parametrize("odd", oddities.EVERY)
def test_no_answer_is_anything_but_an_answer_or_an_error_of_ours(
    server: apiservers.ApiServer, client: clients.Client, odd: bytes
) -> None:
    server.faults.add(faults.Kind.RAW, lambda request: True, raw=odd, times=10)
    with contextlib.suppress(errors.KubeError):
        client.get("/api/v1/pods", timeout=5.0)
    with contextlib.suppress(errors.KubeError), client.stream("/api/v1/pods", {}, silence=5.0) as stream:
        list(stream)


def test_a_token_that_cannot_be_read_once_ends_nothing(
    server: apiservers.ApiServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = accessing.plain(server.url, token="abc")
    client = clients.Client(access)
    path = tmp_path / "token"

    def read_token(*_: object, **__: object) -> str:
        return path.read_text()

    monkeypatch.setattr(access._configuration, "get_api_key_with_prefix", read_token)
    monkeypatch.setattr(accessing, "RENEWED_SECONDS", 0.0)
    with pytest.raises(errors.Unreachable, match="no credentials") as found:
        client.get("/api/v1/pods")
    assert found.value.refused
    path.write_text("Bearer abc")
    client.get("/api/v1/pods")
    path.unlink()
    client.get("/api/v1/pods")
    path.write_text("Bearer def")
    client.get("/api/v1/pods")
    sent = [request.headers["authorization"] for request in server.seen]
    assert sent == ["Bearer abc", "Bearer abc", "Bearer def"]
    client.close()
