"""Several writers against a real server, beside a model of plain lists and dicts.

Writers hold snapshots that may be old, lose answers, and go on with epochs that others have taken
over. After each step the log is dense and equals the model, and the counts and versions in
Redis are those of the fold. Not here: processes that die (tests/store/state/test_follower_outages.py).
"""

import secrets
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from app import settings as configuration
from app.domain import events, model, projections, snapshots
from app.domain.audit import attribution, findings
from app.plugins.workload_policy import policy_model
from app.store import errors, raw_access, schemas, stores
from app.store.log import batches
from app.store.server import connections, embedded
from app.store.state import followers
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies
from tests.support.store import materialised, reply_loss, writers
from workers.auditor import repairs

WRITERS = 3
INDEXED = frozenset(("app",))
WORLD: list[events.AnyEvent] = [
    *(
        events.NodeSeen(node=model.Node(name=name, uid=name, labels={"zone": "ab"[i % 2]}))
        for i, name in enumerate(strategies.NODES)
    ),
    *(
        declared.observed(
            policy_model.WorkloadPolicy(uid=namespace, namespace=namespace, name="all", topology_key="zone")
        )
        for namespace in strategies.NAMESPACES
    ),
]
"""Where every pod counts from the start, until an event changes that."""


@dataclass
class Writer:
    follower: followers.Follower
    snapshot: snapshots.Snapshot
    epoch: str = ""


