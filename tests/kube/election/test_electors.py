"""The election: one Lease on a simulated API server, and candidates with separate virtual clocks.

What a leader may write is tested with the store (tests/store, tests/workers).
"""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.kube.client import clients
from app.kube.election import electors
from app.kube.watch import resource_versions
from app.simulation.apiserver import apiservers, faults
from tests.support.kube import fake_clock, plain_access

Json = dict[str, Any]
KEY = ("ns", "topolog-recorder")
DURATIONS = electors.Durations(lease=15.0, renew=10.0, retry=2.0)


class Candidate:
    """An elector without its thread: the test calls run_once."""

    def __init__(self, server: apiservers.ApiServer, name: str) -> None:
        self.clock = fake_clock.VirtualClock()
        self.client = clients.Client(plain_access.of(server.url))
        self.note = ""
        self.problems: list[str] = []
        self.elector = electors.Elector(
            self.client,
            *KEY,
            durations=DURATIONS,
            identity=name,
            on_problem=self.problems.append,
            clock=self.clock,
            rng=random.Random(1),
        )
        self.elector.handover_note = lambda: self.note

    def run_once(self, *, after: float = 0.0) -> electors.Tenure | None:
        self.clock.now += after
        self.elector.run_once()
        return self.elector.tenure


@pytest.fixture
def candidate(server: apiservers.ApiServer) -> Callable[[str], Candidate]:
    return lambda name: Candidate(server, name)


def lease(server: apiservers.ApiServer) -> Json:
    return server.objects.get("leases", KEY)


def edit(server: apiservers.ApiServer, **spec: object) -> None:
    """Change the Lease as another client."""

    def change(found: Json) -> Json:
        return found | {"spec": found["spec"] | spec}

    server.objects.change("leases", KEY, change)


