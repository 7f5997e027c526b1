"""Every key of the store, damaged by hand: healed, or nobody is ready and the command to run is said.

A key that is added to app.store.keys needs an entry here, or the first test fails.
"""

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from app import settings
from app.domain import events
from app.store import connecting, embedded, errors, keys, logs, mending, opening, reports, verdicts
from tests.workers import conftest, test_auditing
from workers import auditing, compacting, recording

Client: TypeAlias = Any
"""redis.Redis, whose types do not tell bytes from text."""
Damage: TypeAlias = Callable[[Client, str], None]
REPAIRING = test_auditing.REPAIRING
PATIENCE = 0.5
"""Seconds after which what is said to be run is run: until then it may heal by itself."""
COMMAND = re.compile(r"(?:HDEL|HSET|DEL|XDEL) topolog:\S+(?: \S+)*|topolog doctor store(?: --repair-tail)?")


# -- damage ----------------------------------------------------------------------------------


def deleted(client: Client, key: str) -> None:
    client.delete(key)


def of_another_type(client: Client, key: str) -> None:
    kind = client.type(key)
    client.delete(key)
    if kind == b"string":
        client.hset(key, "x", "y")
    else:
        client.set(key, "x")


def hash_truncated(client: Client, key: str) -> None:
    fields = sorted(client.hkeys(key))
    client.hdel(key, *fields[: max(1, len(fields) // 2)])


def field_wrong(client: Client, key: str) -> None:
    client.hset(key, sorted(client.hkeys(key))[0], "wrong")


def field_surplus(client: Client, key: str) -> None:
    client.hset(key, "surplus", "x")


def stream_beginning_removed(client: Client, key: str) -> None:
    client.xtrim(key, maxlen=client.xlen(key) // 2, approximate=False)


def stream_end_removed(client: Client, key: str) -> None:
    client.xdel(key, client.xrevrange(key, count=1)[0][0])


def stream_entry_wrong(client: Client, key: str) -> None:
    entries = client.xrange(key)
    client.delete(key)
    for identity, fields in entries:
        wrong = identity == entries[len(entries) // 2][0]
        name = b"e" if b"e" in fields else next(iter(fields))
        client.xadd(key, {**fields, name: b"wrong"} if wrong else fields, id=identity)


def stream_entry_surplus(client: Client, key: str) -> None:
    client.xadd(key, {"surplus": "x"})


def string_truncated(client: Client, key: str) -> None:
    value = client.get(key)
    client.set(key, value[: len(value) // 2])


def string_wrong(client: Client, key: str) -> None:
    value = client.get(key)
    middle = len(value) // 2
    client.set(key, value[:middle] + bytes((value[middle] ^ 1,)) + value[middle + 1 :])


def string_surplus(client: Client, key: str) -> None:
    client.append(key, "x")


HASH = (deleted, of_another_type, hash_truncated, field_wrong, field_surplus)
STREAM = (
    *(deleted, of_another_type, stream_beginning_removed, stream_end_removed),
    *(stream_entry_wrong, stream_entry_surplus),
)
STRING = (deleted, of_another_type, string_truncated, string_wrong, string_surplus)


def meta_field(field: str, value: str | None) -> Damage:
    def damage(client: Client, key: str) -> None:
        if value is None:
            client.hdel(key, field)
        else:
            client.hset(key, field, value)

    damage.__name__ = f"{field}_{value}"
    return damage


META = tuple(
    meta_field(field, value)
    for field in (
        "incarnation",
        "offset",
        "at",
        "epoch",
        "writer",
        "schema",
        "counts",
        "former",
        "lost",
        "head",
    )
    for value in (None, "7")
)

DAMAGE: dict[str, tuple[Damage, ...]] = {
    "log": STREAM,
    "meta": (deleted, of_another_type, hash_truncated, field_surplus, *META),
    "versions": HASH,
    "counts": HASH,
    "decisions": STREAM,
    "checkpoints": HASH,
    "readers": HASH,
    "audit": STRING,
    "checkpoint": STRING,
    "session": STRING,
}
"""What the key is called in keys.Keys -> what is done to it."""


def test_every_key_has_an_entry() -> None:
    names = keys.Keys("c")
    fixed = {name for name, value in vars(names).items() if value.startswith(names.prefix)} - {"prefix"}
    made = {name for name, value in vars(keys.Keys).items() if callable(value) and not name.startswith("_")}
    assert set(DAMAGE) == fixed | made
    assert set(keys.TYPES) == fixed


# -- the cluster -----------------------------------------------------------------------------


class World:
    """All processes but the extender, whose readiness is asked for, started again when they end."""

    def __init__(
        self, cluster: conftest.Cluster, store: opening.Store, again: Callable[..., opening.Store]
    ) -> None:
        self._cluster = cluster
        self._again = again
        self.client: Any = store.client
        self.names = store.keys
        self._recorder: conftest.Recording | None = None
        self._auditor: auditing.Auditor | None = None
        self._compactor: compacting.Compactor | None = None
        self._extender: opening.Store | None = None
        self.trouble: str | None = ""
        """Why the extender is not ready."""

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.recorder.stop()
            self._recorder.thread.join(conftest.LIMIT)

    def turn(self) -> None:
        """Each process works for a moment."""
        if self._recorder is None or not self._recorder.thread.is_alive():
            self._recorder = None
            with contextlib.suppress(errors.StoreError):
                self._recorder = conftest.Recording(self._again(emptied=True), self._cluster)
        self._audit()
        self._compact()
        self.trouble = self._readiness()

    def _audit(self) -> None:
        with contextlib.suppress(errors.StoreError):
            if self._auditor is None:
                self._auditor = auditing.Auditor(
                    self._again(), self._cluster.client, REPAIRING, monotonic=test_auditing.Clock()
                )
            self._auditor.turn()

    def _compact(self) -> None:
        with contextlib.suppress(errors.StoreError):
            if self._compactor is None:
                self._compactor = compacting.Compactor(self._again(), settings.Compaction(keep=1000))
            self._compactor.turn()

    def _readiness(self) -> str | None:
        """As bootstrap.Service.checks."""
        wrong: list[str | None] = []
        try:
            if self._extender is None:
                self._extender = self._again()
            found = reports.Reports(self._extender.client, self.names)
            wrong.append(verdicts.Verdict(found, self._extender.log).trouble())
            snapshot = self._extender.follower.catch_up()
            if snapshot.unlisted or not {"nodes", "pods"} <= set(snapshot.listed):
                wrong.append("not recorded yet")
        except errors.StoreError as error:
            wrong.append(str(error))
        return "\n".join(filter(None, wrong)) or None

    def key(self, name: str) -> str:
        """The key, or one of them."""
        if name == "checkpoint":
            found = next(iter(self.client.scan_iter(f"{self.names.prefix}checkpoint:*", count=1000)))
            return connecting.text(found)
        if name == "session":
            assert self._extender is not None
            self._append()
            return str(self._extender.log._sessions.queue[-1].key)
        return str(getattr(self.names, name))

    def _append(self) -> None:
        assert self._extender is not None
        self._extender.log.append(logs.Batch(events=(events.RelistRequested("nothing", "a test"),)))

    def sound(self) -> bool:
        """Whether everything works: it can be appended to, and the views are those of the log."""
        self.turn()
        if self.trouble is not None or self._extender is None or self._auditor is None:
            return False
        try:
            self._append()
            snapshot = self._extender.follower.catch_up()
            log = self._extender.log
            views = (log.counts(), log.versions())
            whole = {self.client.type(getattr(self.names, name)) for name in ("log", "meta", "versions")}
            fresh = self._again().follower.catch_up()
        except (errors.StoreError, ValueError):
            return False
        wanted = (dict(snapshot.counts), dict(snapshot.versions))
        report = self._auditor.report
        return (
            log.head() == snapshot.position == fresh.position
            and views == wanted
            and whole == {b"stream", b"hash"}
            and bool(snapshot.counts)
            and report is not None
            and report.complete
            and not report.differences
        )

    def follow_advice(self) -> str:
        """Run what the extender's readiness says is to be run."""
        found = COMMAND.search(self.trouble or "")
        assert found is not None, f"not ready, and nothing to run: {self.trouble}"
        return self._run(found.group(0))

    def _run(self, command: str) -> str:
        if command == "topolog doctor store --repair-tail":
            mending.mend(self.client, self.names, mending.look(self.client, self.names))
        elif command == "topolog doctor store":
            for name, kind in keys.TYPES.items():
                key = getattr(self.names, name)
                if self.client.type(key) not in (b"none", kind.encode()):
                    self.client.delete(key)  # As its finding says (tests/store/test_examining.py).
        else:
            text = command.partition(" (")[0]
            self.client.execute_command(*shlex.split(text.rstrip(";,")))
        return command


@pytest.fixture
def world(
    cluster_side: conftest.Cluster,
    store: opening.Store,
    store_server: embedded.Server,
    cluster: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    monkeypatch.setattr(recording, "MARKS_EVERY", 0.02)
    monkeypatch.setattr(compacting, "EVERY", 0.02)
    opened: list[opening.Store] = []

    def again(*, emptied: bool = False) -> opening.Store:
        chosen = settings.Store(url=store_server.url, socket_timeout=0.5)
        opened.append(opening.open_store(chosen, cluster=cluster, emptied=emptied))
        return opened[-1]

    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster_side.node(name, zone=zone)
    cluster_side.policy("p", a=5, b=5)
    for number in range(4):
        cluster_side.pod(f"w{number}", node=f"n{1 + number % 2}", app="x")
    made = World(cluster_side, store, again)
    conftest.eventually(made.sound, "it begins sound")
    made.client.xadd(store.keys.decisions, {"d": "{}"})
    snapshot, at_ms = opened[-1].follower.dated()
    assert at_ms is not None
    store.checkpoints.write(snapshot, at_ms)
    yield made
    made.close()
    for one in opened:
        one.close()


CASES = [
    pytest.param(name, damage, id=f"{name} {damage.__name__}".replace("_", " "))
    for name, damages in DAMAGE.items()
    for damage in damages
]


@pytest.mark.parametrize("before", ["first", "after a repair"])
@pytest.mark.parametrize(("name", "damage"), CASES)
def test_damage_is_healed_or_named_with_what_to_run(
    world: World, name: str, damage: Damage, before: str
) -> None:
    if before != "first":
        world.client.delete(world.names.versions)
        conftest.eventually(world.sound, "it is repaired")
    conftest.eventually(world.sound, "it is sound")
    damage(world.client, world.key(name))
    ran: list[str] = []
    advised = time.monotonic()
    end = advised + conftest.LIMIT
    while not world.sound():
        assert time.monotonic() < end, f"neither healed nor told what to run: {world.trouble}; ran {ran}"
        if not COMMAND.search(world.trouble or ""):
            advised = time.monotonic()
        elif time.monotonic() > advised + PATIENCE:
            ran.append(world.follow_advice())
            advised = time.monotonic()
        time.sleep(0.01)
    assert len(ran) <= 3, ran
