"""The nodes that kube-scheduler offers, as a list in its order and as a set."""

from collections.abc import Collection, Sequence

from app.domain import model, verdicts


class Candidates:
    """Offered node names. ``spelled`` is their JSON as it was sent: equal text is equal candidates."""

    __slots__ = ("names", "nodes", "spelled")

    def __init__(self, names: Collection[model.NodeName], spelled: bytes = b"") -> None:
        self.names = names
        self.nodes: verdicts.Names = names if isinstance(names, frozenset) else frozenset(names)
        self.spelled = spelled

    @property
    def repeated(self) -> bool:
        """Some name was offered twice; a reply must not repeat it (extender-contract-checked N13)."""
        return len(self.nodes) != len(self.names)

    @property
    def plain(self) -> bool:
        """No name needs escaping in JSON."""
        return bool(self.spelled) and b"\\" not in self.spelled

    def without(self, refused: verdicts.Names) -> list[model.NodeName]:
        """The names that are not refused, each once, in the offered order."""
        names = dict.fromkeys(self.names) if self.repeated else self.names
        return [name for name in names if name not in refused]


def offered(
    names: Sequence[model.NodeName], spelled: bytes, everywhere: verdicts.Names = verdicts.NONE
) -> Candidates:
    """The candidates; the very set ``everywhere``, all nodes, if that is what they are.

    Mostly kube-scheduler offers every node, in an order of its own. What holds for all nodes is known
    already, so nothing is built of the names then.
    """
    if len(names) == len(everywhere) and not everywhere.difference(names):
        return Candidates(everywhere, spelled)
    return Candidates(names, spelled)
