"""Every key of the store, damaged by hand: repaired, or reported by readiness with the command to run.

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
from app.store import audit_reports, errors, keys, stores
from app.store.health import audit_verdicts, identity
from app.store.log import batches, tail_repair
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.store import materialised
from tests.support.workers import audits, clusters, recordings
from workers.auditor import auditors
from workers.compactor import compactors
from workers.recorder import log_writer

Client: TypeAlias = Any
"""redis.Redis, whose types do not distinguish bytes from text."""
Damage: TypeAlias = Callable[[Client, str], None]
REPAIRING = audits.REPAIRING
UID = "uid-of-the-cluster"
PATIENCE = 0.5
"""Seconds for a repair without help, before the reported command is run."""
COMMAND = re.compile(r"(?:HDEL|HSET|DEL|XDEL) topolog:\S+(?: \S+)*|topolog doctor store(?: --repair-tail)?")


NO_TEXT = b'{"type":"PodGone","uid":"\xff"}'
"""JSON but for a byte that is not UTF-8."""


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


def field_no_text(client: Client, key: str) -> None:
    client.hset(key, sorted(client.hkeys(key))[0], b"\xff\xfe")


def field_name_no_text(client: Client, key: str) -> None:
    client.hset(key, b"\xff\xfe", b"\xff\xfe")


def field_surplus(client: Client, key: str) -> None:
    client.hset(key, "surplus", "x")


def stream_start_removed(client: Client, key: str) -> None:
    client.xtrim(key, maxlen=client.xlen(key) // 2, approximate=False)


def stream_end_removed(client: Client, key: str) -> None:
    client.xdel(key, client.xrevrange(key, count=1)[0][0])


def stream_entry_wrong(client: Client, key: str) -> None:
    overwrite_in_entry(client, key, b"e")


def stream_time_wrong(client: Client, key: str) -> None:
    overwrite_in_entry(client, key, b"t")


def stream_entry_no_text(client: Client, key: str) -> None:
    overwrite_in_entry(client, key, b"e", NO_TEXT)


def overwrite_in_entry(client: Client, key: str, field: bytes, value: bytes = b"wrong") -> None:
    entries = client.xrange(key)
    client.delete(key)
    for entry, fields in entries:
        wrong = entry == entries[len(entries) // 2][0]
        name = field if field in fields else next(iter(fields))
        client.xadd(key, {**fields, name: value} if wrong else fields, id=entry)


def stream_entry_surplus(client: Client, key: str) -> None:
    client.xadd(key, {"surplus": "x"})


def string_truncated(client: Client, key: str) -> None:
    value = client.get(key)
    client.set(key, value[: len(value) // 2])


def string_wrong(client: Client, key: str) -> None:
    value = client.get(key)
    middle = len(value) // 2
    client.set(key, value[:middle] + bytes((value[middle] ^ 1,)) + value[middle + 1 :])


def string_no_text(client: Client, key: str) -> None:
    client.set(key, NO_TEXT)


def string_surplus(client: Client, key: str) -> None:
    client.append(key, "x")


HASH = (
    *(deleted, of_another_type, hash_truncated, field_wrong, field_no_text),
    *(field_name_no_text, field_surplus),
)
STREAM = (
    *(deleted, of_another_type, stream_start_removed, stream_end_removed),
    *(stream_entry_wrong, stream_entry_no_text, stream_entry_surplus),
)
STRING = (deleted, of_another_type, string_truncated, string_wrong, string_no_text, string_surplus)


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
    for field in sorted(keys.RESERVED | {"rv:pods"})
    for value in (None, "7", "wrong")
)

DAMAGE: dict[str, tuple[Damage, ...]] = {
    "log": (*STREAM, stream_time_wrong),
    "meta": (deleted, of_another_type, hash_truncated, field_name_no_text, *META),
    "versions": HASH,
    "counts": HASH,
    "decisions": STREAM,
    "checkpoints": HASH,
    "readers": HASH,
    "audit": STRING,
    "checkpoint": STRING,
    "session": STRING,
}
"""Attribute of keys.Keys -> damage done to the key."""


def test_every_key_has_an_entry() -> None:
    names = declared.names("c")
    fixed = {name for name, value in vars(names).items() if value.startswith(names.prefix)} - {"prefix"}
    made = {name for name, value in vars(keys.Keys).items() if callable(value) and not name.startswith("_")}
    assert set(DAMAGE) == fixed | made
    assert set(keys.TYPES) == fixed


# -- the cluster -----------------------------------------------------------------------------


class World:
    """All processes but the extender (only its readiness is checked); one that ends is restarted."""

    def __init__(
        self, cluster: clusters.Cluster, store: stores.Store, again: Callable[..., stores.Store]
    ) -> None:
        self._cluster = cluster
        self._again = again
        self.client: Any = store.client
        self.names = store.keys
        self._recorder: recordings.Recording | None = None
        self._auditor: auditors.Auditor | None = None
        self._compactor: compactors.Compactor | None = None
        self._extender: stores.Store | None = None
        self.problem: str | None = ""
        """Why the extender is not ready."""

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.recorder.stop()
            self._recorder.thread.join(recordings.LIMIT)

    def start(self) -> None:
        """Start the recorder, and wait until it has recorded the cluster."""
        self._recorder = recordings.Recording(self._again(emptied=True), self._cluster).ready()

    def run_once(self) -> None:
        """Run each process once."""
        if self._recorder is None or not self._recorder.thread.is_alive():
            self._recorder = None
            with contextlib.suppress(errors.StoreError):
                self._recorder = recordings.Recording(self._again(emptied=True), self._cluster)
        self._audit()
        self._compact()
        self.problem = self._readiness()

    def _audit(self) -> None:
        with contextlib.suppress(errors.StoreError):
            if self._auditor is None:
                self._auditor = auditors.Auditor(
                    self._again(), self._cluster.client, REPAIRING, monotonic=audits.Clock()
                )
            self._auditor.run_once()

    def _compact(self) -> None:
        with contextlib.suppress(errors.StoreError):
            if self._compactor is None:
                self._compactor = compactors.Compactor(self._again(), settings.Compaction(keep=1000))
            self._compactor.run_once()

    def _readiness(self) -> str | None:
        """As extender_process.Service.checks."""
        wrong: list[str | None] = []
        try:
            if self._extender is None:
                self._extender = self._again()
            compared = identity.IdentityCheck(self._extender.log, lambda: UID)
            compared.measure()
            wrong.append(compared.problem)
            found = audit_reports.Reports(self._extender.client, self.names)
            wrong.append(audit_verdicts.AuditVerdict(found, self._extender.log).problem())
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
            return connections.text(found)
        if name == "session":
            assert self._extender is not None
            self._append()
            with self._extender.log._appender._sessions.borrowed(1.0) as latest:
                return latest.key
        return str(getattr(self.names, name))

    def _append(self) -> None:
        assert self._extender is not None
        self._extender.log.append(batches.Batch(events=(events.RelistRequested("nothing", "a test"),)))

    def sound(self) -> bool:
        """Whether appends succeed and the views equal the log."""
        self.run_once()
        if self.problem is not None or self._extender is None or self._auditor is None:
            return False
        report = self._auditor.report
        if report is None or not report.complete or report.differences:
            return False
        try:
            self._append()
            snapshot = self._extender.follower.catch_up()
            views = materialised.counts(self._extender), materialised.versions(self._extender)
            whole = {self.client.type(getattr(self.names, name)) for name in ("log", "meta", "versions")}
            fresh = self._again().follower.catch_up()
            claimed = self.client.hmget(self.names.meta, [keys.KUBERNETES, keys.BUNDLE])
        except (errors.StoreError, ValueError):
            return False
        wanted = (dict(snapshot.counts), dict(snapshot.versions))
        return (
            self._extender.log.head() == snapshot.position == fresh.position
            and views == wanted
            and whole == {b"stream", b"hash"}
            and claimed == [UID.encode(), None]
            and bool(snapshot.counts)
        )

    def follow_advice(self) -> str:
        """Run the command that the extender's readiness names."""
        found = COMMAND.search(self.problem or "")
        assert found is not None, f"not ready, and nothing to run: {self.problem}"
        return self._run(found.group(0))

    def _run(self, command: str) -> str:
        if command == "topolog doctor store --repair-tail":
            try:
                tail_repair.repair(self.client, self.names, tail_repair.inspect(self.client, self.names))
            except errors.StoreError as changed:
                # The recorder appended in between: the operator runs the command again, as the message asks.
                if not str(changed).endswith("try again"):
                    raise
        elif command == "topolog doctor store":
            for name, kind in keys.TYPES.items():
                key = getattr(self.names, name)
                if self.client.type(key) not in (b"none", kind.encode()):
                    self.client.delete(key)  # The remedy of its finding (tests/store/health/test_doctor.py).
        else:
            text = command.partition(" (")[0]
            self.client.execute_command(*map(unescaped, shlex.split(text.rstrip(";,"))))
        return command


