"""View of all nodes with their label value and score."""

from collections.abc import Callable, Mapping

from app.domain import model, snapshots
from app.framework import views
from app.plugins.node_label_priority import logic

Handle = Callable[[snapshots.Snapshot, Mapping[str, str]], views.Listed]


def nodes(label: str) -> Handle:
    """Every node with its label value and score; nodes without the label are not eligible."""

    def handle(snapshot: snapshots.Snapshot, _: Mapping[str, str]) -> views.Listed:
        def item(name: model.NodeName) -> dict[str, object]:
            value = snapshot.nodes[name].labels.get(label)
            return {
                "name": name,
                "eligible": value is not None,
                "value": value,
                "score": 0 if value is None else logic.score_of(value),
            }

        return views.Listed(snapshot.nodes, item)

    return handle


EXAMPLE = [
    {"name": "scheduler-1", "eligible": True, "value": "10", "score": 10},
    {"name": "scheduler-2", "eligible": False, "value": None, "score": 0},
]
TABLES = (
    views.Table(
        "priorities",
        "nodes",
        "nodes with their priority label and score",
        {"NAME": "name", "ELIGIBLE": "eligible", "VALUE": "value", "SCORE": "score"},
    ),
)


def shown(label: str) -> views.Shown:
    """The view of the nodes."""
    summary = "All nodes with their label value and score"
    return views.Shown(endpoints=(views.Endpoint("nodes", summary, nodes(label), EXAMPLE),))
