"""The law of runtime quotas: what a reader divides among quotas is what the log has to divide.

Requests, use and total are computed from the state of the log, and divided by the rules again, with fractions
and without the code of the plugin, under every combination of its rules.
"""

from collections.abc import Mapping

from app.domain import snapshots
from app.plugins.elastic_quota.trees import runtimes, usage
from tests.support.decisions import quota_oracle
from tests.support.simulation.oracle import plain_fold, plain_quotas

Rules = tuple[bool, bool]
"""Whether mins are scaled, and whether use is guaranteed."""
Shares = Mapping[Rules, Mapping[str, int]]
"""Name -> runtime in milli-cores, under each rule."""
_RULES: tuple[Rules, ...] = tuple((scale, keep) for scale in (True, False) for keep in (True, False))
TOTAL = ""
"""The name under which the total is listed."""
TREE = ""
"""The id of the tree of all quotas."""


def shares(fold: plain_fold.Fold) -> Shares:
    """What each quota may use in the state of a log; empty without quotas."""
    quotas = plain_quotas.by_name(fold.quotas.values())
    if not quotas:
        return {}
    asked, held = dict.fromkeys(quotas, 0), dict.fromkeys(quotas, 0)
    # While no node has the resource, nothing is divided, and no pod takes anything away.
    offered = [node for node in fold.nodes.values() if plain_quotas.RESOURCE in node.allocatable]
    total = sum(node.allocatable[plain_quotas.RESOURCE] for node in offered)
    for pod, node in fold.pods_and_nodes().values():
        if pod.phase in ("Succeeded", "Failed"):
            continue
        name = plain_quotas.of(pod, quotas)
        amount = plain_quotas.request(pod, name, quotas).get(plain_quotas.RESOURCE, 0)
        if name in quotas:
            asked[name] += amount
            held[name] += amount if node else 0
        elif node and offered:
            total -= amount
    rows = {
        name: quota_oracle.Plain(
            parent=quota.get("parent", ""),
            least=quota.get("min", {}).get(plain_quotas.RESOURCE, 0),
            most=quota.get("max", {}).get(plain_quotas.RESOURCE),
            weight=quota.get("max", {}).get(plain_quotas.RESOURCE, 0),
            asked=asked[name],
            held=held[name],
        )
        for name, quota in quotas.items()
    }
    return {
        (scale, guarantee): {
            TOTAL: total,
            **quota_oracle.Tree(rows, total, scale=scale, guarantee=guarantee).runtimes(),
        }
        for scale, guarantee in _RULES
    }


def problem(snapshot: snapshots.Snapshot, expected: Shares) -> str:
    """How the runtimes of a reader's snapshot differ from those of the log at its offset."""
    if TREE not in usage.forest(snapshot).trees:
        # No quota is valid, such as one whose parent is not listed yet: only the total is expected.
        divided = {name for wanted in expected.values() for name in wanted if name != TOTAL}
        return f"nothing is divided among {sorted(divided)}" if divided else ""
    for (scale, guarantee), wanted in expected.items():
        found = usage.of_tree(snapshot, TREE, runtimes.RuntimeRules(scale=scale, guarantee=guarantee))
        shown = {
            name: found.runtimes.runtime(name).get(plain_quotas.RESOURCE, 0)
            for name in wanted
            if name != TOTAL
        }
        shown[TOTAL] = found.total.get(plain_quotas.RESOURCE, 0)
        if shown != wanted:
            return f"scale={scale}, guarantee={guarantee}: {shown} instead of {wanted}"
    return ""
