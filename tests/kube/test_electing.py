"""The election: one Lease on a simulated API server, candidates on virtual clocks of their own.

What a leader may write is the store's business (tests/store, tests/workers).
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from app.kube import accessing, clients, electing, versions
from app.simulation import apiservers, faults
from tests.kube import clocks

Json = dict[str, Any]
KEY = ("ns", "topolog-recorder")
TERMS = electing.Terms(lease=15.0, renew=10.0, retry=2.0)


class Candidate:
    """An elector whose thread does not run: a test takes its turns."""

    def __init__(self, server: apiservers.ApiServer, name: str) -> None:
        self.clock = clocks.VirtualClock()
        self.client = clients.Client(accessing.plain(server.url))
        self.said = ""
        self.told: list[str] = []
        self.elector = electing.Elector(
            self.client,
            *KEY,
            terms=TERMS,
            named=name,
            note=lambda: self.said,
            tell=self.told.append,
            clock=self.clock,
            die=random.Random(1),
        )

    def turn(self, *, after: float = 0.0) -> electing.Tenure | None:
        self.clock.now += after
        self.elector.turn()
        return self.elector.tenure


@pytest.fixture
def candidate(server: apiservers.ApiServer) -> Callable[[str], Candidate]:
    return lambda name: Candidate(server, name)


def lease(server: apiservers.ApiServer) -> Json:
    return server.objects.get("leases", KEY)


def edit(server: apiservers.ApiServer, **spec: object) -> None:
    """Somebody else changes the Lease."""

    def change(found: Json) -> Json:
        return found | {"spec": found["spec"] | spec}

    server.objects.change("leases", KEY, change)


def test_the_first_one_leads_and_the_lease_says_so(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    tenure = one.turn()
    assert tenure is not None
    found = lease(server)
    assert tenure.epoch == found["metadata"]["resourceVersion"]
    assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("one", 0)
    assert found["spec"]["leaseDurationSeconds"] == 15
    assert found["spec"]["acquireTime"] == found["spec"]["renewTime"]
    other = candidate("other")
    assert other.turn() is None
    assert other.elector.holder == "one"
    assert other.elector.trouble == ""


def test_a_holder_that_renews_keeps_its_tenure_and_its_epoch(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    tenure = one.turn()
    first = lease(server)
    for _ in range(20):
        assert one.turn(after=2.0) == tenure
        assert other.turn(after=2.0) is None
    assert lease(server)["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    assert lease(server)["spec"]["acquireTime"] == first["spec"]["acquireTime"]


def test_a_holder_that_fell_silent_is_succeeded_after_the_lease_and_not_before(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    former = one.turn()
    assert other.turn() is None
    assert other.turn(after=14.9) is None
    tenure = other.turn(after=0.2)
    assert tenure is not None
    assert former is not None
    assert versions.older(former.epoch, tenure.epoch)
    assert tenure.number == 1
    # The former holder, paused until now, notices as soon as it looks.
    one.clock.now += 15.1
    assert one.elector.tenure is None
    assert one.turn() is None
    assert one.elector.holder == "other"


def test_only_changes_seen_here_count_not_the_clocks_in_the_lease(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    candidate("one").turn()
    for time in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        edit(server, renewTime=time, acquireTime=time)
        other = candidate("other")
        assert other.turn() is None
        assert other.turn(after=14.9) is None
    assert other.turn(after=0.2) is not None


def test_a_change_that_renews_nothing_does_not_prolong_a_lease(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    candidate("one").turn()
    other = candidate("other")
    other.turn()
    server.objects.change(
        "leases", KEY, lambda found: found | {"metadata": found["metadata"] | {"labels": {"a": "b"}}}
    )
    assert other.turn(after=10.0) is None
    assert other.turn(after=5.1) is not None


def test_a_longer_lease_of_the_holder_is_respected(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    candidate("one").turn()
    edit(server, leaseDurationSeconds=60)
    other = candidate("other")
    assert other.turn() is None
    assert other.turn(after=59.0) is None
    assert other.turn(after=1.1) is not None


def test_a_holder_that_cannot_renew_gives_up_before_others_may_take_over(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    first = one.turn()
    server.faults.add(faults.Kind.FAIL, faults.calls("PUT", "/topolog-recorder"), times=99, status=500)
    server.faults.add(faults.Kind.FAIL, faults.calls("GET", "/topolog-recorder"), times=99, status=500)
    assert one.turn(after=9.0) == first
    assert "500" in one.elector.trouble
    assert one.turn(after=1.0) is None
    server.faults.clear()
    # What it gets then is another tenure with a later epoch: somebody else may have led in between.
    again = one.turn(after=1.0)
    assert again is not None
    assert first is not None
    assert versions.older(first.epoch, again.epoch)
    assert one.elector.trouble == ""
    assert ["500" in text for text in one.told] == [True, False], "told once, and that it is over"


def test_a_lost_answer_to_a_renewal_changes_nothing(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    tenure = one.turn()
    server.faults.add(faults.Kind.LOSE, faults.calls("PUT", "/topolog-recorder"), times=1)
    assert one.turn(after=2.0) == tenure
    assert one.turn(after=2.0) == tenure
    assert one.elector.trouble == ""


def test_a_lost_answer_to_an_acquisition_is_made_good(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    server.faults.add(faults.Kind.LOSE, faults.calls("POST", "/leases"), times=1)
    assert one.turn() is None
    created = lease(server)["metadata"]["resourceVersion"]
    tenure = one.turn(after=2.0)
    assert tenure is not None
    assert versions.older(created, tenure.epoch)


def test_a_lease_that_was_deleted_is_another_tenure(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    first = one.turn()
    other.turn()
    server.objects.remove("leases", KEY)
    tenure = other.turn(after=2.0)
    assert tenure is not None
    assert first is not None
    assert versions.older(first.epoch, tenure.epoch)
    assert one.turn(after=2.0) is None
    server.objects.remove("leases", KEY)
    # Whoever comes first makes it anew, be it the holder itself: its epoch is a later one then.
    again = other.turn(after=2.0)
    assert again is not None
    assert versions.older(tenure.epoch, again.epoch)


def test_a_stolen_lease_ends_the_tenure_at_the_next_look(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    assert one.turn() is not None
    edit(server, holderIdentity="thief")
    assert not one.elector.confirm()
    assert one.elector.tenure is None
    assert one.elector.holder == "thief"
    assert one.turn(after=14.0) is None
    assert one.turn(after=1.1) is not None


def test_somebody_elses_label_does_not_end_the_tenure(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    tenure = one.turn()
    server.objects.change(
        "leases", KEY, lambda found: found | {"metadata": found["metadata"] | {"labels": {"a": "b"}}}
    )
    assert one.elector.confirm()
    assert one.elector.tenure == tenure
    assert lease(server)["metadata"]["labels"] == {"a": "b"}


def test_who_stops_gives_the_lease_up_and_leaves_word(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    one.turn()
    assert other.turn() is None
    one.said = "i/100/5"
    one.elector.stop()
    assert lease(server)["spec"]["holderIdentity"] == ""
    tenure = other.turn(after=0.1)
    assert tenure is not None
    assert tenure.note == "i/100/5"
    # As long as the new holder knows nothing itself, the word of its predecessor stands.
    other.turn(after=2.0)
    assert lease(server)["metadata"]["annotations"] == {electing.NOTE: "i/100/5"}
    other.said = "i/120/9"
    other.turn(after=2.0)
    assert lease(server)["metadata"]["annotations"] == {electing.NOTE: "i/120/9"}


def test_those_who_wait_do_not_come_all_at_once(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    assert one.elector.turn() == TERMS.retry
    pauses = {other.elector.turn() for _ in range(20)}
    assert len(pauses) == 20
    assert all(TERMS.retry <= pause <= 2.2 * TERMS.retry for pause in pauses)


def test_a_missing_right_is_told(server: apiservers.ApiServer, candidate: Callable[[str], Candidate]) -> None:
    server.faults.add(faults.Kind.FAIL, faults.calls("POST", "/leases"), times=1, status=403)
    one = candidate("one")
    assert one.turn() is None
    assert "ns/topolog-recorder" in one.elector.trouble
    assert "403" in one.elector.trouble


def test_no_two_processes_have_one_name() -> None:
    assert electing.identity() != electing.identity()


def test_the_thread_wins_renews_and_leaves(server: apiservers.ApiServer) -> None:
    client = clients.Client(accessing.plain(server.url))
    terms = electing.Terms(lease=5.0, renew=3.0, retry=0.02)
    one, other = (electing.Elector(client, *KEY, terms=terms) for _ in range(2))
    one.start()
    tenure = one.wait(20.0)
    assert tenure is not None
    other.start()
    assert other.wait(0.05) is None
    one.stop()
    successor = other.wait(20.0)
    assert successor is not None
    assert versions.older(tenure.epoch, successor.epoch)
    other.stop()
    client.close()