class Writers(RuleBasedStateMachine):
    """The steps that writers can take, in any order."""

    proxy: reply_loss.Proxy

    @initialize()
    def open(self) -> None:
        self.names = declared.names(f"m{secrets.token_hex(6)}")
        client = connections.connect(self.proxy.url)
        schemas.migrate(client, self.names, declared.SCHEMA)
        client.close()
        cluster = self.names.prefix.split("{")[1].split("}")[0]
        self.store = stores.open_store(
            configuration.Store(url=self.proxy.url),
            schema=declared.SCHEMA,
            cluster=cluster,
            indexed=INDEXED,
        )
        self.log = self.store.log
        self.expected = snapshots.empty(
            schema=declared.SCHEMA, indexed=INDEXED, incarnation=self.log.incarnation
        )
        self.history: list[events.AnyEvent] = []
        self.epoch, self.holder = 0, 0
        writers.facts(self.log, self.expected, WORLD)
        self._happened(WORLD)
        self.writers = [
            Writer(followers.Follower(self.log, schema=declared.SCHEMA, indexed=INDEXED), self.expected)
            for _ in range(WRITERS)
        ]

    @rule(which=st.integers(0, WRITERS - 1))
    def catch_up(self, which: int) -> None:
        writer = self.writers[which]
        writer.snapshot = writer.follower.catch_up()
        assert writer.snapshot.position == self.expected.position
        assert recomputation.kept(writer.snapshot) == recomputation.kept(self.expected)

    @rule(which=st.integers(0, WRITERS - 1))
    def claim(self, which: int) -> None:
        self.epoch += 1
        self.holder = which
        self.writers[which].epoch = str(self.epoch)
        guard = batches.Guard(epoch=str(self.epoch), writer=str(which))
        self.log.append(batches.Batch(events=()), guard)

    @rule(which=st.integers(0, WRITERS - 1))
    def pretend(self, which: int) -> None:
        """Use the epoch that another writer holds."""
        self.writers[which].epoch = str(self.epoch) if self.epoch else ""

    @rule(
        which=st.integers(0, WRITERS - 1),
        batch=st.lists(strategies.any_event, min_size=1, max_size=4),
        lost=st.booleans(),
    )
    def record(self, which: int, batch: list[events.AnyEvent], lost: bool) -> None:
        """Facts, fenced, at the head of the writer's snapshot."""
        writer = self.writers[which]
        fenced = bool(writer.epoch) and (writer.epoch, which) != (str(self.epoch), self.holder)
        stale = writer.snapshot.offset != self.expected.offset
        if lost:
            self.proxy.lose_next()
        try:
            appended = writers.facts(self.log, writer.snapshot, batch, epoch=writer.epoch, writer=str(which))
        except errors.Fenced:
            event("fenced")
            assert fenced
        except errors.Conflict:
            event("conflict")
            assert stale
            assert not fenced
        else:
            assert not fenced
            assert not stale
            assert (appended.first, appended.repeated) == (self.expected.offset + 1, lost)
            self._happened(batch)
            writer.snapshot = self.expected

    @rule(
        which=st.integers(0, WRITERS - 1),
        pod=strategies.pods(),
        node=st.sampled_from((*strategies.NODES, "unknown")),
        ceiling=st.integers(0, 2),
        lost=st.booleans(),
    )
    def place(self, which: int, pod: model.Pod, node: str, ceiling: int, lost: bool) -> None:
        """A placement, under versions and ceilings, from the snapshot that the writer has."""
        writer = self.writers[which]
        subjects = declared.SCHEMA.footprint(pod, node)
        stale = any(writer.snapshot.version(name) != self.expected.version(name) for name in subjects)
        after = projections.project(self.expected, events.placed(pod, node))
        raised = [key for key, count in after.counts.items() if count > self.expected.counts.get(key, 0)]
        full = any(after.counts[key] > ceiling for key in raised)
        if lost:
            self.proxy.lose_next()
        try:
            appended = writers.placement(self.log, writer.snapshot, pod, node, ceiling=ceiling)
        except errors.Conflict:
            event("conflict")
            assert stale
        except errors.CeilingReached:
            event("full")
            assert full
            assert not stale
        else:
            assert not stale
            assert not full
            assert (appended.first, appended.repeated) == (self.expected.offset + 1, lost)
            self._happened([events.placed(pod, node)])

    @rule(which=st.integers(0, WRITERS - 1), lost=st.booleans())
    def release(self, which: int, lost: bool) -> None:
        """Release the first placement in the writer's snapshot."""
        writer = self.writers[which]
        for uid, placement in sorted(writer.snapshot.placements.items(), key=lambda item: item[0])[:1]:
            gone = events.PlacementReleased(
                uid, placement.pod.namespace, placement.pod.name, placement.node, "", "gone"
            )
            if lost:
                self.proxy.lose_next()
            try:
                writers.facts(self.log, writer.snapshot, [gone])
            except errors.Conflict:
                assert writer.snapshot.offset != self.expected.offset
            else:
                self._happened([gone])

    @rule(
        counts=st.dictionaries(
            st.sampled_from(("blue/p|zone=a", "blue/all|zone=b", "no/such|key")), st.integers(1, 3)
        ),
        versions=st.dictionaries(
            st.sampled_from(("node:n0", "pod:unknown", "policies:blue")), st.integers(900, 999)
        ),
        lost=st.booleans(),
    )
    def corrupt(self, counts: dict[str, int], versions: dict[str, int], lost: bool) -> None:
        """Views are changed without the log, and an auditor repairs them by an event."""
        client, names = self.store.client, self.names
        for key, by in counts.items():
            client.hincrby(names.counts, key, by)
        for subject, version in versions.items():
            client.hset(names.versions, subject, version)
        look = raw_access.RawReader(client, names).view(self.expected.offset)
        assert attribution.apart(look.counts, self.expected.counts) == counts
        wrong = attribution.apart(look.versions, self.expected.versions)
        assert wrong.keys() == versions.keys()
        if lost and (counts or versions):
            self.proxy.lose_next()
        made = repairs.Repairs(self.log, "auditor").views(
            self.expected, counts, {subject: look.versions[subject] for subject in wrong}, findings.Board()
        )
        assert bool(made) is bool(counts or versions)
        if made:
            self._happened([self.log.read(made[0].offset - 1)[0].event])

    @invariant()
    def the_log_is_dense_and_is_what_was_accepted(self) -> None:
        if hasattr(self, "log"):
            entries = self.log.read(0)
            assert [entry.offset for entry in entries] == list(range(1, len(self.history) + 1))
            assert [entry.event for entry in entries] == self.history
            assert self.log.head().offset == len(self.history)

    @invariant()
    def what_redis_holds_is_the_fold(self) -> None:
        if hasattr(self, "log"):
            assert (
                materialised.counts(self.store)
                == dict(self.expected.counts)
                == recomputation.counts(self.expected)
            )
            assert materialised.versions(self.store) == dict(self.expected.versions)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            for key in self.store.client.scan_iter(f"{self.names.prefix.replace('{', '[{]')}*", count=1000):
                self.store.client.delete(key)
            for writer in self.writers:
                writer.follower.stop()
            self.store.close()

    def _happened(self, batch: list[events.AnyEvent]) -> None:
        self.history.extend(batch)
        self.expected = projections.project_all(self.expected, batch)


def run(server: embedded.Server, *, examples: int, steps: int) -> None:
    proxy = reply_loss.Proxy(server.url)

    class Proxied(Writers):
        pass

    Proxied.proxy = proxy
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Proxied, settings=limits)
        assert proxy.lost > 0
    finally:
        proxy.close()


def test_whatever_writers_do_the_store_equals_the_fold(store_server: embedded.Server) -> None:
    run(store_server, examples=sizes.examples(30), steps=30)


@pytest.mark.campaign
def test_whatever_writers_do_in_very_many_examples(store_server: embedded.Server) -> None:
    run(store_server, examples=sizes.of("EXAMPLES", 10_000), steps=sizes.of("STEPS", 50))
