"""Opening a store: from settings to everything that works on it."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import redis

from app import settings
from app.store import (
    archives,
    beginnings,
    checkpoints,
    connecting,
    decisions,
    embedded,
    errors,
    folding,
    following,
    histories,
    incarnations,
    keys,
    lineages,
    logs,
    readers,
    vetting,
    weighing,
)
from migrations import running

_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 1.0
_LIBRARIES = ("current", "outdated", "missing")


def library() -> str:
    """The text of the functions that this version needs in the server."""
    return resources.files("app.store").joinpath("functions", "topolog.lua").read_text()


@dataclass(frozen=True, slots=True)
class Store:
    """One cluster's store, opened. The follower and the decisions' writer are not started yet."""

    client: redis.Redis
    keys: keys.Keys
    log: logs.Log
    follower: following.Follower
    histories: histories.Histories
    decisions: decisions.Decisions
    checkpoints: checkpoints.Checkpoints
    beginnings: beginnings.Beginnings
    vetting: vetting.Vetting
    scale: weighing.Scale
    archive: archives.Archive | None = None
    """What the log no longer holds; None if nothing is archived."""
    server: embedded.Server | None = None
    """The embedded server, if this process started one."""

    def start(self) -> None:
        """Start the threads: after a fork, never before."""
        self.follower.start()
        self.decisions.start()

    def close(self) -> None:
        """Stop the threads, close the connections, end an embedded server."""
        self.decisions.stop()
        self.follower.stop()
        self.log.close()
        self.client.close()
        if self.server is not None:
            self.server.stop()


def open_store(
    options: settings.Store,
    *,
    cluster: str,
    indexed: Iterable[str] = (),
    embedded_dir: Path | None = None,
    archive: str = "",
    emptied: bool = False,
) -> Store:
    """Open the cluster's store; ``archive`` is the directory of its archive, if there is one.

    Without a URL a server is started in ``embedded_dir`` (temporary if None) and brought to this
    version's schema; one that is only connected to must have been. ``emptied``: a store that holds
    nothing but the functions is opened too, for a recorder that knows it to have held more. Raises
    SchemaMismatch, StoreAway or NoServer.
    """
    names = keys.Keys(cluster)
    server = None
    if not options.url:
        server = embedded.Server(embedded_dir, append_only=embedded_dir is not None)
    try:
        chosen = dataclasses.replace(options, url=server.url) if server is not None else options
        client = connect(chosen, names)
        if server is not None:
            migrate(client, names)
        _check_schema(client, names, emptied=emptied)
        return _opened(client, names, options, indexed, server, archive)
    except BaseException:
        if server is not None:
            server.stop()
        raise


def await_store(
    options: settings.Store,
    *,
    cluster: str,
    tell: Callable[[str], None],
    indexed: Iterable[str] = (),
    archive: str = "",
    emptied: bool = False,
) -> Store:
    """As ``open_store``, for a process that is to run: a store that is away is waited for.

    ``tell`` is told why it cannot be reached, once for each reason. Raises SchemaMismatch and what else
    a person must look after.
    """
    pause, told = _PAUSE_SECONDS, ""
    while True:
        try:
            return open_store(options, cluster=cluster, indexed=indexed, archive=archive, emptied=emptied)
        except errors.StoreAway as away:
            if str(away) != told:
                told = str(away)
                tell(told)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def migrate(client: redis.Redis, names: keys.Keys, *, incarnation: str = "") -> running.Status:
    """Bring the store to this version's schema; raises SchemaMismatch if that is refused."""
    context = running.Context(
        incarnation=incarnation or incarnations.new(),
        begin=functools.partial(folding.begin, client, names),
    )
    with connecting.translated():
        try:
            running.check(client, names.prefix)
            # The slot may move to any node of a Redis Cluster.
            for node in connecting.primaries(client):
                running.load(node, library())
            running.up(client, names.prefix, context)
        except running.Refused as refused:
            raise errors.SchemaMismatch(str(refused)) from refused
    return status(client, names)


def status(client: redis.Redis, names: keys.Keys) -> running.Status:
    """What the store has and what this version needs."""
    with connecting.translated():
        found = running.status(client, names.prefix, library())
        states = [running.loaded(node, library()) for node in connecting.primaries(client)]
    # The worst word of any node: a slot may move to each of them.
    return dataclasses.replace(found, library=max(states, key=_LIBRARIES.index))


def connect(options: settings.Store, names: keys.Keys) -> redis.Redis:
    """A client for the store of the settings. Raises StoreError if the URL cannot be understood."""
    return connecting.connect(options.url, timeout=options.socket_timeout, names=names)


def _check_schema(client: redis.Redis, names: keys.Keys, *, emptied: bool) -> None:
    with connecting.translated():
        schema, incarnation = client.hmget(names.meta, ["schema", "incarnation"])
    found, needed = int(schema or 0), running.latest()
    empty = emptied and not incarnation
    if not empty and (found != needed or not incarnation):
        raise errors.mismatch(found, needed)


def _opened(
    client: redis.Redis,
    names: keys.Keys,
    options: settings.Store,
    indexed: Iterable[str],
    server: embedded.Server | None,
    directory: str,
) -> Store:
    with connecting.translated():
        incarnation = connecting.text(client.hget(names.meta, "incarnation") or b"")
    lineages.prove(client, names, incarnation)
    log = logs.Log(
        client,
        names,
        incarnation,
        timeout=options.socket_timeout,
        synced=options.placements == "fsync",
    )
    with contextlib.suppress(errors.Rewound):
        # Proves that the functions are there. Of a loss the follower tells; it goes along once a
        # recorder has seen to it.
        log.read(log.head().offset, limit=1)
    kept = checkpoints.Checkpoints(client, names)
    archive = archives.Archive(Path(directory), names.cluster, lambda: log.incarnation) if directory else None
    begin = beginnings.Beginnings(log, kept, archive)
    follower = following.Follower(
        log, indexed=frozenset(indexed), begin=begin, reader=readers.Reader(client, names)
    )
    past = histories.Histories(log, follower, begin, archive)
    return Store(
        client=client,
        keys=names,
        log=log,
        follower=follower,
        histories=past,
        decisions=decisions.Decisions(client, names, follower, kept=options.decisions_kept),
        checkpoints=kept,
        beginnings=begin,
        archive=archive,
        scale=weighing.Scale(client, names),
        vetting=vetting.Vetting(client, durable=options.require_durable and server is None),
        server=server,
    )
