"""kube-scheduler's JSON: k8s.io/kube-scheduler/extender/v1, read leniently in case, strictly in form.

Go writes the exported field names and reads any case; so do we. Node names are read once and spliced
back as they came where nothing was refused, and what a reply says of lasting sets of nodes is spelled
once: the replies for thousands of nodes are mostly copies.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NoReturn

import msgspec

from app.domain import lasting, model, verdicts
from app.verbs import candidates

MAX_DEPTH = 64
_FRAME = len(b'{"Pod":,"Nodes":,"NodeNames":}\n')
"""What kube-scheduler sends around the three values."""
_FILTERED = b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":{},"FailedAndUnresolvableNodes":%b,"Error":""}'
_FRAGMENTS = 32
"""Spelled parts of replies that are kept: each may be a few hundred KB for 5,000 nodes."""
_NULL = b"null"
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
    nodes: bytes | None
    """JSON of a v1.NodeList, if it does not."""


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
_encode = msgspec.json.Encoder().encode


def call(body: bytes) -> Call:
    """The parts of a filter or prioritize request. Raises BadRequest."""
    try:
        args = _decode_args(body)
        pod, nodes, names = args.pod, args.nodes, args.node_names
        if pod is msgspec.UNSET or nodes is msgspec.UNSET or names is msgspec.UNSET:
            folded = _folded(body)
            parts = [bytes(folded.get(key, _NULL)) for key in ("pod", "nodes", "nodenames")]
        else:
            parts = [bytes(pod), bytes(nodes), bytes(names)]
            if len(body) - sum(map(len, parts)) > _FRAME:
                # There is more than the three keys: look whether one of them comes twice.
                _refuse_duplicates(_decode_pairs(body))
    except (ValueError, RecursionError) as error:
        bad(error)
    return Call(pod=_given(parts[0]) or b"", names=_given(parts[2]), nodes=_given(parts[1]))


def bind_call(body: bytes) -> BindCall:
    """The arguments of a bind request. Raises BadRequest."""
    fields = _folded_values(body)
    texts = [fields.get(key, "") for key in ("podname", "podnamespace", "poduid", "node")]
    for key, text in zip(("PodName", "PodNamespace", "PodUID", "Node"), texts, strict=True):
        if not isinstance(text, str) or not text:
            raise BadRequest(f"{key} must be a non-empty string")
    name, namespace, uid, node = (str(text) for text in texts)
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
        entry = {str(k).lower(): v for k, v in listed.items()} if isinstance(listed, dict) else {}
        pods, pdbs = entry.get("pods") or [], entry.get("numpdbviolations", 0)
        if not isinstance(pods, list) or not isinstance(pdbs, int):
            raise BadRequest(f"victims of node {node}: Pods must be a list, NumPDBViolations a number")
        victims[node] = tuple(uid for item in pods if (uid := _victim_uid(item, meta=meta is not None)))
        violations[node] = pdbs
    return PreemptCall(pod=pod, victims=victims, violations=violations)


def check_object(raw: bytes) -> None:
    """Refuse what Go would read differently from us: too deep, or a key given twice. Raises BadRequest."""
    brackets = _STRINGS.sub(b"", raw).translate(None, _NOT_BRACKETS)
    depth = 0
    while brackets:
        shorter = _PAIRS.sub(b"", brackets)
        depth += 1
        if depth > MAX_DEPTH or len(shorter) == len(brackets):
            raise BadRequest(f"JSON is nested more than {MAX_DEPTH} deep")
        brackets = shorter
    try:
        _decode_pairs(raw)
    except (ValueError, RecursionError) as error:
        bad(error)


def names_of(raw: bytes, everywhere: verdicts.Names = verdicts.NONE) -> candidates.Candidates:
    """Candidates from a JSON list of names; ``everywhere`` are all nodes. Raises BadRequest."""
    try:
        return candidates.Candidates(_decode_names(raw), raw, everywhere=everywhere)
    except (ValueError, RecursionError) as error:
        bad(error)


def nodes_of(raw: bytes) -> candidates.Candidates:
    """Candidates from a v1.NodeList: only the names are looked at, the state is in the log."""
    try:
        heads = _decode_heads(raw)
    except (ValueError, RecursionError) as error:
        bad(error)
    return candidates.Candidates([head.metadata.name for head in heads.items or ()])


# -- replies -------------------------------------------------------------------------------------


def told(offered: candidates.Candidates, trace: verdicts.Trace) -> candidates.Candidates:
    """The kept names, spelled as the reply spells them: that is what prioritize will be asked about."""
    if not trace.refusals and not offered.repeated:
        return offered
    kept = trace.kept if isinstance(offered.nodes, lasting.Lasting) else verdicts.NONE
    if isinstance(kept, lasting.Lasting):
        return candidates.Candidates(kept, _rotated(_named(kept), trace.pod.uid))
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
        return _FILTERED % (whole, b"null", failed)
    names = (kept or told(offered, trace)).spelled if keep is None else _encode(keep)
    return _FILTERED % (b"null", names, failed)


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
    return b"[%b]" % b",".join(_scored(nodes, score, plain=offered.plain) for nodes, score in groups)


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
    return None if spelled == _NULL else spelled


def _folded(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level values by lower-case key; refuses a key that comes twice."""
    _refuse_duplicates(_decode_pairs(body))
    return {key.lower(): raw for key, raw in _decode_raw_object(body).items()}


