"""What the controller would do for gangs in a small cluster."""

from app.domain import events, model, snapshots
from app.framework import effects
from app.plugins.coscheduling import membership
from app.plugins.coscheduling.plugin import Coscheduling
from tests.support.decisions.small_gangs import Cluster, pod

PLUGIN = Coscheduling()


def members(name: str, count: int, cpu: int = 1) -> list[model.Pod]:
    """Members of a gang that a PodGroup of the sigs defines."""
    labels = {membership.SIGS_LABEL: name}
    return [pod(f"{name}{number}", cpu, labels=labels) for number in range(count)]


def everything(small: Cluster, *, missed: bool = False) -> list[effects.Effect]:
    """The effects of a verification; ``missed``: for a controller that begins to lead."""
    return list(PLUGIN.reconcile(small.snapshot, effects.Changes(missed=missed)))


def after(small: Cluster, *happened: events.AnyEvent) -> list[effects.Effect]:
    """The effects of events that happen now."""
    before = small.snapshot
    small.take(*happened)
    return list(PLUGIN.reconcile(small.snapshot, effects.Changes(before, happened)))


def posted(found: list[effects.Effect]) -> list[tuple[str, str]]:
    """What each Event is about, and its message."""
    return [(one.about.key, one.message) for one in found if isinstance(one, effects.PostEvent)]


def woken(found: list[effects.Effect]) -> list[str]:
    """The names of the pods that are woken."""
    return [one.name for effect in found if isinstance(effect, effects.WakePods) for one in effect.pods]


def committed(small: Cluster, pods: list[model.Pod]) -> events.PlacementsCommitted:
    """The event of the gang's commitment, applied."""
    before: snapshots.Snapshot = small.snapshot
    small.commit(pods[0], small.planned(pods[0]))
    made = tuple(small.snapshot.placements[one.uid] for one in pods)
    assert not before.placements
    return events.PlacementsCommitted(placements=made, at="now")


def given_up(found: list[effects.Effect]) -> set[model.Uid]:
    """The pods whose seats are released."""
    return {uid for one in found if isinstance(one, effects.ReleasePlacements) for uid in one.pods}
