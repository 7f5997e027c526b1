"""The nodes that kube-scheduler offers, as a list in its order and as a set."""

from collections.abc import Sequence

from app.domain import model, verdicts


class Candidates:
    """Offered node names. ``spelled`` is their JSON as it was sent: equal text is equal candidates."""

    __slots__ = ("names", "nodes", "spelled")

    def __init__(self, names: Sequence[model.NodeName], spelled: bytes = b"") -> None:
        self.names = names
        self.nodes: verdicts.Names = frozenset(names)
        self.spelled = spelled

    @property
    def repeated(self) -> bool:
        """Some name was offered twice; a reply must not repeat it (extender-contract-checked N13)."""
        return len(self.nodes) != len(self.names)

    def without(self, refused: verdicts.Names) -> list[model.NodeName]:
        """The names that are not refused, each once, in the offered order."""
        names = dict.fromkeys(self.names) if self.repeated else self.names
        return [name for name in names if name not in refused]
