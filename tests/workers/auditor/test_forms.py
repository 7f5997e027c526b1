"""An auditor of another version than the other processes finds no fault in what they write."""

import dataclasses

import immutables
import pytest

from app.domain import events, schema, snapshots
from app.domain.audit import findings
from app.kube.watch import kinds
from app.store import snapshot_format
from tests.support import declared
from tests.support.workers import audits, clusters, recordings
from tests.support.workers.schema_versions import FORMER, OF_NARROW, OF_WIDE, PRESENT, Opened, Wide, record
from workers.auditor import auditors

VERSIONS = {
    "a kind more": (FORMER, declared.SCHEMA),
    "a kind less": (declared.SCHEMA, FORMER),
    "a field more": (PRESENT, FORMER),
    "a field less": (FORMER, PRESENT),
}
"""The schema of the auditor, and that of the compactor and the recorder."""


@pytest.fixture(params=VERSIONS.values(), ids=list(VERSIONS))
def versions(request: pytest.FixtureRequest) -> tuple[schema.Schema, schema.Schema]:
    found: tuple[schema.Schema, schema.Schema] = request.param
    return found


class Audited:
    """A log of one version, audited by an auditor of another one."""

    def __init__(
        self, opened: Opened, cluster_side: clusters.Cluster, versions: tuple[schema.Schema, schema.Schema]
    ) -> None:
        own, others = versions
        self.store = opened(others)
        self.auditor = auditors.Auditor(
            opened(own), cluster_side.client, audits.OPTIONS, monotonic=audits.Clock()
        )
        if others is PRESENT:
            self.record(OF_WIDE.observed(Wide("u", "shop", "web", per_node=2, protected=True)))
        else:
            self.record()

    def record(self, *facts: events.AnyEvent) -> None:
        """Append what a recorder of the other version has observed."""
        record(self.store, kinds.declared(OF_NARROW), *facts)

    def checkpoint(self, *, damaged: bool = False) -> snapshot_format.Header:
        """Take a checkpoint as a compactor of the other version does."""
        self.store.follower.catch_up()
        snapshot, at_ms = self.store.follower.dated()
        assert at_ms is not None
        return self.store.checkpoints.write(_damaged(snapshot) if damaged else snapshot, at_ms)

    def report(self) -> findings.Report:
        """The report once everything was read once more."""
        passes = 1 + (self.auditor.report.passes if self.auditor.report is not None else 0)

        def complete() -> bool:
            self.auditor.run_once()
            return self.auditor.report is not None and self.auditor.report.passes >= passes

        recordings.eventually(complete, "the log is read")
        assert self.auditor.report is not None
        return self.auditor.report


def _damaged(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    """The state without its pods."""
    return dataclasses.replace(snapshot, pods=immutables.Map())


@pytest.fixture
def audited(
    opened: Opened, cluster_side: clusters.Cluster, versions: tuple[schema.Schema, schema.Schema]
) -> Audited:
    return Audited(opened, cluster_side, versions)


def test_a_checkpoint_of_another_version_is_compared_as_this_one_reads_it(audited: Audited) -> None:
    first = audited.checkpoint()
    audited.record()
    report = audited.report()
    assert (report.problem, report.differences) == ("", ())
    audited.record()
    second = audited.checkpoint()
    report = audited.report()
    assert (report.problem, report.differences) == ("", ())
    assert report.checkpoints.keys() == {str(first.offset), str(second.offset)}


def test_a_wrong_checkpoint_of_another_version_is_found_before_and_after_the_start(audited: Audited) -> None:
    first = audited.checkpoint(damaged=True)
    audited.record()
    (one,) = audited.report().differences
    assert (one.kind, one.key) == ("past", f"checkpoint:{first.offset}")
    assert "pod:u0" in one.blame
    audited.record()
    second = audited.checkpoint(damaged=True)
    found = audited.report().differences
    assert [(one.kind, one.key) for one in found] == [
        ("checkpoint", f"checkpoint:{second.offset}"),
        ("past", f"checkpoint:{first.offset}"),
    ]


def test_a_damaged_checkpoint_of_another_version_is_found(audited: Audited) -> None:
    header = audited.checkpoint()
    store = audited.store
    key = store.keys.checkpoint(header.offset, header.parts, 0)
    line = snapshot_format.decompressed(_bytes(store.client.get(key)), "it")
    store.client.set(key, snapshot_format.compressed(line.replace(b'"offset"', b'"offser"')))
    audited.record()
    (one,) = audited.report().differences
    assert (one.kind, one.key) == ("checkpoint", f"checkpoint:{header.offset}")
    assert "damaged" in one.found


def test_a_kind_that_the_recorder_lacks_is_named_as_the_reason_why_facts_are_not_compared(
    world: audits.World, opened: Opened
) -> None:
    auditor = auditors.Auditor(opened(FORMER), world.cluster.client, audits.OPTIONS, monotonic=audits.Clock())
    auditor.run_once()
    assert auditor.report is not None
    assert auditor.report.waiting["facts"].startswith("the recorder has not listed podlimits; ")
    assert (auditor.report.differences, auditor.report.complete) == ((), False)
    record(world.store, kinds.declared(OF_NARROW), events.Relisted("podlimits", "", "9", "first"))
    auditor.run_once()
    assert "podlimits" not in auditor.report.waiting.get("facts", "")


def _bytes(found: object) -> bytes:
    assert isinstance(found, bytes)
    return found