def _folded_values(body: bytes, *, fold: bool = True) -> dict[str, object]:
    try:
        msgspec.json.decode(body)
        pairs = _decode_pairs(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    if not isinstance(pairs, dict):
        raise BadRequest("the body must be a JSON object")
    return {key.lower(): value for key, value in pairs.items()} if fold else pairs


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
    if not isinstance(item, dict):
        return ""
    if meta:
        return next((str(value) for key, value in item.items() if key.lower() == "uid"), "")
    metadata = item.get("metadata")
    return str(metadata.get("uid", "")) if isinstance(metadata, dict) else ""


def _failed(offered: candidates.Candidates, trace: verdicts.Trace, keep: Sequence[str] | None) -> bytes:
    """Refused node -> its sentence: that of the first plugin in order that refused it."""
    groups = [(refusal.nodes, refusal.reason) for refusal in trace.refusals]
    if keep is not None:
        groups.append((offered.nodes - set(keep), "topolog: another node suits the pod better"))
    parts, seen = [], verdicts.NONE
    for nodes, sentence in groups:
        rest = lasting.minus(nodes, seen) if seen else nodes
        if rest:
            parts.append(_refused(rest, sentence, plain=offered.plain))
            seen = lasting.union(seen, nodes) if seen else nodes
    return b"{%b}" % b",".join(parts)


def _refused(nodes: verdicts.Names, sentence: str, *, plain: bool) -> bytes:
    """``"node":"sentence"``, for each node."""
    if isinstance(nodes, lasting.Lasting):
        return _refused_lasting(nodes, sentence)
    if plain:
        tail = '":' + _encode(sentence).decode()
        return ('"' + f'{tail},"'.join(nodes) + tail).encode()
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


def _scored(nodes: verdicts.Names, score: int, *, plain: bool) -> bytes:
    """``{"Host":"node","Score":score}``, for each node."""
    if isinstance(nodes, lasting.Lasting):
        return _scored_lasting(nodes, score)
    if plain:
        tail = f'","Score":{score}}}'
        return ('{"Host":"' + f'{tail},{{"Host":"'.join(nodes) + tail).encode()
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]


@lru_cache(_FRAGMENTS)
def _refused_lasting(nodes: lasting.Lasting, sentence: str) -> bytes:
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


@lru_cache(_FRAGMENTS)
def _scored_lasting(nodes: lasting.Lasting, score: int) -> bytes:
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]


@lru_cache(_FRAGMENTS)
def _named(nodes: lasting.Lasting) -> bytes:
    return _encode(list(nodes))


def _rotated(spelled: bytes, uid: model.Uid) -> bytes:
    """The list of names, begun at another one for each pod.

    Where scores are missing kube-scheduler takes the first of the list (extender-contract-checked C8):
    it must not be the same node each time.
    """
    at = spelled.find(b'","', zlib.crc32(uid.encode(errors="replace")) % len(spelled))
    return spelled if at < 0 else b'["%b,%b]' % (spelled[at + 3 : -1], spelled[1 : at + 1])


def _kept_nodes(
    raw: bytes, offered: candidates.Candidates, trace: verdicts.Trace, keep: Sequence[str] | None
) -> bytes:
    if keep is None and not trace.refusals and not offered.repeated:
        return raw
    decoded = _decode_items(raw)
    wanted = set(offered.without(trace.refused) if keep is None else keep)
    kept: dict[str, bytes] = {}
    for name, item in zip(offered.names, decoded.items or (), strict=True):
        if name in wanted:
            kept.setdefault(name, bytes(item))
    return b'{"metadata":%b,"items":[%b]}' % (bytes(decoded.metadata), b",".join(kept.values()))
