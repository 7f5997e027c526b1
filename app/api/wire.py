"""kube-scheduler's JSON: k8s.io/kube-scheduler/extender/v1, read leniently in case, strictly in form.

Go writes the exported field names and reads any case; so do we. Node names are read once and spliced
back as they came where nothing was refused, and what a reply says of lasting sets of nodes is spelled
once: the replies for thousands of nodes are mostly copies.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import msgspec

from app.api import spelling
from app.domain import lasting, model, verdicts
from app.verbs import candidates

MAX_DEPTH = 64
MOST_NODES = 65_536
"""Names in one call; a cluster has fewer nodes."""
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:]{0,252}")
"""Nothing that could be taken for the end of a line, a part of a path or a hash tag."""
_FRAME = len(b'{"Pod":,"Nodes":,"NodeNames":}\n')
"""What kube-scheduler sends around the three values."""
_NOTHING = b"null"
_NULL = msgspec.Raw(_NOTHING)
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PAIRS = re.compile(rb"\[\]|\{\}")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class BadRequest(ValueError):
    """The request cannot be read; the text says what and where."""


class _Args(msgspec.Struct, rename="pascal", gc=False):
    pod: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    nodes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    node_names: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _NodeHead(msgspec.Struct, gc=False):
    class Metadata(msgspec.Struct, gc=False):
        name: str

    metadata: Metadata


class _NodeHeads(msgspec.Struct):
    items: list[_NodeHead] | None = None


class _NodeItems(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


class Call(msgspec.Struct):
    """The arguments of filter and prioritize, not yet looked into."""

    pod: bytes
    """JSON of a v1.Pod."""
    names: bytes | None
    """JSON list of node names, if the caller keeps nodes itself (nodeCacheCapable)."""
    nodes: bytes | msgspec.Raw | None
    """JSON of a v1.NodeList, if it does not: a part of the body, which is too large to copy."""


class BindCall(msgspec.Struct):
    """The arguments of bind."""

    name: str
    namespace: str
    uid: str
    node: str


class PreemptCall(msgspec.Struct):
    """The arguments of preempt: the pod's JSON, and for each node its victims and PDB violations."""

    pod: bytes
    victims: dict[model.NodeName, tuple[model.Uid, ...]]
    violations: dict[model.NodeName, int]


_decode_args = msgspec.json.Decoder(_Args).decode
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_heads = msgspec.json.Decoder(_NodeHeads).decode
_decode_items = msgspec.json.Decoder(_NodeItems).decode
_decode_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def call(body: bytes) -> Call:
    """The parts of a filter or prioritize request. Raises BadRequest."""
    try:
        args = _decode_args(body)
        pod, nodes, names = args.pod, args.nodes, args.node_names
        if pod is msgspec.UNSET or nodes is msgspec.UNSET or names is msgspec.UNSET:
            folded = _folded(body)
            pod, nodes, names = (folded.get(key, _NULL) for key in ("pod", "nodes", "nodenames"))
        else:
            if len(body) - sum(memoryview(part).nbytes for part in (pod, nodes, names)) > _FRAME:
                # There is more than the three keys: look whether one of them comes twice, and how deep it is.
                _refuse_depth(body)
                _refuse_duplicates(_decode_pairs(body))
    except (ValueError, RecursionError) as error:
        bad(error)
    return Call(
        pod=_given(bytes(pod)) or b"",
        names=_given(bytes(names)),
        nodes=nodes if memoryview(nodes).nbytes > len(_NOTHING) else _given(bytes(nodes)),
    )


def bind_call(body: bytes) -> BindCall:
    """The arguments of a bind request. Raises BadRequest."""
    fields = _folded_values(body)
    texts = [fields.get(key, "") for key in ("podname", "podnamespace", "poduid", "node")]
    spelled = zip(("PodName", "PodNamespace", "PodUID", "Node"), texts, strict=True)
    name, namespace, uid, node = (_name(text, key) for key, text in spelled)
    return BindCall(name=name, namespace=namespace, uid=uid, node=node)