def unescaped(word: str) -> bytes:
    """A word in double quotes as redis-cli reads it."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), word.encode())


@pytest.fixture
def world(
    cluster_side: clusters.Cluster,
    store: stores.Store,
    store_server: embedded.Server,
    cluster: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    monkeypatch.setattr(log_writer, "RESUME_VERSIONS_EVERY", 0.02)
    monkeypatch.setattr(compactors, "EVERY", 0.02)
    opened: list[stores.Store] = []

    def again(*, emptied: bool = False) -> stores.Store:
        chosen = settings.Store(url=store_server.url, socket_timeout=2.0)
        opened.append(stores.open_store(chosen, schema=declared.SCHEMA, cluster=cluster, emptied=emptied))
        return opened[-1]

    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": UID}})
    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster_side.node(name, zone=zone)
    cluster_side.policy("p", a=5, b=5)
    for number in range(4):
        cluster_side.pod(f"w{number}", node=f"n{1 + number % 2}", app="x")
    made = World(cluster_side, store, again)
    made.start()
    recordings.eventually(made.sound, "it begins sound")
    made.client.xadd(store.keys.decisions, {"d": "{}"})
    snapshot, at_ms = opened[-1].follower.dated()
    assert at_ms is not None
    store.checkpoints.write(snapshot, at_ms)
    yield made
    made.close()
    for one in opened:
        one.close()


CASES = [
    pytest.param(
        name,
        damage,
        before,
        id=f"{name} {damage.__name__} {before}".replace("_", " "),
        marks=pytest.mark.campaign if (number + at) % 2 else (),
    )
    for number, (name, damage) in enumerate((name, one) for name, ones in DAMAGE.items() for one in ones)
    for at, before in enumerate(("first", "after a repair"))
]
"""Each damage in both states of the store; a run of all tests does each in one of them."""


@pytest.mark.parametrize(("name", "damage", "before"), CASES)
def test_damage_is_repaired_or_reported_with_the_command_to_run(
    world: World, name: str, damage: Damage, before: str
) -> None:
    if before != "first":
        world.client.delete(world.names.versions)
        recordings.eventually(world.sound, "it is repaired")
    recordings.eventually(world.sound, "it is sound")
    damage(world.client, world.key(name))
    ran: list[str] = []
    advised = time.monotonic()
    end = advised + recordings.LIMIT
    while not world.sound():
        assert time.monotonic() < end, f"neither repaired nor a command reported: {world.problem}; ran {ran}"
        if not COMMAND.search(world.problem or ""):
            advised = time.monotonic()
        elif time.monotonic() > advised + PATIENCE:
            ran.append(world.follow_advice())
            advised = time.monotonic()
        time.sleep(0.01)
    # A process that has had no turn since a command still gives the same advice.
    assert len(set(ran)) <= 3, ran
