"""The nodes that kube-scheduler offers, as a list in its order and as a set."""

from collections.abc import Collection

from app.domain import lasting, model, verdicts


class Candidates:
    """Offered node names. ``spelled`` is their JSON as it was sent: equal text is equal candidates."""

    __slots__ = ("names", "nodes", "repeated", "spelled")

    def __init__(
        self,
        names: Collection[model.NodeName],
        spelled: bytes = b"",
        *,
        everywhere: verdicts.Names = verdicts.NONE,
    ) -> None:
        """``everywhere`` are all nodes of the cluster: if they are offered, ``nodes`` is that very set.

        Mostly they are, in an order of kube-scheduler's own; what holds for all of them is known already. If
        some of them are offered, ``nodes`` knows that it is a part of them.
        """
        nodes = names if isinstance(names, frozenset) else frozenset(names)
        # Sets of one size are compared by their hashes alone, 64 keyed bits: comparing name by name
        # would fetch every known name from memory, where the other programs' work has moved it.
        alike = len(nodes) == len(everywhere) and hash(nodes) == hash(everywhere)
        if not alike and isinstance(everywhere, lasting.Lasting) and nodes <= everywhere:
            nodes = lasting.Among(nodes, everywhere)
        self.nodes: verdicts.Names = everywhere if alike else nodes
        self.repeated = len(nodes) != len(names)
        """Some name was offered twice; a reply must not repeat it (extender-contract-checked N13)."""
        self.names = names
        self.spelled = spelled

    @property
    def plain(self) -> bool:
        """No name needs escaping in JSON."""
        return bool(self.spelled) and b"\\" not in self.spelled

    def without(self, refused: verdicts.Names) -> list[model.NodeName]:
        """The names that are not refused, each once, in the offered order."""
        names = dict.fromkeys(self.names) if self.repeated else self.names
        return [name for name in names if name not in refused]
