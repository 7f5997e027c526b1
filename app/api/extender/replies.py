"""Encodes the replies to kube-scheduler (k8s.io/kube-scheduler/extender/v1).

If nothing was refused the names are spliced back in the form in which they were sent, and the JSON of
interned sets of nodes is encoded once: the replies for thousands of nodes are mostly copies.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.api.extender import calls, json_cache
from app.domain import model, node_sets, verdicts
from app.verbs import candidates
from app.verbs.preemption import offers


class _NodeItems(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


_decode_items = msgspec.json.Decoder(_NodeItems).decode
_encode = msgspec.json.Encoder().encode


def kept_names(offered: candidates.Candidates, trace: verdicts.Trace) -> candidates.Candidates:
    """The kept names in the form of the reply: kube-scheduler sends them with prioritize next."""
    if not trace.refusals and not offered.repeated:
        return offered
    kept = trace.kept if isinstance(offered.nodes, node_sets.InternedNodes) else node_sets.NONE
    if isinstance(kept, node_sets.InternedNodes):
        return candidates.Candidates(kept, json_cache.named(kept, trace.pod.uid))
    names = offered.without(trace.refused)
    return offered.part(names, _encode(names))


def filter_reply(
    call: calls.Call,
    offered: candidates.Candidates,
    trace: verdicts.Trace,
    keep: Sequence[str] | None,
    kept: candidates.Candidates | None = None,
) -> bytes:
    """ExtenderFilterResult in the form of the request.

    Every refused node is in FailedAndUnresolvableNodes with its reason: FailedNodes can only do harm
    (extender contract, 4). ``keep``: the names to keep instead of the trace's (filter_onlyone);
    ``kept``: the result of ``kept_names``, if it is at hand.
    """
    failed = _failed(offered, trace, keep)
    if call.names is None:
        whole = _kept_nodes(call.nodes or b"{}", offered, trace, keep)
        return _filtered(whole, b"null", failed)
    names = (kept or kept_names(offered, trace)).spelled if keep is None else _encode(keep)
    return _filtered((b"null",), names, failed)


def filter_error(text: str) -> bytes:
    """ExtenderFilterResult that fails the attempt; the text becomes the pod's event."""
    return _encode(
        {
            "Nodes": None,
            "NodeNames": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": text,
        }
    )


def priority_reply(offered: candidates.Candidates, totals: Mapping[int, node_sets.Names]) -> bytes:
    """HostPriorityList: every candidate exactly once (extender contract, 6: a missing one loses ties)."""
    groups = [(nodes, score) for score, nodes in totals.items() if nodes]
    if sum(len(nodes) for nodes, _ in groups) < len(offered.nodes):
        rest = node_sets.minus(offered.nodes, node_sets.union(*totals.values())) if totals else offered.nodes
        groups.append((rest, 0))
    return b"[%b]" % b",".join(
        json_cache.scored(nodes, score, plain=offered.plain) for nodes, score in groups
    )


def bind_reply(error: str = "") -> bytes:
    """ExtenderBindingResult; an object without Error would count as success (extender contract, 8)."""
    return _encode({"Error": error})


def preempt_reply(call: calls.PreemptCall, kept: Mapping[model.NodeName, offers.Kept]) -> bytes:
    """ExtenderPreemptionResult: the meta form, no null (extender contract, 10), no node without victims.

    Added victims never lower the number of violations that was offered: kube-scheduler may have counted
    budgets that are not recorded.
    """
    return _encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in one.uids],
                    "NumPDBViolations": max(call.violations[node], one.violations or 0),
                }
                for node, one in kept.items()
            }
        }
    )


def _filtered(nodes: Iterable[bytes | msgspec.Raw], names: bytes, failed: bytes) -> bytes:
    """ExtenderFilterResult from its parts, which are copied once."""
    rest = b',"NodeNames":', names, b',"FailedNodes":{},"FailedAndUnresolvableNodes":', failed
    return b"".join((b'{"Nodes":', *nodes, *rest, b',"Error":""}'))


def _failed(offered: candidates.Candidates, trace: verdicts.Trace, keep: Sequence[str] | None) -> bytes:
    """Refused node -> reason of the first plugin, in order, that refused it."""
    groups = [(refusal.nodes, refusal.reason) for refusal in trace.refusals]
    if keep is not None:
        groups.append((offered.nodes - set(keep), "topolog: another node suits the pod better"))
    parts, seen = [], node_sets.NONE
    for nodes, sentence in groups:
        rest = node_sets.minus(nodes, seen) if seen else nodes
        if rest:
            parts.append(json_cache.refused(rest, sentence, plain=offered.plain))
            seen = node_sets.union(seen, nodes) if seen else nodes
    return b"{%b}" % b",".join(parts)


def _kept_nodes(
    raw: bytes | msgspec.Raw,
    offered: candidates.Candidates,
    trace: verdicts.Trace,
    keep: Sequence[str] | None,
) -> Sequence[bytes | msgspec.Raw]:
    """The pieces of a v1.NodeList, which may have tens of megabytes: they are not copied."""
    if keep is None and not trace.refusals and not offered.repeated:
        return (raw,)
    decoded = _decode_items(raw)
    wanted = trace.kept if keep is None else frozenset(keep)
    kept: dict[str, msgspec.Raw] = {}
    for name, item in zip(offered.names, decoded.items or (), strict=True):
        if name in wanted:
            kept.setdefault(name, item)
    pieces = [piece for item in kept.values() for piece in (b",", item)]
    return b'{"metadata":', decoded.metadata, b',"items":[', *pieces[1:], b"]}"
