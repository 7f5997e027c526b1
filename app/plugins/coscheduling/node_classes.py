"""The map of the cluster by one gang: where its members are, and the domain that they share."""

from collections import Counter
from collections.abc import Mapping, Sequence

from app.domain import model, snapshots
from app.framework import views
from app.plugins.coscheduling import questions

CLASSES: tuple[tuple[str, views.Look], ...] = (
    ("elsewhere", "none"),
    ("in the domain of its members", "low"),
    ("a member", "high"),
    ("several members", "full"),
    ("a member that is placed and not bound", "over"),
)
_DOMAIN, _ONE, _SEVERAL, _PLACED = range(1, len(CLASSES))


def nodes(
    layers: Sequence[str], snapshot: snapshots.Snapshot, name: model.NamespacedName
) -> Mapping[model.NodeName, int]:
    """Node -> the index of its class, of the nodes of the gang's members and of the smallest domain around.

    ``layers``: label keys, from the largest domains to the smallest.
    """
    gang = questions.named(snapshot, name)
    seats = [seat for seat in gang.seats if seat.node in snapshot.nodes] if gang is not None else []
    number = Counter(seat.node for seat in seats)
    found = dict.fromkeys(_around(layers, snapshot, number), _DOMAIN)
    found |= {node: _ONE if members == 1 else _SEVERAL for node, members in number.items()}
    found |= {seat.node: _PLACED for seat in seats if not seat.bound}
    return found


def _around(
    layers: Sequence[str], snapshot: snapshots.Snapshot, held: Mapping[model.NodeName, int]
) -> frozenset[model.NodeName]:
    """The nodes of the smallest domain that has all these nodes; none if no domain has."""
    domain: frozenset[model.NodeName] | None = None
    for layer in layers:
        values = {snapshot.nodes[node].labels.get(layer) for node in held}
        if len(values) != 1:
            break
        (value,) = values
        if value is None:
            continue  # Not every cluster has regions.
        inside = frozenset(snapshot.topology[layer][value])
        domain = inside if domain is None else domain & inside
    return domain or frozenset()
