"""Handshakes leave the processor to the verbs, and no address delays another."""

import sys
from typing import NamedTuple

import pytest

from app.serving.tls import handshakes
from app.telemetry import loops
from tests.support import polling


class Conn(NamedTuple):
    client: tuple[str, int] | str
    cost: float = 0.0


class Run:
    """Handshakes without a thread, and without processor time but that of the connections."""

    def __init__(self) -> None:
        self.done: list[Conn] = []
        self.rests: list[float] = []
        self._used = 0.0
        self.queue = handshakes.Handshakes(self._step, used=lambda: self._used, rest=self.rests.append)

    def _step(self, conn: Conn) -> None:
        self.done.append(conn)
        self._used += conn.cost
        if conn.cost < 0:
            raise RuntimeError("a defect")

    def all(self, *given: Conn) -> None:
        for conn in given:
            self.queue.submit(conn)
        for _ in given:
            self.queue.run_one()


def test_addresses_take_turns() -> None:
    run = Run()
    crowd = [Conn(("10.0.0.1", port)) for port in range(4)]
    others = [Conn(("10.0.0.2", 1)), Conn("/run/topolog.sock"), Conn(("10.0.0.2", 2))]

    run.all(*crowd, *others)

    assert run.done == [crowd[0], others[0], others[1], crowd[1], others[2], crowd[2], crowd[3]]


def test_the_thread_rests_for_twice_the_processor_time_of_each_handshake() -> None:
    run = Run()

    run.all(Conn(("10.0.0.1", 1), cost=0.5), Conn(("10.0.0.1", 2), cost=0.0), Conn(("10.0.0.1", 3), cost=2.0))

    assert run.rests == [1.0, 0.0, 4.0]


def test_a_defect_in_one_handshake_ends_no_other() -> None:
    run = Run()

    run.all(Conn(("10.0.0.1", 1), cost=-1.0), Conn(("10.0.0.1", 2)))

    assert [conn.client[1] for conn in run.done] == [1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_livez_fails_once_the_thread_has_died() -> None:
    queue = handshakes.Handshakes[Conn](lambda _: sys.exit(1), rest=lambda _: None)
    loop = queue.start()
    try:
        queue.submit(Conn("/run/topolog.sock"))
        polling.eventually(lambda: "handshakes" in loops.dead(), "its end is noticed")
    finally:
        loop.join(1.0)