def preempt_call(body: bytes) -> PreemptCall:
    """The arguments of a preempt request, in either form. Raises BadRequest."""
    try:
        folded = _folded(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    pod = _given(bytes(folded.get("pod", _NULL))) or b""
    meta = _given(bytes(folded.get("nodenametometavictims", _NULL)))
    full = _given(bytes(folded.get("nodenametovictims", _NULL)))
    victims: dict[str, tuple[str, ...]] = {}
    violations: dict[str, int] = {}
    for node, listed in _folded_values(meta or full or b"{}", fold=False).items():
        _name(node, "the name of a node")
        entry = {str(k).lower(): v for k, v in listed.items()} if isinstance(listed, dict) else {}
        pods, pdbs = entry.get("pods") or [], entry.get("numpdbviolations", 0)
        if not isinstance(pods, list) or type(pdbs) is not int or not -(2**63) <= pdbs < 2**63:
            raise BadRequest(f"victims of node {node}: Pods must be a list, NumPDBViolations a number")
        victims[node] = tuple(_victim_uid(item, meta=meta is not None) for item in pods)
        violations[node] = pdbs
    return PreemptCall(pod=pod, victims=victims, violations=violations)


def check_object(raw: bytes) -> None:
    """Refuse what Go would read differently from us: too deep, or a key given twice. Raises BadRequest."""
    try:
        # What is spelled as we would spell it holds every key once: that needs no Python code for each.
        usual = _encode(_decode(raw)) == raw
    except (ValueError, RecursionError) as error:
        bad(error)
    if usual and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return
    _refuse_depth(raw)
    if usual:
        return
    try:
        _decode_pairs(raw)
    except (ValueError, RecursionError) as error:
        bad(error)


def names_of(raw: bytes, everywhere: verdicts.Names = verdicts.NONE) -> candidates.Candidates:
    """Candidates from a JSON list of names; ``everywhere`` are all nodes. Raises BadRequest."""
    try:
        found = candidates.Candidates(_decode_names(raw), raw, everywhere=everywhere)
    except (ValueError, RecursionError) as error:
        bad(error)
    _refuse_unfit(found, everywhere)
    if found.nodes is everywhere and not found.repeated:
        # The order of all nodes means nothing, and thousands of names less are kept.
        found.names = everywhere
    return found


def nodes_of(raw: bytes | msgspec.Raw, everywhere: verdicts.Names = verdicts.NONE) -> candidates.Candidates:
    """Candidates from a v1.NodeList: only the names are looked at, the state is in the log."""
    try:
        heads = _decode_heads(raw)
    except (ValueError, RecursionError) as error:
        bad(error)
    names = [head.metadata.name for head in heads.items or ()]
    found = candidates.Candidates(names, everywhere=everywhere)
    _refuse_unfit(found, everywhere)
    return found


# -- replies -------------------------------------------------------------------------------------


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
    asked: Call,
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


def preempt_reply(asked: PreemptCall, kept: Sequence[model.NodeName]) -> bytes:
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


# -- inside --------------------------------------------------------------------------------------


def bad(error: Exception) -> NoReturn:
    """Turn a decoder's complaint into a BadRequest."""
    text = "nested too deep" if isinstance(error, RecursionError) else str(error)
    raise BadRequest(f"the body is not the JSON that is expected: {text}") from error


def _given(raw: bytes) -> bytes | None:
    spelled = raw.strip()
    return None if spelled == _NOTHING else spelled


def _folded(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level values by lower-case key; refuses a key that comes twice, and what is too deep."""
    found = _decode_raw_object(body)
    _refuse_depth(body)
    _refuse_duplicates(_decode_pairs(body))
    return {key.lower(): raw for key, raw in found.items()}


def _folded_values(body: bytes, *, fold: bool = True) -> dict[str, object]:
    try:
        msgspec.json.decode(body)
        _refuse_depth(body)
        pairs = _decode_pairs(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    if not isinstance(pairs, dict):
        raise BadRequest("the body must be a JSON object")
    return {key.lower(): value for key, value in pairs.items()} if fold else pairs


def _refuse_depth(raw: bytes) -> None:
    """For JSON that can be read: Python itself refuses some depth, another one in each version."""
    brackets = _STRINGS.sub(b"", raw).translate(None, _NOT_BRACKETS)
    depth = 0
    while brackets:
        shorter = _PAIRS.sub(b"", brackets)
        depth += 1
        if depth > MAX_DEPTH or len(shorter) == len(brackets):
            raise BadRequest(f"JSON is nested more than {MAX_DEPTH} deep")
        brackets = shorter


def _decode_pairs(raw: bytes) -> object:
    return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return found


def _refuse_duplicates(value: object) -> None:
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    lowered = [key.lower() for key in value]
    if len(set(lowered)) != len(lowered):
        raise ValueError("a key is given twice in different case")


def _victim_uid(item: object, *, meta: bool) -> str:
    found = item if isinstance(item, dict) else {}
    if not meta:
        metadata = found.get("metadata")
        found = metadata if isinstance(metadata, dict) else {}
    return _name(
        next((value for key, value in found.items() if key.lower() == "uid"), None), "a victim's UID"
    )


def _name(text: object, what: str) -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        shown = repr(text[:80]) if isinstance(text, str) else type(text).__name__
        raise BadRequest(
            f"{what} must be a name of at most 253 letters, digits and -._: characters, not {shown}"
        )
    return text


def _refuse_unfit(found: candidates.Candidates, everywhere: verdicts.Names) -> None:
    """Refuse names that no node can have; those of known nodes were looked at when they became known."""
    if found.nodes is everywhere:
        return
    if len(found.names) > MOST_NODES:
        raise BadRequest(f"{len(found.names)} nodes are offered; at most {MOST_NODES} are taken")
    for name in found.nodes - everywhere:
        _name(name, "the name of a node")


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
