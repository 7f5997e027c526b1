"""The classes of nodes on the map of a decision: chosen, kept by the rank of the score, refused by reason."""

from collections.abc import Iterator

from app.domain import model, node_sets, verdicts
from app.framework import views
from app.verbs.pictures import colours

MOST_REFUSED = 8
"""Classes of refused nodes: as many as the dashboard has marks for them."""
_SHADES: tuple[views.Look, ...] = ("higher", "high", "mid", "low")
"""Those of the quarters, from the best on."""


def painter(trace: verdicts.Trace, chosen: model.NodeName) -> colours.Painter:
    """``chosen``: empty if no node was."""
    groups = [colours.Group("chosen", frozenset((chosen,)), "chosen")] if chosen else []
    return colours.by_group([*groups, *_kept(trace), *_refused(trace)], "not offered")


def _kept(trace: verdicts.Trace) -> Iterator[colours.Group]:
    """The kept nodes in quarters by rank; nodes of one score share the rank in the middle of their places."""
    kept = trace.kept
    totals = {0: kept.difference(*trace.totals.values()), **trace.totals}
    scored = [nodes for total in sorted(totals, reverse=True) if (nodes := kept & totals[total])]
    if len(scored) < 2:
        yield colours.Group("kept", kept, "kept")
        return
    quarters: list[set[model.NodeName]] = [set() for _ in _SHADES]
    better = 0
    for nodes in scored:
        quarters[len(_SHADES) * (2 * better + len(nodes)) // (2 * len(kept))] |= nodes
        better += len(nodes)
    last = 0
    for quarter, look in zip(quarters, _SHADES, strict=True):
        if quarter:
            first, last = last + 1, last + len(quarter)
            ranks = f"ranks {first} to {last}" if first < last else f"rank {first}"
            yield colours.Group(f"kept, {ranks} of {len(kept)} by score", frozenset(quarter), look)


def _refused(trace: verdicts.Trace) -> list[colours.Group]:
    """A group for each refusal; the last ones are one group if there are more than ``MOST_REFUSED``."""
    found = [colours.Group(f"refused: {one.reason}"[:200], one.nodes) for one in trace.refusals]
    if len(found) <= MOST_REFUSED:
        return found
    rest = node_sets.union(*(one.nodes for one in found[MOST_REFUSED - 1 :]))
    return [*found[: MOST_REFUSED - 1], colours.Group("refused for other reasons", rest)]
