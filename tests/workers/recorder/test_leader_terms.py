"""From which versions the watches of a new leader resume."""

import msgspec

from app.domain import model, snapshots
from tests.support.decisions import crowded_nodes
from workers.recorder import leader_terms

MARKS = {"rv:nodes": "1", "rv:pods": "2"}
POD = crowded_nodes.pod("p")


def resumed(*pods: model.Pod, unlisted: frozenset[str] = frozenset()) -> dict[str, str]:
    world = crowded_nodes.world(*pods)
    listed = snapshots.Snapshot(world.schema, pods=world.pods, unlisted=unlisted)
    return leader_terms.resumed(MARKS, listed)


def test_watches_resume_where_the_log_ends() -> None:
    assert resumed(POD) == MARKS


def test_a_kind_that_must_be_listed_has_no_version_to_resume_from() -> None:
    assert resumed(POD, unlisted=frozenset(("nodes",))) == {"rv:pods": "2"}


def test_pods_that_were_recorded_without_constraints_are_listed_again() -> None:
    old = msgspec.structs.replace(POD, uid="old", name="old", constraints=None)
    assert resumed(POD, old) == {"rv:nodes": "1"}
