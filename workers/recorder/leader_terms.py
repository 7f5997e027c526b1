"""A term of leadership as the log sees it: the guard of its appends, and where the watches resume."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.domain import snapshots
from app.kube.election import electors
from app.kube.watch import kinds
from app.store.log import batches, incarnations

OTHER_FORM = "recorded by a version of Topolog that kept other fields"


class LeaderTerm(NamedTuple):
    """Input of a recorder that has become the leader."""

    guard: batches.Guard
    """Epoch and writer, which every append carries."""
    versions: Mapping[str, str]
    """Kind -> the version from which its watch resumes."""
    reasons: Mapping[str, str]
    """Kind -> why it is listed if its watch cannot resume."""
    kubernetes: str
    """The UID of the Kubernetes cluster, which every append carries; empty if it may not be read."""


def guard(tenure: electors.Tenure, state: incarnations.StoreState, writer: str) -> batches.Guard:
    """The guard under which a leader appends; empty without an election."""
    if not tenure.epoch:
        return batches.Guard()
    return batches.Guard(epoch=incarnations.epoch(tenure.epoch, state.epoch), writer=writer)


def resumed(
    marks: Mapping[str, str], snapshot: snapshots.Snapshot, watched: Iterable[kinds.WatchedKind]
) -> dict[str, str]:
    """Kind -> the version from which its watch resumes, of the kinds that need not be listed again.

    ``marks``: those of the store, by WatchedKind.mark.
    """
    versions = ((kind.name, kind.resumed(marks)) for kind in watched)
    return {name: version for name, version in versions if version and name not in snapshot.unlisted}


def reasons(
    marks: Mapping[str, str], snapshot: snapshots.Snapshot, watched: Iterable[kinds.WatchedKind], usual: str
) -> dict[str, str]:
    """Kind -> why it is listed if its watch cannot resume: usually ``usual``."""
    return {
        kind.name: OTHER_FORM if kind.differs(marks) and kind.name not in snapshot.unlisted else usual
        for kind in watched
    }
