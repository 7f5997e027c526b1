"""The kinds of objects that Topolog watches: where they are, how they decode, what identifies them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from app.domain import model
from app.kube import decoding, errors, wire

PAGE = 500
"""Objects in one page of a list, as client-go asks for them."""


class Poison(NamedTuple):
    """An object that could not be understood and was set aside."""

    kind: str
    name: str
    """namespace/name as far as it could be read."""
    reason: str
    identity: str = ""
    """What the object would be known by; empty if unreadable. It exists, even if nobody understands it."""


class Page(NamedTuple):
    """A part of a list."""

    sights: list[decoding.Sight]
    poisons: list[Poison]
    version: str
    """resourceVersion of the whole list."""
    continuation: str
    """Token of the next page; empty at the last."""


@dataclass(frozen=True)
class Kind:
    """One resource of the API."""

    name: str
    path: str
    """Of the collection over all namespaces."""
    decode: Callable[[decoding.Json], tuple[decoding.Object, str]]
    identify: Callable[[str, str, str], str]
    """(namespace, name, uid) -> identity."""

    def identity(self, seen: decoding.Object) -> str:
        """What snapshots know the object by: uid of pods, name of nodes, namespace/name of policies."""
        return self.identify("" if isinstance(seen, model.Node) else seen.namespace, seen.name, seen.uid)

    def page(self, body: bytes) -> Page:
        """Decode a page; an object that is none is set aside. Raises Undecodable if the page is no list."""
        if self is PODS:
            try:
                whole = _pods.decode(body)
                sights = decoding.pods_seen(whole.items or ())
                return Page(sights, [], whole.metadata.resource_version, whole.metadata.continue_ or "")
            except (ValueError, RecursionError):
                pass  # one of them is bad: find out which
        try:
            raw = _raws.decode(body)
        except (ValueError, RecursionError) as problem:
            raise errors.Undecodable(self.name, "(list)", str(problem)) from problem
        page = Page([], [], raw.metadata.resource_version, raw.metadata.continue_ or "")
        for item in raw.items or ():
            try:
                page.sights.append(decoding.Sight(*self.decode(item)))
            except errors.Undecodable as bad:
                page.poisons.append(self.poison(item, bad))
        return page

    def poison(self, raw: decoding.Json, bad: errors.Undecodable) -> Poison:
        """What is kept of an object that cannot be decoded."""
        namespace, name, uid = decoding.identity(raw)
        return Poison(self.name, bad.name, bad.reason, self.identify(namespace, name, uid) if name else "")


_pods = msgspec.json.Decoder(wire.PodList)
_raws = msgspec.json.Decoder(wire.RawList)


def _by_uid(_namespace: str, _name: str, uid: str) -> str:
    return uid


def _by_name(_namespace: str, name: str, _uid: str) -> str:
    return name


def _by_key(namespace: str, name: str, _uid: str) -> str:
    return f"{namespace}/{name}"


PODS = Kind("pods", "/api/v1/pods", decoding.pod_seen, _by_uid)
NODES = Kind("nodes", "/api/v1/nodes", decoding.node_seen, _by_name)
POLICIES = Kind(
    "workloadpolicies", "/apis/kosmos.io/v1alpha1/workloadpolicies", decoding.policy_seen, _by_key
)
ALL = (NODES, POLICIES, PODS)
"""Nodes and policies first: pods then count as soon as they are seen."""
