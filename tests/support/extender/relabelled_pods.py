"""A cluster for pods whose labels change while they are bound: one place of a policy, and two gangs."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from app.domain import model
from app.kube.writes import binding
from app.simulation import populations
from tests.support.extender import replicas

OTHER = {"app": "other"}
BEHIND = "the log does not show the pod as it is yet; nothing was bound, try again"
FULL = "no capacity"


@contextlib.contextmanager
def scene(url: str, cluster: str) -> Iterator[replicas.Cluster]:
    """A host with capacity for one pod of the policy, and a group of two; the log is up to date."""
    with replicas.cluster(url, cluster) as made:
        node = populations.node("h1", {replicas.KEY: "host"})
        node["status"]["allocatable"] |= {"cpu": "8", "memory": "8Gi", "pods": "110"}
        made.api.objects.create("nodes", node)
        made.policy({"host": 1})
        for name in ("a", "b"):
            metadata = {"namespace": replicas.NAMESPACE, "name": name}
            made.api.objects.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": 2}})
        made.see()
        yield made


def replica(shop: replicas.Cluster, beside: Sequence[type[object]] = ()) -> replicas.Replica:
    """A replica whose sleeps are all that takes time."""
    one = shop.replica(beside=beside)
    one.clock.passes = True
    return one


def pods(shop: replicas.Cluster, names: str, labels: dict[str, str]) -> list[model.Pod]:
    """Pods with these labels that the log shows."""
    made = [shop.pod(name, labels) for name in names.split()]
    shop.see()
    return made


def before_each(
    one: replicas.Replica, monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], None]
) -> list[binding.Carried]:
    """Have something happen before each Binding, given how many were sent before; what they carried."""
    bind, sent = one.context.binder.bind, list[binding.Carried]()

    def late(
        namespace: str, name: str, uid: str, to: str, *, carried: binding.Carried, timeout: float
    ) -> binding.Outcome:
        happens(len(sent))
        sent.append(carried)
        return bind(namespace, name, uid, to, carried=carried, timeout=timeout)

    monkeypatch.setattr(one.context.binder, "bind", late)
    return sent
