"""A term of leadership as the log sees it: the guard of its appends, and where the watches resume."""

from collections.abc import Mapping
from typing import NamedTuple

from app.domain import snapshots
from app.kube.election import electors
from app.store.log import batches, incarnations


class LeaderTerm(NamedTuple):
    """Input of a recorder that has become the leader."""

    guard: batches.Guard
    """Epoch and writer, which every append carries."""
    marks: dict[str, str]
    """Versions from which the watches resume (see batch_builder.mark)."""
    reason: str
    """Why kinds without such a version are listed."""


def guard(tenure: electors.Tenure, state: incarnations.StoreState, writer: str) -> batches.Guard:
    """The guard under which a leader appends; empty without an election."""
    if not tenure.epoch:
        return batches.Guard()
    return batches.Guard(epoch=incarnations.epoch(tenure.epoch, state.epoch), writer=writer)


def resumed(marks: Mapping[str, str], snapshot: snapshots.Snapshot) -> dict[str, str]:
    """The versions from which watches resume: of the kinds that need not be listed again.

    Pods are listed again if an earlier version of Topolog recorded some of them without their constraints.
    """
    again = set(snapshot.unlisted)
    if any(pod.constraints is None for pod in snapshot.pods.values()):
        again.add("pods")
    return {name: version for name, version in marks.items() if name.removeprefix("rv:") not in again}
