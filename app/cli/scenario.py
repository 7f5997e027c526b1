"""Reads a scheduling scenario from JSON: the pod, the candidates and a snapshot.

Objects have the form of the Kubernetes API (``kubectl get -o json``), or a short form with name, labels
and the pods on each node. Pods have the defaults of the API server (kube.objects.pod_defaults)::

    {"pod": {"name": "rl-worker-3", "labels": {"rl-job-group": "job-alpha"}},
     "nodes": [{"name": "node-1", "podsOnNode": []},
               {"name": "node-2", "podsOnNode": [{"name": "rl-worker-1",
                                                  "labels": {"rl-job-group": "job-alpha"}}]}]}
"""

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from app.domain import declared_objects, events, model, projections, snapshots
from app.domain import schema as schemas
from app.kube import errors as kube_errors
from app.kube.objects import decoding, pod_defaults

_KEYS = ("pod", "nodes", "pods")
_PODS = ("pod", "pods", "podsOnNode")
"""Where pods are."""
_SHORT = ("name", "namespace", "uid", "labels", "annotations")
_PARTS = ("apiVersion", "kind", "spec", "status")
"""Parts of the API's form that the short form of a pod or a node may have."""


class Unreadable(ValueError):
    """The file is not a valid scenario; the message names the place."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The input of a scheduling decision."""

    pod: model.Pod
    snapshot: snapshots.Snapshot

    @property
    def candidates(self) -> frozenset[model.NodeName]:
        """Every node of the file."""
        return frozenset(self.snapshot.nodes)


def read(content: bytes, *, schema: schemas.Schema, indexed: Iterable[str] = ()) -> Scenario:
    """Parse a scenario file, which may begin with the byte order mark of UTF-8. Raises Unreadable."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise Unreadable("it is empty")
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = str(error).removeprefix("JSON is malformed: ")
        raise Unreadable(f"not JSON: {place}; `kubectl get -o json` prints objects as JSON") from error
    if not isinstance(document, dict):
        optional = " and ".join(("pods", *_declared(schema)))
        raise Unreadable(f"must be an object with the keys pod and nodes, and optionally {optional}")
    keys = (*_KEYS, *_declared(schema))
    unknown = [str(key) for key in document if key not in keys]
    if unknown:
        raise Unreadable(f"unknown key {unknown[0]}; allowed keys: {', '.join(keys)}")
    if "pod" not in document:
        raise Unreadable("pod is missing: it is the pod to be placed")
    pod = _pod(_full(document["pod"], "pod"))
    try:
        snapshot = projections.project_all(
            snapshots.empty(schema=schema, indexed=indexed), [*_events(document, schema, skip=pod.uid)]
        )
    except kube_errors.Undecodable as error:
        raise Unreadable(str(error)) from error
    return Scenario(pod, snapshot)


def _pod(raw: bytes, node: str = "") -> model.Pod:
    """A pod as decoded from the watch, placed on `node` if given."""
    try:
        pod = decoding.pod(raw)
    except kube_errors.Undecodable as error:
        raise Unreadable(str(error)) from error
    return msgspec.structs.replace(pod, node=node) if node else pod


def _declared(schema: schemas.Schema) -> dict[str, declared_objects.Kind[Any]]:
    """Key of the file -> declared kind."""
    return {kind.alias or kind.name: kind for kind in schema.kinds}


def _events(
    document: dict[str, Any], schema: schemas.Schema, *, skip: model.Uid
) -> Iterator[events.AnyEvent]:
    for item in _items(document, "nodes"):
        raw = _full(item, "nodes", namespaced=False, ready=True)
        node = decoding.node(raw)
        yield events.NodeSeen(node=node)
        for resident in _list(item.get("podsOnNode"), f"podsOnNode of {node.name}"):
            yield events.PodSeen(pod=_pod(_full(resident, "podsOnNode"), node.name))
    for key, kind in _declared(schema).items():
        for item in _items(document, key):
            raw = _full(item, key, namespaced=kind.namespaced, any_part=True)
            found, _ = decoding.declared_seen(kind, raw)
            yield kind.observed(found)
    for item in _items(document, "pods"):
        pod = _pod(_full(item, "pods"))
        if pod.uid != skip:  # a list of all pods contains the pod itself
            yield events.PodSeen(pod=pod)


def _items(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = document.get(key)
    if isinstance(found, dict) and "items" in found:  # a List, the output of kubectl
        found = found["items"]
    return _list(found, key)


def _list(found: object, where: str) -> list[dict[str, Any]]:
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise Unreadable(f"{where} must be a list of objects")
    return found


def _full(
    item: object, where: str, *, namespaced: bool = True, ready: bool = False, any_part: bool = False
) -> bytes:
    """The object in the API's form: expands the short form and derives a missing uid from the name."""
    if not isinstance(item, dict):
        raise Unreadable(f"{where} must be an object")
    if "metadata" not in item:
        allowed = (*_SHORT, *_PARTS, *(("podsOnNode",) if where == "nodes" else ()))
        unknown = [str(key) for key in item if key not in allowed]
        if unknown and not any_part:
            raise Unreadable(f"unknown key {unknown[0]} in {where}; allowed keys: {', '.join(allowed)}")
        short = {key: item[key] for key in _SHORT if key in item}
        rest = {key: value for key, value in item.items() if key not in (*_SHORT, "podsOnNode")}
        status = {"conditions": [{"type": "Ready", "status": "True"}]} if ready else {"phase": "Running"}
        item = {"status": status, **rest, "metadata": short}
    metadata = item["metadata"]
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise Unreadable(f"an object in {where} has no name")
    if where in _PODS:
        item = pod_defaults.defaulted(item)
    spelled = {"namespace": "default", **metadata} if namespaced else dict(metadata)
    spelled.setdefault("uid", f"{spelled.get('namespace', '')}:{spelled['name']}")
    return msgspec.json.encode({**item, "metadata": spelled})
