"""The runtime quotas of a tree, computed again from the rules, quota by quota and with fractions.

Shares no code with the product. A tree is a plain dict: name -> ``Plain``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True)
class Plain:
    """A quota in one resource; no ``most`` means that its max does not name the resource."""

    parent: str = ""
    least: int = 0
    most: int | None = None
    weight: int = 0
    lends: bool = True
    asked: int = 0
    """Requests of its own pods."""
    held: int = 0
    """What its own pods use."""


@dataclass
class Tree:
    """The quotas of a tree in one resource."""

    rows: Mapping[str, Plain]
    total: int
    scale: bool = True
    guarantee: bool = False
    found: dict[str, int] = field(default_factory=dict)

    def below(self, name: str) -> list[str]:
        return sorted(one for one, row in self.rows.items() if row.parent == name)

    def wanted(self, name: str) -> int:
        """What the quota asks of its parent."""
        row = self.rows[name]
        asked = row.asked + sum(self.wanted(child) for child in self.below(name))
        if self.guarantee or not row.lends:
            asked = max(asked, row.least)
        return asked if row.most is None else min(asked, row.most)

    def guaranteed(self, name: str) -> int:
        """What of it is in use, or its min if that is more."""
        if not self.guarantee:
            return 0
        row = self.rows[name]
        return max(row.held + sum(self.guaranteed(child) for child in self.below(name)), row.least)

    def runtimes(self) -> dict[str, int]:
        """Name -> runtime, of the quotas that are limited in the resource."""
        self.found = {}
        self._descend("", self.total)
        return self.found

    def _descend(self, parent: str, total: int) -> None:
        tops = {name: top for name in self.below(parent) if (top := self.rows[name].most) is not None}
        shares = {name: min(share, tops[name]) for name, share in self._shared([*tops], total).items()}
        self.found.update(shares)
        for name in self.below(parent):
            self._descend(name, shares.get(name, total))

    def _shared(self, names: list[str], total: int) -> dict[str, int]:
        floors = {name: Fraction(self.rows[name].least) for name in names}
        if self.scale and max(total, 0) < sum(floors.values()):
            part = Fraction(max(total, 0), 1) / sum(floors.values())
            floors = {name: Fraction(math.floor(floor * part)) for name, floor in floors.items()}
        base = {name: max(int(floors[name]), self.guaranteed(name)) for name in names}
        got = {}
        for name in names:
            keeps = self.guarantee or not self.rows[name].lends
            got[name] = base[name] if keeps else min(base[name], self.wanted(name))
        hungry = {name for name in names if self.wanted(name) > got[name] and self.rows[name].weight}
        hungry = {name for name in hungry if self.wanted(name) > base[name]}
        while (left := total - sum(got.values())) > 0 and hungry:
            sum_of_weights = sum(self.rows[name].weight for name in hungry)
            exact = {name: Fraction(left * self.rows[name].weight, sum_of_weights) for name in hungry}
            whole = {name: math.floor(share) for name, share in exact.items()}
            by_remainder = sorted(hungry, key=lambda name: (whole[name] - exact[name], name))
            for name in by_remainder[: left - sum(whole.values())]:
                whole[name] += 1
            for name in list(hungry):
                got[name] += whole[name]
                if got[name] >= self.wanted(name):
                    got[name] = self.wanted(name)
                    hungry.discard(name)
        return got
