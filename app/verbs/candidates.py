"""The nodes that kube-scheduler offers, as a list in its order and as a set."""

from collections.abc import Collection

from app.domain import model, node_sets


class Candidates:
    """Offered node names. ``spelled`` is their JSON as it was sent: equal text is equal candidates."""

    __slots__ = ("names", "nodes", "repeated", "spelled", "whole")

    def __init__(
        self,
        names: Collection[model.NodeName],
        spelled: bytes = b"",
        *,
        everywhere: node_sets.Names = node_sets.NONE,
        whole: bool = False,
    ) -> None:
        """``everywhere``: all nodes of the cluster, whose memoised results the candidates can share.
        ``whole``: the call carried whole nodes instead of their names.

        Usually kube-scheduler offers all of them, in an order that it chooses: then ``nodes`` is that set
        itself. If it offers some of them, ``nodes`` is a Subset of it.
        """
        nodes = names if isinstance(names, frozenset) else frozenset(names)
        self.nodes: node_sets.Names = node_sets.shared(nodes, everywhere)
        self.repeated = len(nodes) != len(names)
        """A name was offered twice; a reply must not repeat it (docs/design/extender-contract.md, 7)."""
        self.names = names
        self.spelled = spelled
        self.whole = whole

    @property
    def plain(self) -> bool:
        """Whether no name needs escaping in JSON."""
        return bool(self.spelled) and b"\\" not in self.spelled

    def part(self, names: list[model.NodeName], spelled: bytes) -> "Candidates":
        """Some of these candidates: if all of these are nodes of the cluster, so are they."""
        known = self.nodes.of if isinstance(self.nodes, node_sets.Subset) else self.nodes
        if not isinstance(known, node_sets.InternedNodes):
            return Candidates(names, spelled)
        found = Candidates(node_sets.Subset(names, known), spelled)
        found.names = names
        return found

    def without(self, refused: node_sets.Names) -> list[model.NodeName]:
        """The names that are not refused, each once, in the offered order."""
        names = dict.fromkeys(self.names) if self.repeated else self.names
        return [name for name in names if name not in refused]
