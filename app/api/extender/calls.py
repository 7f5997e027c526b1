"""Decodes the requests of kube-scheduler (k8s.io/kube-scheduler/extender/v1): any case, strict form.

Go writes the exported field names and reads them in any case; so does this module. Node names are decoded
once and kept in the form in which they were sent: most replies splice them back.
"""

import itertools
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from app.api.extender import strict_json
from app.domain import model, node_sets
from app.verbs import candidates

MAX_NODES = 16_384
"""Nodes that a call may offer where fewer than half as many are recorded: names take up to four times their
bytes, so that the limit of a small cluster bounds the memory of a hostile call."""
_LEAST_OBJECT = 128
"""Bytes of a body for each object with metadata in it, at least, if an API server has stored the object."""
_LEAST_NAMED = 40
"""Bytes for each node and each victim of the meta form, at least: a UID of an API server has 36."""
_FEW = 4_096
"""Nodes or pods that may be smaller, as those of tests and of people are."""
_UNCOUNTED = 256 * 1024
"""Bytes of names that are decoded before they are counted: they take 6 MB at most."""
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:]{0,252}")
"""Excludes line ends, path separators and hash tags of Redis keys."""
_FRAME = len(b'{"Pod":,"Nodes":,"NodeNames":}\n')
"""The bytes that kube-scheduler sends around the three values."""
_NOTHING = b"null"
_NULL = msgspec.Raw(_NOTHING)


class _Args(msgspec.Struct, rename="pascal", gc=False):
    pod: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    nodes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    node_names: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _PreemptArgs(msgspec.Struct, rename="pascal", gc=False):
    pod: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    node_name_to_victims: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    node_name_to_meta_victims: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _NodeHead(msgspec.Struct, gc=False):
    class Metadata(msgspec.Struct, gc=False):
        name: str

    metadata: Metadata


class _NodeHeads(msgspec.Struct):
    items: list[_NodeHead] | None = None


class _VictimHead(msgspec.Struct, gc=False):
    class Metadata(msgspec.Struct, gc=False):
        uid: str

    metadata: Metadata


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Victims(msgspec.Struct):
    pods: list[_VictimHead] | None = msgspec.field(name="Pods")
    violations: _Int64 = msgspec.field(name="NumPDBViolations")


class _MetaPod(msgspec.Struct, gc=False):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct):
    pods: list[_MetaPod] | None = msgspec.field(name="Pods")
    violations: _Int64 = msgspec.field(name="NumPDBViolations")


class Call(msgspec.Struct):
    """The arguments of filter and prioritize, not decoded yet."""

    pod: bytes
    """JSON of a v1.Pod."""
    names: bytes | None
    """JSON list of node names; None unless the extender is nodeCacheCapable."""
    nodes: bytes | msgspec.Raw | None
    """JSON of a v1.NodeList; None if it is. A view of the body, which is too large to copy."""

    @property
    def whole(self) -> bool:
        """Whole nodes were sent."""
        return self.nodes is not None


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
    whole: bool
    """The victims were sent as whole pods."""


_decode_args = msgspec.json.Decoder(_Args).decode
_decode_preempt = msgspec.json.Decoder(_PreemptArgs).decode
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_heads = msgspec.json.Decoder(_NodeHeads).decode
_decode_victims = msgspec.json.Decoder(dict[str, _Victims]).decode
_decode_meta_victims = msgspec.json.Decoder(dict[str, _MetaVictims]).decode


def call(body: bytes) -> Call:
    """The parts of a filter or prioritize request. Raises BadRequest."""
    try:
        args = _decode_args(body)
        pod, nodes, names = args.pod, args.nodes, args.node_names
        if pod is msgspec.UNSET or nodes is msgspec.UNSET or names is msgspec.UNSET:
            folded = strict_json.folded(body)
            pod, nodes, names = (folded.get(key, _NULL) for key in ("pod", "nodes", "nodenames"))
        elif len(body) - sum(memoryview(part).nbytes for part in (pod, nodes, names)) > _FRAME:
            # There are other keys: check them for repetition and depth.
            strict_json.refuse_ambiguous(body, {"Pod": pod, "Nodes": nodes, "NodeNames": names})
    except (ValueError, RecursionError) as error:
        strict_json.bad(error)
    found = Call(
        pod=_given(bytes(pod)) or b"",
        names=_given(bytes(names)),
        nodes=nodes if memoryview(nodes).nbytes > len(_NOTHING) else _given(bytes(nodes)),
    )
    if found.whole:
        _refuse_dense(body, "nodes")
    return found


