"""Small clusters with quotas, and the pods that the plugin wants evicted there."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from app.domain import model
from app.framework import effects, pipeline
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from tests.support.decisions import scheduling_driver, small_gangs, small_quotas

EVICTING = ElasticQuota(runtime=False, quota_preemption="evict")
EVERYTHING = effects.Changes()


def pod(name: str, cpu: int, quota: str, node: str = "", priority: int = 0, **changed: object) -> model.Pod:
    """A pod of the quota, of so many cores: one that has started, or that the quota has refused."""
    made = small_gangs.pod(name, cpu, node=node, priority=priority, labels={membership.LABEL: quota})
    started = {"started": "2026-01-01T00:00:00Z"} if node else {"unscheduled": refusal(quota)}
    return msgspec.structs.replace(made, **{**started, **changed})


def refusal(quota: str) -> str:
    """The condition of a pod that its quota refuses, as kube-scheduler writes it."""
    return (
        "0/3 nodes are available: 1 node(s) were unschedulable, "
        f"2 elastic quota {quota}: no capacity in cpu. preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )


def cluster(*things: scheduling_driver.Thing, rules: ElasticQuota = EVICTING) -> scheduling_driver.Cluster:
    """A cluster in which quotas alone decide."""
    return scheduling_driver.Cluster(*things, configured=[rules])


def wanted(
    small: scheduling_driver.Cluster, rules: ElasticQuota = EVICTING, changes: effects.Changes = EVERYTHING
) -> Sequence[effects.Eviction] | None:
    """The pods to evict; None if the plugin wants nothing changed."""
    found = [one for one in rules.reconcile(small.snapshot, changes) if isinstance(one, effects.EvictPods)]
    assert len(found) <= 1
    return found[0].wanted if found else None


def judged(small: scheduling_driver.Cluster) -> effects.Changes:
    """As the controller asks: with what all plugins answer to an eviction."""
    plugins = small.plugins
    return effects.Changes(
        objection=functools.partial(pipeline.objection, plugins),
        protection=plugins.protected,
        companions=plugins.companions,
    )


def names(found: Iterable[effects.Eviction] | None) -> list[tuple[str, list[str]]]:
    """The subject of each eviction, and the names of its pods."""
    return [(one.subject, [pod.name for pod in one.pods]) for one in found or ()]


def view(small: scheduling_driver.Cluster, name: str, rules: ElasticQuota = EVICTING) -> dict[str, object]:
    """The view of one quota."""
    endpoint = next(one for one in rules.shown().endpoints if one.path == "quotas/<name>")
    found = endpoint.handle(small.snapshot, {"name": name})
    assert isinstance(found, dict)
    return found


def full(
    rules: ElasticQuota = EVICTING, changed: Mapping[str, object] = MappingProxyType({})
) -> scheduling_driver.Cluster:
    """A quota of 12 that two pods fill, and a more important one that waits."""
    return cluster(
        *(small_gangs.node(name, 8) for name in ("n1", "n2")),
        small_quotas.quota("q", 0, 12),
        small_quotas.quota("r", 0, 100),
        pod("low", 4, "q", "n1"),
        pod("middle", 8, "q", "n2", priority=5),
        pod("other", 4, "r", "n1"),
        msgspec.structs.replace(pod("asks", 4, "q", priority=9), **changed),
        rules=rules,
    )


def renewed(found: effects.Eviction, small: scheduling_driver.Cluster) -> effects.Eviction | None:
    """The eviction as of the present state."""
    assert found.renewed is not None
    return found.renewed(small.snapshot)
