"""The status of quotas: what it shows, and after which events it is computed again."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.framework import effects
from app.plugins.elastic_quota import kinds, status
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support import declared
from tests.support.decisions import quota_histories, scheduling_driver, small_quotas
from tests.support.decisions.small_quotas import CORE, GIB, node, pod, quota

TEAM = quota("team", 4, 8, is_parent=True)
BLUE, GREEN = (quota(name, 2, 8, parent="team") for name in ("blue", "green"))


def statuses(found: Iterable[effects.Effect]) -> dict[str, object]:
    """Quota -> used."""
    patches = list(found)
    assert all(isinstance(one, effects.PatchStatus) for one in patches)
    return {one.identity: one.status["used"] for one in patches if isinstance(one, effects.PatchStatus)}


def everything(small: scheduling_driver.Cluster) -> dict[str, object]:
    return statuses(ElasticQuota().reconcile(small.snapshot, effects.Changes()))


def after(small: scheduling_driver.Cluster, *happened: events.AnyEvent) -> dict[str, object]:
    before = small.snapshot
    small.take(*happened)
    return statuses(ElasticQuota().reconcile(small.snapshot, effects.Changes(before, happened)))


def gone(one: model.Pod) -> events.PodGone:
    return events.PodGone(uid=one.uid, namespace=one.namespace, name=one.name)


def test_used_counts_bound_and_placed_pods_of_the_quota_and_of_those_below_it() -> None:
    small = small_quotas.cluster(
        node("n1", 32),
        TEAM,
        BLUE,
        GREEN,
        pod("bound", 1, "blue", node="n1"),
        pod("self", 2, "team", node="n1"),
        pod("pending", 4, "blue"),
        msgspec.structs.replace(pod("ended", 4, "green", node="n1"), phase="Succeeded"),
    )
    small.place(pod("in-flight", quota="green", requests={"cpu": 500}), "n1")
    assert everything(small) == {
        "quotas/team": {"cpu": "3500m"},
        "quotas/blue": {"cpu": "1"},
        "quotas/green": {"cpu": "500m"},
    }


def test_used_has_the_resources_of_max_and_no_others() -> None:
    most = {"cpu": 8 * CORE, "memory": 8 * GIB, "nvidia.com/gpu": 8}
    small = small_quotas.cluster(
        node("n1", 32),
        msgspec.structs.replace(BLUE, parent="", max=most),
        GREEN,
        pod("p", 1, "blue", node="n1", memory=3),
    )
    found = everything(small)
    assert found["quotas/blue"] == {"cpu": "1", "memory": "3Gi", "nvidia.com/gpu": "0"}


def test_an_invalid_quota_shows_what_its_pods_use_and_one_without_pods_nothing() -> None:
    small = small_quotas.cluster(
        node("n1", 32),
        quota("lost", parent="absent"),
        quota("blue"),
        quota("blue", namespace="other", created="2026-01-02T00:00:00Z"),
        quota("koordinator-root-quota"),
        quota("koordinator-default-quota"),
        pod("a", 1, "lost", node="n1"),
        pod("b", 2, "blue", node="n1"),
        pod("c", 3, node="n1"),
    )
    assert everything(small) == {
        "quotas/lost": {"cpu": "1"},
        "quotas/blue": {"cpu": "2"},
        "other/blue": {"cpu": "0"},
        "quotas/koordinator-root-quota": {"cpu": "0"},
        "quotas/koordinator-default-quota": {"cpu": "3"},
    }


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (events.PodSeen(pod=pod("new", 1, "blue", node="n1")), {"team": "2", "blue": "2"}),
        (events.PodSeen(pod=pod("p", 1, "green", node="n1")), {"team": "1", "blue": "0", "green": "1"}),
        (events.PodSeen(pod=pod("new", 1, node="n1")), {}),
        (gone(pod("p")), {"team": "0", "blue": "0"}),
        (events.NodeGone(name="n1", uid="uid-n1"), {}),
        (events.NodeSeen(node=node("n1", 16)), {}),
        (events.NodeSeen(node=node("n2", 16)), {}),
        (events.FlagSet(flag=model.Flag(name="v", value="1")), {}),
        (kinds.QUOTAS.observed(quota("red")), {"team": "1", "blue": "1", "green": "0", "red": "0"}),
        (events.ViewsRepaired(by="auditor", counts={}), {"team": "1", "blue": "1", "green": "0"}),
    ],
    ids=[
        "a pod",
        "a pod that moves",
        "a pod without quota",
        "a pod is gone",
        "a node is gone",
        "a changed node",
        "another node",
        "a flag",
        "a quota",
        "repaired counts",
    ],
)
def test_only_quotas_that_an_event_concerns_are_computed_again(
    event: events.AnyEvent, expected: dict[str, str]
) -> None:
    small = small_quotas.cluster(node("n1", 32), TEAM, BLUE, GREEN, pod("p", 1, "blue", node="n1"))
    found = after(small, event)
    assert found == {f"quotas/{name}": {"cpu": cpu} for name, cpu in expected.items()}


def test_a_cluster_without_quotas_has_no_statuses() -> None:
    small = small_quotas.cluster(node("n1", 32), pod("p", 1, node="n1"))
    assert everything(small) == after(small, events.PodSeen(pod=pod("q", 1, node="n1"))) == {}


@given(quota_histories.happened, st.integers(0, 30))
def test_no_status_changes_unnoticed(history: list[events.AnyEvent], at: int) -> None:
    """Whatever happens: the status of a quota that is not computed again is the one of before."""
    before = projections.project_all(snapshots.empty(schema=declared.SCHEMA), history[:at])
    latest = projections.project_all(before, history[at:])
    changes = effects.Changes(before, tuple(history[at:]))
    found = {one.identity: one.status for one in status.reconcile(latest, changes, ElasticQuota())}
    for key, held in latest.all(kinds.QUOTAS).items():
        if key in found:
            assert found[key] == status.status(latest, held)
        else:
            former = before.all(kinds.QUOTAS)[key]
            assert status.status(before, former) == status.status(latest, held)