def bind_call(body: bytes) -> BindCall:
    """The arguments of a bind request. Raises BadRequest."""
    fields = strict_json.folded(body)
    texts = [strict_json.text(fields.get(key)) for key in ("podname", "podnamespace", "poduid", "node")]
    spelled = zip(("PodName", "PodNamespace", "PodUID", "Node"), texts, strict=True)
    name, namespace, uid, node = (_name(text, key) for key, text in spelled)
    return BindCall(name=name, namespace=namespace, uid=uid, node=node)


def preempt_call(body: bytes, everywhere: node_sets.Names = node_sets.NONE) -> PreemptCall:
    """The arguments of a preempt request, with full or meta victims; ``everywhere`` are all nodes.

    Raises BadRequest.
    """
    raw, full, spelled = _preempt_parts(body)
    pod = _given(bytes(raw)) or b""
    meta = memoryview(spelled).nbytes > len(_NOTHING)
    _refuse_more(body, b"NumPDBViolations", _most(everywhere), "nodes")
    offered = _meta(spelled) if meta else _whole(body, full)
    _refuse_unnamed(offered, "the name of a node")
    return PreemptCall(
        pod=pod,
        victims={node: uids for node, (uids, _) in offered.items()},
        violations={node: violations for node, (_, violations) in offered.items()},
        whole=not meta and memoryview(full).nbytes > len(_NOTHING),
    )


_Offered = dict[str, tuple[tuple[str, ...], int]]
"""Node -> the UIDs of its victims, and how many of them violate a PodDisruptionBudget."""


def _whole(body: bytes, raw: msgspec.Raw) -> _Offered:
    """Victims that are whole pods, of which only the UIDs are read, as the state is in the log."""
    _refuse_dense(body, "victims")
    try:
        found = _decode_victims(raw)
    except msgspec.ValidationError:
        return _any_case(_given(bytes(raw)) or b"{}", meta=False)
    except (ValueError, RecursionError) as error:
        strict_json.bad(error)
    offered = {
        node: (tuple([head.metadata.uid for head in one.pods or ()]), one.violations)
        for node, one in found.items()
    }
    for uids, _ in offered.values():
        _refuse_unnamed(uids, "a victim's UID")
    return offered


def _meta(raw: msgspec.Raw) -> _Offered:
    """Victims that are UIDs; other keys, and other spellings, are for few of them."""
    spelled = bytes(raw)
    limit = max(_FEW, len(spelled) // _LEAST_NAMED)
    if strict_json.occurrences(spelled, b"{") > limit:
        raise _too_many(limit, "victims", len(spelled))
    strict_json.refuse_wide(spelled)
    try:
        found = _decode_meta_victims(raw)
    except msgspec.ValidationError:
        return _any_case(spelled, meta=True)
    except (ValueError, RecursionError) as error:
        strict_json.bad(error)
    offered = {
        node: (tuple([pod.uid for pod in one.pods or ()]), one.violations) for node, one in found.items()
    }
    # A key that is unknown, or was given before, has a colon more than the keys that were decoded.
    if strict_json.occurrences(spelled, b":") != 3 * len(offered) + sum(
        len(uids) for uids, _ in offered.values()
    ):
        return _any_case(spelled, meta=True)
    for uids, _ in offered.values():
        _refuse_unnamed(uids, "a victim's UID")
    return offered


def _any_case(raw: bytes, *, meta: bool) -> _Offered:
    """Victims whose keys may have any case; ``meta``: they are UIDs, not pods."""
    found: _Offered = {}
    for node, listed in strict_json.named(raw).items():
        entry = {str(k).lower(): v for k, v in listed.items()} if isinstance(listed, dict) else {}
        pods, pdbs = entry.get("pods") or [], entry.get("numpdbviolations", 0)
        if not isinstance(pods, list) or type(pdbs) is not int or not -(2**63) <= pdbs < 2**63:
            raise _unfit(node)
        found[node] = tuple([_name(_uid(item, meta=meta), "a victim's UID") for item in pods]), pdbs
    return found


def _unfit(node: str) -> strict_json.BadRequest:
    return strict_json.BadRequest(f"victims of node {node}: Pods must be a list, NumPDBViolations a number")


def _preempt_parts(body: bytes) -> tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw]:
    """The pod, the full victims, and the meta victims (UIDs)."""
    try:
        args = _decode_preempt(body)
        found = {key: value for key, value in _spelled(args) if value is not msgspec.UNSET}
        if "Pod" in found and len(found) > 1:
            strict_json.refuse_ambiguous(body, found)
            keys = ("Pod", "NodeNameToVictims", "NodeNameToMetaVictims")
        else:
            found = strict_json.folded(body)
            keys = ("pod", "nodenametovictims", "nodenametometavictims")
    except (ValueError, RecursionError) as error:
        strict_json.bad(error)
    pod, full, meta = (found.get(key, _NULL) for key in keys)
    return pod, full, meta


