"""The PreemptionRules plugin: what kube-scheduler's own preemption lacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from app.domain import model
from app.framework import cycles, views
from app.plugins.preemption_rules import endpoints, kinds, logic


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """Adds to the victims of a node the pods there that depend on one of them; see README.md."""

    name: ClassVar[str] = "PreemptionRules"
    tables: ClassVar[tuple[views.Table, ...]] = endpoints.TABLES
    co_dependents: Literal["add", "ignore"] = "add"
    """``ignore`` leaves pods running that require a victim near them."""

    def interested(self, pod: model.Pod) -> bool:
        """No pod is filtered or scored."""
        return False

    budgets = staticmethod(kinds.known)
    kinds = staticmethod(kinds.declared)

    def adjust(
        self, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
    ) -> Sequence[model.Pod] | str:
        return logic.dependents(cycle, node, victims) if self.co_dependents == "add" else ()

    def shown(self) -> views.Shown:
        return endpoints.shown()