def test_the_first_candidate_leads_and_is_the_holder_in_the_lease(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    tenure = one.run_once()
    assert tenure is not None
    found = lease(server)
    assert tenure.epoch == found["metadata"]["resourceVersion"]
    assert (found["spec"]["holderIdentity"], found["spec"]["leaseTransitions"]) == ("one", 0)
    assert found["spec"]["leaseDurationSeconds"] == 15
    assert found["spec"]["acquireTime"] == found["spec"]["renewTime"]
    other = candidate("other")
    assert other.run_once() is None
    assert other.elector.holder == "one"
    assert other.elector.problem == ""


def test_a_holder_that_renews_keeps_its_tenure_and_its_epoch(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    tenure = one.run_once()
    first = lease(server)
    for _ in range(20):
        assert one.run_once(after=2.0) == tenure
        assert other.run_once(after=2.0) is None
    assert lease(server)["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    assert lease(server)["spec"]["acquireTime"] == first["spec"]["acquireTime"]


def test_a_silent_holder_is_succeeded_after_the_lease_duration_and_not_before(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    former = one.run_once()
    assert other.run_once() is None
    assert other.run_once(after=14.9) is None
    tenure = other.run_once(after=0.2)
    assert tenure is not None
    assert former is not None
    assert resource_versions.older(former.epoch, tenure.epoch)
    assert tenure.transitions == 1
    # The former holder, paused until now, notices at its next poll.
    one.clock.now += 15.1
    assert one.elector.tenure is None
    assert one.run_once() is None
    assert one.elector.holder == "other"


def test_only_observed_changes_count_not_the_times_in_the_lease(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    candidate("one").run_once()
    for time in ("1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        edit(server, renewTime=time, acquireTime=time)
        other = candidate("other")
        assert other.run_once() is None
        assert other.run_once(after=14.9) is None
    assert other.run_once(after=0.2) is not None


def test_a_change_that_renews_nothing_does_not_prolong_a_lease(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    candidate("one").run_once()
    other = candidate("other")
    other.run_once()
    server.objects.change(
        "leases", KEY, lambda found: found | {"metadata": found["metadata"] | {"labels": {"a": "b"}}}
    )
    assert other.run_once(after=10.0) is None
    assert other.run_once(after=5.1) is not None


def test_a_longer_lease_of_the_holder_is_respected(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    candidate("one").run_once()
    edit(server, leaseDurationSeconds=60)
    other = candidate("other")
    assert other.run_once() is None
    assert other.run_once(after=59.0) is None
    assert other.run_once(after=1.1) is not None


def test_a_holder_that_cannot_renew_gives_up_before_others_may_take_over(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    first = one.run_once()
    server.faults.add(faults.FaultKind.FAIL, faults.calls("PUT", "/topolog-recorder"), times=99, status=500)
    server.faults.add(faults.FaultKind.FAIL, faults.calls("GET", "/topolog-recorder"), times=99, status=500)
    assert one.run_once(after=9.0) == first
    assert "500" in one.elector.problem
    assert one.run_once(after=1.0) is None
    server.faults.clear()
    # Its next tenure has a later epoch, because another candidate may have led in between.
    again = one.run_once(after=1.0)
    assert again is not None
    assert first is not None
    assert resource_versions.older(first.epoch, again.epoch)
    assert one.elector.problem == ""
    assert ["500" in text for text in one.problems] == [True, False], "reported once, and then its end"


def test_a_lost_answer_to_a_renewal_changes_nothing(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    tenure = one.run_once()
    server.faults.add(faults.FaultKind.LOSE, faults.calls("PUT", "/topolog-recorder"), times=1)
    assert one.run_once(after=2.0) == tenure
    assert one.run_once(after=2.0) == tenure
    assert one.elector.problem == ""


def test_an_acquisition_without_a_reply_is_repeated(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    server.faults.add(faults.FaultKind.LOSE, faults.calls("POST", "/leases"), times=1)
    assert one.run_once() is None
    created = lease(server)["metadata"]["resourceVersion"]
    tenure = one.run_once(after=2.0)
    assert tenure is not None
    assert resource_versions.older(created, tenure.epoch)


def test_a_lease_that_was_deleted_is_another_tenure(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    first = one.run_once()
    other.run_once()
    server.objects.remove("leases", KEY)
    tenure = other.run_once(after=2.0)
    assert tenure is not None
    assert first is not None
    assert resource_versions.older(first.epoch, tenure.epoch)
    assert one.run_once(after=2.0) is None
    server.objects.remove("leases", KEY)
    # The first candidate creates the Lease again, even the holder itself, with a later epoch.
    again = other.run_once(after=2.0)
    assert again is not None
    assert resource_versions.older(tenure.epoch, again.epoch)


def test_a_stolen_lease_ends_the_tenure_at_the_next_poll(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    assert one.run_once() is not None
    edit(server, holderIdentity="thief")
    assert not one.elector.confirm()
    assert one.elector.tenure is None
    assert one.elector.holder == "thief"
    assert one.run_once(after=14.0) is None
    assert one.run_once(after=1.1) is not None


def test_a_label_by_another_client_does_not_end_the_tenure(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one = candidate("one")
    tenure = one.run_once()
    server.objects.change(
        "leases", KEY, lambda found: found | {"metadata": found["metadata"] | {"labels": {"a": "b"}}}
    )
    assert one.elector.confirm()
    assert one.elector.tenure == tenure
    assert lease(server)["metadata"]["labels"] == {"a": "b"}


def test_a_holder_that_stops_releases_the_lease_with_a_handover_note(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    one.run_once()
    assert other.run_once() is None
    one.note = "i/100/5"
    one.elector.stop()
    assert lease(server)["spec"]["holderIdentity"] == ""
    tenure = other.run_once(after=0.1)
    assert tenure is not None
    assert tenure.handover_note == "i/100/5"
    # Until the new holder has a note, the note of its predecessor stays.
    other.run_once(after=2.0)
    assert lease(server)["metadata"]["annotations"] == {electors.HANDOVER_ANNOTATION: "i/100/5"}
    other.note = "i/120/9"
    other.run_once(after=2.0)
    assert lease(server)["metadata"]["annotations"] == {electors.HANDOVER_ANNOTATION: "i/120/9"}


def test_waiting_candidates_do_not_poll_all_at_once(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    one, other = candidate("one"), candidate("other")
    assert one.elector.run_once() == DURATIONS.retry
    pauses = {other.elector.run_once() for _ in range(20)}
    assert len(pauses) == 20
    assert all(DURATIONS.retry <= pause <= 2.2 * DURATIONS.retry for pause in pauses)


def test_a_missing_right_is_reported(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    server.faults.add(faults.FaultKind.FAIL, faults.calls("POST", "/leases"), times=1, status=403)
    one = candidate("one")
    assert one.run_once() is None
    assert "ns/topolog-recorder" in one.elector.problem
    assert "403" in one.elector.problem


def test_identities_are_unique() -> None:
    assert electors.unique_identity() != electors.unique_identity()


def test_the_thread_wins_renews_and_leaves(server: apiservers.ApiServer) -> None:
    client = clients.Client(plain_access.of(server.url))
    terms = electors.Durations(lease=5.0, renew=3.0, retry=0.02)
    one, other = (electors.Elector(client, *KEY, durations=terms) for _ in range(2))
    one.start()
    tenure = one.wait(20.0)
    assert tenure is not None
    other.start()
    assert other.wait(0.05) is None
    one.stop()
    successor = other.wait(20.0)
    assert successor is not None
    assert resource_versions.older(tenure.epoch, successor.epoch)
    other.stop()
    client.close()


def test_a_tenure_that_ended_during_its_renewal_is_followed_by_another(
    server: apiservers.ApiServer, candidate: Callable[[str], Candidate]
) -> None:
    """Those that asked meanwhile have given up the first one."""
    one = candidate("one")
    first = one.run_once()
    assert first is not None

    def slow() -> str:
        one.clock.now += 3.0
        assert one.elector.tenure is None
        return ""

    one.elector.handover_note = slow
    second = one.run_once(after=8.0)
    assert second is not None
    assert second != first
    assert resource_versions.older(first.epoch, second.epoch)


class InterruptedClock(fake_clock.VirtualClock):
    """Shows the time as it was when a thread was interrupted: ``meanwhile`` runs at one of its readings."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        """Readings until the interruption; 0: there is none."""
        self.meanwhile: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        now = self.now
        if self.left:
            self.left -= 1
            if not self.left:
                self.meanwhile()
        return now


@pytest.mark.parametrize("at", range(1, 6))
def test_a_tenure_that_was_read_as_ended_does_not_go_on(server: apiservers.ApiServer, at: int) -> None:
    clock, client = InterruptedClock(), clients.Client(plain_access.of(server.url))
    elector = electors.Elector(client, *KEY, durations=DURATIONS, identity="one", clock=clock)
    elector.run_once()
    before = elector.tenure
    assert before is not None
    read: list[electors.Tenure | None] = []
    reader = threading.Thread(target=lambda: read.append(elector.tenure))

    def meanwhile() -> None:
        clock.now += 0.2
        reader.start()
        reader.join(0.2)  # In vain if the reader has to wait for this thread.

    clock.now += DURATIONS.renew - 0.1
    clock.left, clock.meanwhile = at, meanwhile
    elector.run_once()
    client.close()
    reader.join()
    assert read == [before] or elector.tenure != before