def _spelled(args: _PreemptArgs) -> tuple[tuple[str, msgspec.Raw | msgspec.UnsetType], ...]:
    return (
        ("Pod", args.pod),
        ("NodeNameToVictims", args.node_name_to_victims),
        ("NodeNameToMetaVictims", args.node_name_to_meta_victims),
    )


def _most(everywhere: node_sets.Names) -> int:
    """How many nodes a call may offer: the latest ones of a cluster may not be recorded yet."""
    return max(MAX_NODES, 2 * len(everywhere))


def names_of(raw: bytes, everywhere: node_sets.Names = node_sets.NONE) -> candidates.Candidates:
    """Candidates from a JSON list of names; ``everywhere`` are all nodes. Raises BadRequest."""
    limit = _most(everywhere)
    # Counting takes a third of the time of decoding. Each name takes three bytes at least.
    uncounted = max(3 * limit, _UNCOUNTED)
    if len(raw) > uncounted and (offered := strict_json.occurrences(raw, b",") + 1) > limit:
        raise strict_json.BadRequest(f"{offered} nodes are offered; the limit is {limit}")
    strict_json.refuse_wide(raw)
    try:
        found = candidates.Candidates(_decode_names(raw), raw, everywhere=everywhere)
    except (ValueError, RecursionError) as error:
        strict_json.bad(error)
    _refuse_unfit(found, everywhere)
    if found.nodes is everywhere and not found.repeated:
        # The order of all nodes has no meaning: keep the shared set, not thousands of names.
        found.names = everywhere
    return found


def nodes_of(raw: bytes | msgspec.Raw, everywhere: node_sets.Names = node_sets.NONE) -> candidates.Candidates:
    """Candidates from a v1.NodeList: only the names are read, as the state is in the log."""
    try:
        heads = _decode_heads(raw)
    except (ValueError, RecursionError) as error:
        strict_json.bad(error)
    names = [head.metadata.name for head in heads.items or ()]
    found = candidates.Candidates(names, everywhere=everywhere, whole=True)
    _refuse_unfit(found, everywhere)
    return found


def _given(raw: bytes) -> bytes | None:
    spelled = raw.strip()
    return None if spelled == _NOTHING else spelled


def _uid(item: object, *, meta: bool) -> object:
    found = item if isinstance(item, dict) else {}
    if not meta:
        metadata = found.get("metadata")
        found = metadata if isinstance(metadata, dict) else {}
    return next((value for key, value in found.items() if key.lower() == "uid"), None)


def _name(text: object, what: str) -> str:
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        shown = repr(text[:80]) if isinstance(text, str) else "another value"
        raise strict_json.BadRequest(
            f"{what} must be a name of at most 253 letters, digits and -._: characters, not {shown}"
        )
    return text


def _refuse_unnamed(names: Iterable[str], what: str) -> None:
    for unfit in itertools.filterfalse(_NAME.fullmatch, names):
        _name(unfit, what)


def _refuse_unfit(found: candidates.Candidates, everywhere: node_sets.Names) -> None:
    """Refuse invalid node names; those of recorded nodes were checked when they were recorded."""
    if len(found.names) > (limit := _most(everywhere)):
        raise strict_json.BadRequest(f"{len(found.names)} nodes are offered; the limit is {limit}")
    if found.nodes is everywhere or isinstance(found.nodes, node_sets.Subset):
        return
    # In the offered order, which is that in memory: in the order of a set it takes twice the time.
    _refuse_unnamed(itertools.filterfalse(everywhere.__contains__, found.names), "the name of a node")


def _refuse_dense(body: bytes, what: str) -> None:
    """Refuse more whole nodes or pods than fit into the body, if an API server has stored them."""
    _refuse_more(body, b"metadata", max(_FEW, len(body) // _LEAST_OBJECT), what)


def _refuse_more(body: bytes, key: bytes, limit: int, what: str) -> None:
    """Refuse more objects with this key before they are decoded: small ones take many times their bytes."""
    if len(body) > limit * len(key) and strict_json.has_more(body, key, limit):
        raise _too_many(limit, what, len(body))


def _too_many(limit: int, what: str, size: int) -> strict_json.BadRequest:
    return strict_json.BadRequest(f"more than {limit} {what} are offered, the limit for {size} bytes")
