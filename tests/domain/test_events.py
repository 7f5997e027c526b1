"""Events other than observations: lists, losses, flags, repairs, and the versions of all subjects."""

import pytest

from app.domain import event_subjects, events, model, projections, snapshot_contents, snapshots
from app.kube.watch import kinds
from app.plugins.workload_policy import policy_model
from tests.support import declared

POD = model.Pod(uid="u1", namespace="blue", name="one", labels={"app": "a"})


def after(*batch: events.AnyEvent) -> snapshots.Snapshot:
    return projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=("app",), incarnation="i"), batch
    )


def listed(kind: str, until: str) -> events.Relisted:
    return events.Relisted(kind=kind, since="", until=until, reason="first list")


def lost(*relisting: str) -> events.StoreRewound:
    return events.StoreRewound("former", 1, 2, "a test", relisting=relisting)


def test_a_snapshot_holds_the_last_list_of_each_kind() -> None:
    snapshot = after(listed("pods", "5"), listed("nodes", "6"), listed("pods", "9"))
    assert dict(snapshot.listed) == {"pods": "9", "nodes": "6"}


@pytest.mark.parametrize(
    "doubt", [lost("pods", "nodes"), events.StoreRestarted(by="me", before="a", after="b")]
)
def test_after_a_loss_every_kind_is_unlisted_until_it_is_listed(doubt: events.AnyEvent) -> None:
    before = after(listed("pods", "5"), doubt)
    assert dict(before.listed) == {}
    assert before.unlisted == declared.SCHEMA.names
    snapshot = projections.project(before, listed("pods", "7"))
    assert dict(snapshot.listed) == {"pods": "7"}
    assert snapshot.unlisted == declared.SCHEMA.names - {"pods"}


def test_a_kind_that_the_elected_recorder_lacks_is_unlisted_until_another_lists_it() -> None:
    before = after(*(listed(kind, "1") for kind in (*declared.SCHEMA.names, "former")))
    elected = events.RecorderElected("r", "1", unwatched=("former", "workloadpolicies"))
    snapshot = projections.project(before, elected)
    assert set(snapshot.listed) == declared.SCHEMA.names - {"workloadpolicies"}
    assert snapshot.unlisted == {"workloadpolicies"}
    built = snapshot_contents.build(
        snapshot_contents.extract(snapshot), snapshot.position, schema=declared.SCHEMA
    )
    assert built.unlisted == {"workloadpolicies"}
    again = projections.project(snapshot, events.RecorderElected("r", "2"))
    assert again.unlisted == {"workloadpolicies"}, "the next recorder has not listed it yet"
    assert not projections.project(again, listed("workloadpolicies", "2")).unlisted


def test_in_a_new_log_every_watched_kind_is_unlisted() -> None:
    assert (
        snapshots.empty(schema=declared.SCHEMA).unlisted
        == {kind.name for kind in kinds.watched(declared.SCHEMA)}
        == declared.SCHEMA.names
    )
    assert after(*(listed(kind, "1") for kind in declared.SCHEMA.names)).unlisted == frozenset()


def test_the_last_setting_of_a_flag_applies() -> None:
    set_ = [model.Flag(name="v", value="1"), model.Flag(name="s", value="1"), model.Flag(name="v", value="0")]
    snapshot = after(*(events.FlagSet(flag=flag) for flag in set_))
    assert {name: flag.value for name, flag in snapshot.flags.items()} == {"v": "0", "s": "1"}


def test_versions_are_offsets_of_the_last_event_and_end_with_their_subject() -> None:
    node, policy = (
        model.Node(name="n", uid="1"),
        policy_model.WorkloadPolicy(uid="1", namespace="blue", name="p"),
    )
    seen: list[events.AnyEvent] = [
        events.NodeSeen(node=node),
        declared.observed(policy),
        events.PodSeen(pod=POD),
        events.placed(POD, "n"),
        events.Quarantined("pods", "blue/odd", "no uid"),
    ]
    assert dict(after(*seen).versions) == {
        "node:n": 1,
        "policy:blue/p": 2,
        "policies:blue": 2,
        "pod:u1": 4,
        "kind:pods": 5,
    }
    gone: list[events.AnyEvent] = [
        events.NodeGone(name="n", uid="1"),
        declared.POLICIES.gone("blue", "p", "1"),
        events.PodGone(uid="u1", namespace="blue", name="one"),
    ]
    assert dict(after(*seen, *gone).versions) == {"policies:blue": 7, "kind:pods": 5}


def test_a_name_belongs_to_the_latest_pod() -> None:
    """Even if events about the former pod still arrive, as they do while it terminates."""
    former, latter = POD, model.Pod(uid="u2", namespace="blue", name="one")
    ending = model.Pod(uid="u1", namespace="blue", name="one", terminating=True)
    snapshot = after(*(events.PodSeen(pod=pod) for pod in (former, latter, ending)))
    assert dict(snapshot.names) == {POD.key: "u2"}
    end = events.PodGone(uid="u1", namespace="blue", name="one")
    assert dict(projections.project(snapshot, end).names) == {POD.key: "u2"}


def test_a_repair_of_views_moves_or_ends_the_subjects_it_names() -> None:
    before = after(events.NodeSeen(node=model.Node(name="n", uid="1")))
    repaired = events.ViewsRepaired(by="auditor", counts={}, moved=("node:n",), ended=("pod:missing",))
    snapshot = projections.project(before, repaired)
    assert snapshot.versions.get("node:n") == 2
    assert "pod:missing" not in snapshot.versions
    assert event_subjects.ends(repaired, "pod:missing")
    assert not event_subjects.ends(repaired, "node:n")


def test_a_placement_depends_on_the_pod_the_node_the_policies_and_the_quotas() -> None:
    assert declared.SCHEMA.footprint(POD, "n") == (
        "pod:u1",
        "node:n",
        "policies:blue",
        "quotas:all",
        "sigsquotas:all",
    )
