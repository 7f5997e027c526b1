"""A kind that no plugin of this version declares, in two versions of its API, and counters over it."""

from collections.abc import Iterator

import msgspec

from app.domain import declared_objects, model, schema
from tests.support import declared


class Gadget(model.DeclaredObject, frozen=True):
    """What is kept of a gadget."""

    size: int = 1


class _Manifest(msgspec.Struct):
    metadata: dict[str, object]
    spec: dict[str, int] = {}


def decode(raw: bytes | msgspec.Raw) -> Gadget:
    """A gadget; raises ValueError if its metadata cannot be read."""
    found = msgspec.json.decode(raw, type=_Manifest)
    named = {name: str(found.metadata.get(name, "")) for name in ("uid", "namespace", "name")}
    if not named["uid"] or not named["name"]:
        raise ValueError("no uid or no name")
    return Gadget(size=found.spec.get("size", 1), **named)


GADGETS = declared_objects.Kind(
    name="gadgets",
    group="example.org",
    versions=("v2", "v1"),
    resource="gadgets",
    manifest="Gadget",
    type=Gadget,
    decode=decode,
    moves=lambda _: ("gadgets-anywhere:",),
)


def kib(pod: model.Pod) -> int:
    """The requested memory, rounded up to KiB."""
    return -(-pod.requests.get("memory", 0) // 1024)


def _sizes(
    pod: model.Pod, node: model.Node, objects: declared_objects.Objects
) -> Iterator[tuple[schema.CountKey, int]]:
    if not pod.finished:
        for gadget in objects.within(GADGETS, pod.namespace).values():
            yield f"sizes|{gadget.key}|{node.name}", gadget.size * kib(pod)


def _shares(
    pod: model.Pod, node: model.Node, objects: declared_objects.Objects
) -> Iterator[tuple[schema.CountKey, int]]:
    """Twice the same key, on purpose; every gadget alters it, of whatever namespace."""
    if not pod.finished:
        yield f"shares|{node.labels.get('zone', '')}", kib(pod) * len(objects.all(GADGETS))
        yield f"shares|{node.labels.get('zone', '')}", 1


SIZES = schema.Counter(
    family="sizes",
    form=1,
    contributions=_sizes,
    pod_fields=("namespace", "phase", "requests"),
    node_fields=("name",),
    depends_on=(
        schema.Dependency(
            kind=GADGETS,
            reads=lambda gadget: gadget.size,
            additive=True,
        ),
    ),
)
SHARES = schema.Counter(
    family="shares",
    form=1,
    contributions=_shares,
    pod_fields=("phase", "requests"),
    depends_on=(
        schema.Dependency(
            kind=GADGETS,
            reads=lambda gadget: True,
            reach="cluster",
        ),
    ),
)
SCHEMA = schema.Schema((*declared.SCHEMA.kinds, GADGETS), (*declared.SCHEMA.counters, SIZES, SHARES))
"""This version's schema, and gadgets."""
