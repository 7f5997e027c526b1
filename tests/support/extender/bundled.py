"""Bundles of a world, and worlds of a bundle."""

import contextlib
import functools
import gzip
import hashlib
import io
import json
import secrets
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

from app import plugins, settings
from app.framework import registry_builder
from app.store import stores
from app.store.bundles import bundle_restorer, layout, pseudonymizer, pseudonyms, vocabulary
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.extender import api_worlds, error_shape, random_histories

SEED, LENGTH = 11, 300


@functools.cache
def public() -> pseudonyms.Public:
    """What no pseudonym replaces; made for the first test that asks, from all modules of the product."""
    return pseudonyms.Public(
        vocabulary.words(vocabulary.PRODUCT),
        frozenset(plugin.name for plugin in plugins.IN_TREE),
        registry_builder.terms_of(plugins.IN_TREE),
    )


def lived(
    store: stores.Store,
    *,
    seed: int = SEED,
    length: int = LENGTH,
    every: int = 20,
    configured: settings.Settings | None = None,
) -> api_worlds.World:
    """A world with a random past, in which pods were decided about every so many events."""
    made = api_worlds.world(store, configured=configured)
    happened = random_histories.history(seed, length)
    # The first ones list every kind: before that nothing is decided.
    starts = [0, *range(20, len(happened), every)]
    for start, end in zip(starts, [*starts[1:], len(happened)], strict=True):
        made.append(*happened[start:end])
        snapshot = made.store.follower.catch_up()
        pods = sorted(snapshot.pods.values(), key=lambda pod: pod.name)
        new = api_worlds.pod(f"new-{start}")
        api_worlds.decide(made, *[pod for pod in pods if not pod.node][:3], new)
    return made


def exported(world: api_worlds.World, query: str = "") -> bytes:
    """The bundle of a world."""
    reply = world.client.get(f"/apis/v1/export{query}")
    assert reply.status_code == 200, reply.text
    assert reply.mimetype == "application/x-tar"
    return bytes(reply.data)


def restored(server: embedded.Server, data: bytes) -> str:
    """The name of another cluster of the server, filled with the bundle."""
    cluster = f"b{secrets.token_hex(6)}"
    with contextlib.closing(connections.connect(server.url)) as client:
        bundle_restorer.restore(io.BytesIO(data), client, declared.names(cluster), declared.SCHEMA)
    return cluster


@contextlib.contextmanager
def opened(server: embedded.Server, data: bytes) -> Iterator[api_worlds.World]:
    """The world of a bundle."""
    cluster = restored(server, data)
    store = stores.open_store(
        settings.Store(url=server.url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=api_worlds.plugins_of_the_seeds().indexed(),
    )
    store.start()
    try:
        yield api_worlds.world(store)
    finally:
        store.close()


def renamed(data: bytes) -> tuple[bytes, pseudonyms.Names]:
    """The bundle with pseudonyms, and its names."""
    out = io.BytesIO()
    _, source = pseudonymizer.names_of(io.BytesIO(data), public(), declared.SCHEMA)
    table = source.census.table("kq7x")
    pseudonymizer.write(io.BytesIO(data), out, source, table, declared.SCHEMA)
    return out.getvalue(), table


def decisions(world: api_worlds.World) -> Iterator[dict[str, Any]]:
    """All decisions, the newest first."""
    query = "limit=1000"
    while True:
        reply = error_shape.body(world.client.get(f"/apis/v1/decisions?{query}"))
        yield from reply["items"]
        if not reply["metadata"].get("continue"):
            return
        query = f"limit=1000&continue={reply['metadata']['continue']}"


def explanation(
    world: api_worlds.World, path: str, translated: Callable[[str], str] = str
) -> error_shape.Json:
    """The answer at a path of explain, but for the attempts: a bundle does not have those before it."""
    reply = world.client.get(f"/apis/v1/{path}")
    assert reply.status_code == 200, reply.text
    found = json.loads(translated(reply.text))
    for name in ("attempt", "attempts", "attemptsComplete"):
        del found[name]
    return found


def path_of(decision: dict[str, Any]) -> str:
    """The path of the explanation of a decision."""
    pod = decision["pod"]
    return f"pods/{pod['namespace']}/{pod['name']}/explain?decision={decision['id']}"


def timed(data: bytes, **times: int) -> bytes:
    """The bundle with other times in its first member, and as ``t`` in its last event; all digests fit."""
    found = members(data)
    del found[layout.MANIFEST]
    about, (head, *lines) = json.loads(found[layout.ABOUT]), found[layout.EVENTS].splitlines(keepends=True)
    if "t" in times:
        lines[-1] = json.dumps({**json.loads(lines[-1]), "t": times.pop("t")}).encode() + b"\n"
        digest = hashlib.sha256(b"".join(lines)).hexdigest()
        head = json.dumps({**json.loads(head), "sha256": digest}).encode() + b"\n"
    found[layout.ABOUT] = json.dumps({**about, **times}).encode() + b"\n"
    found[layout.EVENTS] = head + b"".join(lines)
    packer = layout.Packer(0)
    pieces = [
        piece
        for name, raw in found.items()
        for piece in packer.member(name, [gzip.compress(raw) if name.endswith(".gz") else raw])
    ]
    return b"".join((*pieces, *packer.manifest()))


def members(data: bytes) -> dict[str, bytes]:
    """Name -> content of each member, expanded."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            content: Any = tar.extractfile(member)
            raw = content.read()
            found[member.name] = gzip.decompress(raw) if member.name.endswith(".gz") else raw
    return found
