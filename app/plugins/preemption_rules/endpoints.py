"""The views of nominations, pods that wait for the evictions on a node, and of PodDisruptionBudgets."""

from collections.abc import Iterator, Mapping

from app.domain import model, snapshots
from app.framework import views
from app.plugins.preemption_rules import kinds


def nominations(snapshot: snapshots.Snapshot, _: Mapping[str, str]) -> views.Listed:
    """The unbound pods with a nominated node, by node and name."""
    found = {(pod.nominated, pod.key): pod for uid in snapshot.nominated if (pod := snapshot.pod(uid))}

    def item(key: tuple[str, str]) -> object:
        return _shown(snapshot, found[key])

    return views.Listed(found, item)


def _shown(snapshot: snapshots.Snapshot, pod: model.Pod) -> object:
    return {
        "node": pod.nominated,
        "known": pod.nominated in snapshot.nodes,
        "pod": pod.key,
        "uid": pod.uid,
        "priority": pod.priority,
    }


def budgets(snapshot: snapshots.Snapshot, _: Mapping[str, str]) -> views.Listed:
    """The recorded PodDisruptionBudgets, by namespace and name."""
    found = snapshot.all(kinds.BUDGETS)

    def item(key: str) -> object:
        one = found[key]
        return {"budget": key, "allowed": one.allowed, "disrupted": list(one.disrupted), "error": one.error}

    return views.Listed(found, item)


EXAMPLE = [{"node": "n1", "known": True, "pod": "shop/urgent-1", "uid": "5b2c0f5e", "priority": 1000}]
BUDGETS = [{"budget": "shop/db", "allowed": 1, "disrupted": ["db-2"], "error": ""}]
TABLES = (
    views.Table(
        "nominations",
        "nominations",
        "pods that are nominated for a node",
        {"POD": "pod", "NODE": "node", "PRIORITY": "priority", "NODE KNOWN": "known"},
        namespace="pod",
    ),
    views.Table(
        "budgets",
        "budgets",
        "pod disruption budgets and the evictions that they allow",
        {"BUDGET": "budget", "ALLOWED": "allowed", "ERROR": "error"},
        namespace="budget",
    ),
)


def shown() -> views.Shown:
    """The views of nominations and budgets."""
    return views.Shown(
        endpoints=(
            views.Endpoint("nominations", "Unbound pods with a nominated node", nominations, EXAMPLE),
            views.Endpoint("budgets", "PodDisruptionBudgets as recorded", budgets, BUDGETS),
        ),
        summary=_lines,
    )


def _lines(snapshot: snapshots.Snapshot) -> Iterator[views.StatusLine]:
    """How many pods wait for the evictions on a node, and the budgets that could not be read."""
    held = snapshot.all(kinds.BUDGETS)
    unread = [key for key in held if held[key].error]
    nominated = sum(1 for uid in snapshot.nominated if snapshot.pod(uid))
    if nominated:
        pods = "1 pod waits" if nominated == 1 else f"{nominated} pods wait"
        yield views.StatusLine("nominations", f"{pods} for evictions")
    if unread:
        yield views.StatusLine("budgets", f"{len(held)}", f"{len(unread)} unreadable: {min(unread)}, ...")
