"""Heavy questions of many clients to a real process: served or refused, and nothing is left of them."""

import email.message
import http.client
import itertools
import json
import pathlib
import re
import select
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from app import view_process
from tests.support import polling
from tests.support.browser.seen_worlds import Seen
from tests.support.campaigns import sizes
from tests.support.extender import api_worlds
from tests.support.store import contents

CLIENTS, ROUNDS = 8, 12
LOADS, SETTLES = 5, 5
"""Loads at most, and seconds within which the threads and connections of one end."""
PLACES = 1 + view_process.WAITING
"""Heavy questions at work and waiting: any more are refused at once, however long the work takes."""
SCALED = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+1"}}]
QUESTIONS = (
    ("replay", {"overrides": SCALED, "mode": "chain"}),
    ("simulate", {"pending": {}, "situation": {"overrides": SCALED}}),
    ("bisect", {"fits": "shop/web-3"}),
    ("diff", {"from": {"at": "0"}}),
)


def worker(seen: Seen) -> pathlib.Path:
    """The process below that of gunicorn, which answers."""
    assert seen.viewer.process is not None
    parent = seen.viewer.process.pid
    (child,) = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return pathlib.Path("/proc") / child


def held(process: pathlib.Path) -> tuple[int, int]:
    """Threads, and open files with the connections among them."""
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return int(status["Threads"]), len(list((process / "fd").iterdir()))


def memory(process: pathlib.Path) -> int:
    """Resident pages."""
    return int((process / "statm").read_text().split()[1])


class Reply(NamedTuple):
    """A reply to a question."""

    status: int
    headers: email.message.Message
    body: bytes


def replied(seen: Seen, path: str, asked: object = None) -> Reply:
    """The reply to a GET, or to a question."""
    content = None if asked is None else json.dumps(asked).encode()
    request = urllib.request.Request(
        f"{seen.viewer.url}/apis/v1/{path}", content, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        return Reply(error.code, error.headers, error.read())


def status_of(seen: Seen, question: str, asked: object) -> int:
    """The status of an answer."""
    return replied(seen, question, asked).status


def begun(seen: Seen, question: str, asked: object) -> socket.socket:
    """The connection of a question that is asked, and not answered yet."""
    address = urllib.parse.urlsplit(seen.viewer.url)
    content = json.dumps(asked).encode()
    head = (
        f"POST /apis/v1/{question} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    connection = socket.create_connection((address.hostname, address.port), timeout=20)
    connection.sendall(head.encode() + content)
    return connection


def reply_on(connection: socket.socket) -> Reply:
    """The reply that has begun to arrive on a connection."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return Reply(response.status, response.headers, response.read())


def is_refusal_of_one_too_many(reply: Reply) -> bool:
    """Whether a question was refused at once: one that has waited too long has another message."""
    return (reply.status, reply.headers["Retry-After"]) == (429, "1") and b"and 4 wait" in reply.body


def hang_up(seen: Seen, question: str, asked: object) -> None:
    """Ask, and leave before the answer."""
    begun(seen, question, asked).close()


def asked_by_all(seen: Seen, goes_on: Callable[[int], bool] = lambda at: at < ROUNDS) -> list[int]:
    """The statuses of those that wait for their answers; the others hang up.

    ``goes_on``: whether a client that has asked so many questions asks another one.
    """
    statuses: list[int] = []

    def client(number: int) -> None:
        for at in itertools.takewhile(goes_on, itertools.count()):
            question, asked = QUESTIONS[(number + at) % len(QUESTIONS)]
            if number % 2:
                hang_up(seen, question, asked)
            else:
                statuses.append(status_of(seen, question, asked))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def leaves_nothing(seen: Seen, load: Callable[[], None]) -> None:
    """After the load the process has what it had before, and the store holds what it held.

    Connections to the store are opened, and memory is taken, when as much is needed for the first time, which
    any load may be: what is left of a load that leaks is left of each.
    """
    process = worker(seen)
    api_worlds.decide(seen.world, api_worlds.pod("web-3"))
    assert set(asked_by_all(seen)) <= {200, 429}
    kept = contents.of_cluster(seen.world.store)
    assert kept
    differences = [left_by(process, load)]
    while differences[-1] and len(differences) < LOADS:
        differences.append(left_by(process, load))
    assert not differences[-1], differences
    assert contents.of_cluster(seen.world.store) == kept


def left_by(process: pathlib.Path, load: Callable[[], None]) -> tuple[int, int, int] | None:
    """How many threads, open files and pages of memory a load leaves; None if it leaves as good as none."""
    before, used = held(process), memory(process)
    load()

    def left() -> tuple[int, int]:
        threads, files = held(process)
        return max(0, threads - before[0]), max(0, files - before[1])

    until = time.monotonic() + SETTLES
    while left() != (0, 0) and time.monotonic() < until:
        time.sleep(0.05)
    grown = memory(process) - used
    return None if left() == (0, 0) and grown <= 0.05 * used else (*left(), grown)


@pytest.mark.scenario("WI-12")
def test_clients_that_ask_and_hang_up_leave_nothing_behind(seen: Seen) -> None:
    def load() -> None:
        for _ in range(3):
            statuses = asked_by_all(seen)
            assert len(statuses) == CLIENTS // 2 * ROUNDS
            assert set(statuses) <= {200, 429}
            assert 200 in statuses

    leaves_nothing(seen, load)


@pytest.mark.campaign
@pytest.mark.scenario("WI-12")
def test_clients_that_ask_and_hang_up_for_a_minute_leave_nothing_behind(seen: Seen) -> None:
    def load() -> None:
        until = time.monotonic() + sizes.of("HEAVY_SECONDS", 60)
        statuses = asked_by_all(seen, lambda _: time.monotonic() < until)
        print(Counter(statuses))
        assert set(statuses) == {200, 429}

    leaves_nothing(seen, load)


def abandoned(seen: Seen) -> float:
    """How many simulations were given up because their clients had left."""
    (line,) = re.findall(
        r'topolog_questions_total\{kind="simulate",outcome="abandoned"\} ([0-9.]+)', seen.viewer.metrics()
    )
    return float(line)


@pytest.mark.scenario("WI-12")
def test_beyond_the_places_of_heavy_questions_one_is_429_and_its_place_comes_back(seen: Seen) -> None:
    """The one at work has most of its work before it when all leave; the others would be next."""
    many = [{"op": "addNodes", "count": 5000}, {"op": "addPods", "like": "shop/web-3", "count": 20_000}]
    long = {"pending": {}, "situation": {"overrides": many}, "budget": 20}
    short: dict[str, object] = {"pending": {}}
    before = abandoned(seen)
    connections = [begun(seen, "simulate", long) for _ in range(PLACES + 1)]
    # All places are taken once the one beyond them is refused, whichever that is.
    (beyond,), _, _ = select.select(connections, [], [], 20)
    assert is_refusal_of_one_too_many(reply_on(beyond))
    assert replied(seen, "nodes").status == 200, "what is not heavy is answered meanwhile"
    assert is_refusal_of_one_too_many(replied(seen, "simulate", short))
    assert abandoned(seen) == before
    for each in connections:
        each.close()
    polling.eventually(lambda: abandoned(seen) == before + PLACES, "the work has ended", within=60)
    assert status_of(seen, "simulate", short) == 200
