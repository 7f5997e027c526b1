"""What kube-scheduler is told: k8s.io/kube-scheduler/extender/v1.

Names are spliced back as they came where nothing was refused, and what a reply says of lasting sets of
nodes is spelled once: the replies for thousands of nodes are mostly copies.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.api import calls, spelling
from app.domain import lasting, model, verdicts
from app.verbs import candidates


class _NodeItems(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


_decode_items = msgspec.json.Decoder(_NodeItems).decode
_encode = msgspec.json.Encoder().encode


def told(offered: candidates.Candidates, trace: verdicts.Trace) -> candidates.Candidates:
    """The kept names, spelled as the reply spells them: that is what prioritize will be asked about."""
    if not trace.refusals and not offered.repeated:
        return offered
    kept = trace.kept if isinstance(offered.nodes, lasting.Lasting) else verdicts.NONE
    if isinstance(kept, lasting.Lasting):
        return candidates.Candidates(kept, spelling.named(kept, trace.pod.uid))
    names = offered.without(trace.refused)
    return candidates.Candidates(names, _encode(names))


def filter_reply(
    asked: calls.Call,
    offered: candidates.Candidates,
    trace: verdicts.Trace,
    keep: Sequence[str] | None,
    kept: candidates.Candidates | None = None,
) -> bytes:
    """ExtenderFilterResult in the form of the request.

    Every refused node is in FailedAndUnresolvableNodes with its sentence: FailedNodes can only do
    harm (extender-contract-checked C4). ``keep`` overrides which names are kept (filter_onlyone);
    ``kept`` are those of ``told``, if they are at hand.
    """
    failed = _failed(offered, trace, keep)
    if asked.names is None:
        whole = _kept_nodes(asked.nodes or b"{}", offered, trace, keep)
        return _filtered(whole, b"null", failed)
    names = (kept or told(offered, trace)).spelled if keep is None else _encode(keep)
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


def priority_reply(offered: candidates.Candidates, totals: Mapping[int, verdicts.Names]) -> bytes:
    """HostPriorityList: every candidate exactly once (a missing one would lose every tie, C8)."""
    groups = [(nodes, score) for score, nodes in totals.items() if nodes]
    if sum(len(nodes) for nodes, _ in groups) < len(offered.nodes):
        rest = lasting.minus(offered.nodes, lasting.union(*totals.values())) if totals else offered.nodes
        groups.append((rest, 0))
    return b"[%b]" % b",".join(spelling.scored(nodes, score, plain=offered.plain) for nodes, score in groups)


def bind_reply(error: str = "") -> bytes:
    """ExtenderBindingResult; an object without Error would count as success (C10)."""
    return _encode({"Error": error})


def preempt_reply(asked: calls.PreemptCall, kept: Sequence[model.NodeName]) -> bytes:
    """ExtenderPreemptionResult: always the meta form, never a null (C7), never a node without victims."""
    return _encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in asked.victims[node]],
                    "NumPDBViolations": asked.violations[node],
                }
                for node in kept
            }
        }
    )


def _filtered(nodes: Iterable[bytes | msgspec.Raw], names: bytes, failed: bytes) -> bytes:
    """ExtenderFilterResult of its parts, which are copied once."""
    rest = b',"NodeNames":', names, b',"FailedNodes":{},"FailedAndUnresolvableNodes":', failed
    return b"".join((b'{"Nodes":', *nodes, *rest, b',"Error":""}'))


def _failed(offered: candidates.Candidates, trace: verdicts.Trace, keep: Sequence[str] | None) -> bytes:
    """Refused node -> its sentence: that of the first plugin in order that refused it."""
    groups = [(refusal.nodes, refusal.reason) for refusal in trace.refusals]
    if keep is not None:
        groups.append((offered.nodes - set(keep), "topolog: another node suits the pod better"))
    parts, seen = [], verdicts.NONE
    for nodes, sentence in groups:
        rest = lasting.minus(nodes, seen) if seen else nodes
        if rest:
            parts.append(spelling.refused(rest, sentence, plain=offered.plain))
            seen = lasting.union(seen, nodes) if seen else nodes
    return b"{%b}" % b",".join(parts)


def _kept_nodes(
    raw: bytes | msgspec.Raw,
    offered: candidates.Candidates,
    trace: verdicts.Trace,
    keep: Sequence[str] | None,
) -> Sequence[bytes | msgspec.Raw]:
    """The pieces of a v1.NodeList: of tens of megabytes each copy counts."""
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
