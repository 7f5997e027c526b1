"""What single events do to a snapshot beyond pods, nodes and policies: lists, losses, flags, versions."""

import pytest

from app.domain import counting, events, model, projecting, snapshots
from app.kube import kinds

POD = model.Pod(uid="u1", namespace="blue", name="one", labels={"app": "a"})


def after(*batch: events.AnyEvent) -> snapshots.Snapshot:
    return projecting.project_all(snapshots.empty(indexed=("app",), incarnation="i"), batch)


def listed(kind: str, until: str) -> events.Relisted:
    return events.Relisted(kind=kind, since="", until=until, reason="first list")


def lost(*relisting: str) -> events.StoreRewound:
    return events.StoreRewound("former", 1, 2, "a test", relisting=relisting)


def test_the_last_list_of_a_kind_is_known() -> None:
    snapshot = after(listed("pods", "5"), listed("nodes", "6"), listed("pods", "9"))
    assert dict(snapshot.listed) == {"pods": "9", "nodes": "6"}


@pytest.mark.parametrize(
    "doubt", [lost("pods", "nodes"), events.StoreRestarted(by="me", before="a", after="b")]
)
def test_after_a_loss_everything_is_to_be_listed_until_it_is(doubt: events.AnyEvent) -> None:
    before = after(listed("pods", "5"), doubt)
    assert dict(before.listed) == {}
    assert before.unlisted == model.KINDS
    snapshot = projecting.project(before, listed("pods", "7"))
    assert dict(snapshot.listed) == {"pods": "7"}
    assert snapshot.unlisted == {"nodes", "workloadpolicies"}


def test_in_a_new_log_every_kind_that_is_watched_is_still_to_be_listed() -> None:
    assert snapshots.empty().unlisted == {kind.name for kind in kinds.ALL} == model.KINDS
    assert after(*(listed(kind, "1") for kind in model.KINDS)).unlisted == frozenset()


def test_the_last_word_on_a_flag_holds() -> None:
    set_ = [model.Flag(name="v", value="1"), model.Flag(name="s", value="1"), model.Flag(name="v", value="0")]
    snapshot = after(*(events.FlagSet(flag=flag) for flag in set_))
    assert {name: flag.value for name, flag in snapshot.flags.items()} == {"v": "0", "s": "1"}


def test_versions_are_offsets_of_the_last_event_and_end_with_their_subject() -> None:
    node, policy = model.Node(name="n", uid="1"), model.WorkloadPolicy(uid="1", namespace="blue", name="p")
    seen: list[events.AnyEvent] = [
        events.NodeSeen(node=node),
        events.PolicySeen(policy=policy),
        events.PodSeen(pod=POD),
        events.PodPlaced(pod=POD, node="n"),
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
        events.PolicyGone("blue", "p", "1"),
        events.PodGone(uid="u1", namespace="blue", name="one"),
    ]
    assert dict(after(*seen, *gone).versions) == {"policies:blue": 7, "kind:pods": 5}


def test_a_name_belongs_to_the_pod_that_came_last() -> None:
    """Though the former one is still heard of, as it is while it ends."""
    former, latter = POD, model.Pod(uid="u2", namespace="blue", name="one")
    ending = model.Pod(uid="u1", namespace="blue", name="one", terminating=True)
    snapshot = after(*(events.PodSeen(pod=pod) for pod in (former, latter, ending)))
    assert dict(snapshot.names) == {POD.key: "u2"}
    end = events.PodGone(uid="u1", namespace="blue", name="one")
    assert dict(projecting.project(snapshot, end).names) == {POD.key: "u2"}


def test_views_that_were_repaired_are_moved_or_ended_as_told() -> None:
    before = after(events.NodeSeen(node=model.Node(name="n", uid="1")))
    repaired = events.ViewsRepaired(by="auditor", counts={}, moved=("node:n",), ended=("pod:nobody",))
    snapshot = projecting.project(before, repaired)
    assert snapshot.versions.get("node:n") == 2
    assert "pod:nobody" not in snapshot.versions
    assert projecting.ends(repaired, "pod:nobody")
    assert not projecting.ends(repaired, "node:n")


def test_whoever_places_a_pod_must_have_known_the_pod_the_node_and_the_policies() -> None:
    assert counting.footprint(POD, "n") == ("pod:u1", "node:n", "policies:blue")
