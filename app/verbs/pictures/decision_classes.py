"""The classes of nodes on the map of a decision: chosen, kept, refused by reason."""

from app.domain import model, node_sets, verdicts
from app.verbs.pictures import colours

MOST_REFUSED = 8
"""Classes of refused nodes: as many as the dashboard has marks for them."""


def painter(trace: verdicts.Trace, chosen: model.NodeName) -> colours.Painter:
    """``chosen``: empty if no node was."""
    groups = [colours.Group("chosen", frozenset((chosen,)), "chosen")] if chosen else []
    return colours.by_group(
        [*groups, colours.Group("kept", trace.kept, "kept"), *_refused(trace)], "not offered"
    )


def _refused(trace: verdicts.Trace) -> list[colours.Group]:
    """A group for each refusal; the last ones are one group if there are more than ``MOST_REFUSED``."""
    found = [colours.Group(f"refused: {one.reason}"[:200], one.nodes) for one in trace.refusals]
    if len(found) <= MOST_REFUSED:
        return found
    rest = node_sets.union(*(one.nodes for one in found[MOST_REFUSED - 1 :]))
    return [*found[: MOST_REFUSED - 1], colours.Group("refused for other reasons", rest)]
