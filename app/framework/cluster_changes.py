"""Changes of the cluster that may let a refused pod fit, as data: app.verbs.explain.advice evaluates them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from app.domain import events, model
from app.framework import cycles

Change = Callable[[], events.AnyEvent]
"""Makes the event that records a change. Called only for hypotheses that are evaluated: a large object is
copied no sooner."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A change that an operator could make, in words and as the events that would follow from it."""

    message: str
    """What would have to change, without a full stop."""
    cost: int
    """Cheaper changes are preferred; those of equal cost are shown together."""
    changes: tuple[Change, ...] = ()
    pod: model.Pod | None = None
    """The pod as it would have to be; None if it can stay as it is."""
    alternative: str = ""
    """Another change with the same effect, in words; ``changes`` do not contain it."""
    indirect: bool = False
    """It changes nothing that the plugin reads of this pod as it is: it may help beside another change, and
    cannot alter alone which nodes the plugin refuses."""

    @property
    def sentence(self) -> str:
        """The message, with the alternative."""
        return f"{self.message}, or {self.alternative}" if self.alternative else self.message


def node_labelled(cycle: cycles.Cycle, name: model.NodeName, key: str, value: str) -> Change:
    """The node with one more label."""
    known = cycle.snapshot.nodes.get(name) or model.Node(name=name, uid="")
    node = msgspec.structs.replace(known, labels={**known.labels, key: value})
    return partial(events.NodeSeen, node=node)
