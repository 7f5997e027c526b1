"""Changes of a sound cluster; most of them make one thing wrong."""

import datetime
from collections.abc import Callable
from typing import Any

from app.doctor.cluster import rights
from app.store.log import incarnations
from tests.support import manifests
from tests.support.doctor import clusters, sound_clusters

Json = dict[str, Any]
HOME = clusters.HOME
LEASES = {"recorder": "topolog-recorder", "controller": "topolog-controller"}


def denied(account: str, verb: str, group: str, resource: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        user = f"system:serviceaccount:{HOME}:topolog-{account}"
        cluster.api.router.reviews.denied.add((user, verb, group, resource))

    return change


def in_turn(*changes: Callable[[clusters.Cluster], None]) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        for one in changes:
            one(cluster)

    return change


def allowed_too_much(cluster: clusters.Cluster) -> None:
    user = f"system:serviceaccount:{HOME}:topolog-extender"
    cluster.api.router.reviews.denied.remove((user, "get", "", "secrets"))


def granted(verb: str, resource: str) -> Callable[[clusters.Cluster], None]:
    """A RoleBinding of Topolog's namespace gives the recorder a right."""

    def change(cluster: clusters.Cluster) -> None:
        user = f"system:serviceaccount:{HOME}:topolog-recorder"
        cluster.api.router.reviews.granted.add(((user, verb, "", resource), HOME))

    return change


def with_account(*, scheduler: bool, deletes: bool = True) -> Callable[[clusters.Cluster], None]:
    """The extenders run as topolog-scheduler, whose rights include theirs.

    ``scheduler``: beside a kube-scheduler; ``deletes``: it may delete pods, as a kube-scheduler has to.
    """

    def change(cluster: clusters.Cluster) -> None:
        beside = [{"name": "kube-scheduler", "image": "registry.example/kube-scheduler:v1.37.0"}]
        containers = [{"name": "c", "image": "example/app:1"}, *(beside if scheduler else ())]
        account = "topolog-scheduler"
        for number in range(2):
            name = f"topolog-extender-{number}"
            cluster.change("pods", HOME, name, serviceAccountName=account, containers=containers)
        for right in rights.EXCESS:
            if (right.verb, right.resource) != ("delete", "pods") or not deletes:
                sound_clusters.deny(cluster, account, right)

    return change


def unbound_scheduler(cluster: clusters.Cluster) -> None:
    """The ClusterRoleBinding of the account that the extenders run as is missing."""
    with_account(scheduler=True, deletes=False)(cluster)
    for right in rights.needed((), (), namespace=HOME, leases=LEASES)["extender"]:
        sound_clusters.deny(cluster, "topolog-scheduler", right)


def outside(cluster: clusters.Cluster) -> None:
    """Topolog runs outside the cluster: no pod and no account of it are there."""
    for account in manifests.objects("ServiceAccount", "rbac"):
        cluster.api.objects.remove("serviceaccounts", (HOME, account["metadata"]["name"]))
    for pod in sound_clusters.pods():
        cluster.api.objects.remove("pods", (HOME, pod))


EVICTING = {
    "TOPOLOG_PLUGINS_ENABLED": "*,ElasticQuota",
    "TOPOLOG_PLUGINS_ARGS": '{"ElasticQuota": {"overuse": "evict"}}',
}


def evicting(cluster: clusters.Cluster) -> None:
    cluster.environ |= EVICTING


def allowed_to_evict(cluster: clusters.Cluster) -> None:
    user = f"system:serviceaccount:{HOME}:topolog-controller"
    cluster.api.router.reviews.denied.remove((user, "create", "", "pods/eviction"))


def without_its_controller(cluster: clusters.Cluster) -> None:
    cluster.environ |= {**EVICTING, "TOPOLOG_PLUGINS_CONTROLLERS": "*,-ElasticQuota"}


def evicting_by_right(cluster: clusters.Cluster) -> None:
    evicting(cluster)
    allowed_to_evict(cluster)


def misspelled(cluster: clusters.Cluster) -> None:
    cluster.environ |= {**EVICTING, "TOPOLOG_PLUGINS_ARGS": '{"ElasticQuota": {"overuse": "evicts"}}'}


def of_version(version: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.router.reviews.version = version

    return change


def definition(edit: Callable[[Json], None] | None) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        key = ("", "workloadpolicies.kosmos.io")
        if edit is None:
            cluster.api.objects.remove("customresourcedefinitions", key)
            return

        def edited(one: Json) -> Json:
            edit(one["spec"]["versions"][0])
            return one

        cluster.api.objects.change("customresourcedefinitions", key, edited)

    return change


def status(name: str, **fields: object) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.objects.change(
            "pods", (HOME, name), lambda one: {**one, "status": {**sound_clusters.READY, **fields}}
        )

    return change


def of_template(revision: str) -> Callable[[clusters.Cluster], None]:
    """The bundled store crash-loops, and its pod was made from this revision; the current one is ``b``."""

    def change(cluster: clusters.Cluster) -> None:
        name = "topolog-valkey"
        looping = waiting("CrashLoopBackOff", "back-off 5m0s")
        status(f"{name}-0", conditions=[], initContainerStatuses=[looping])(cluster)
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "u", "controller": True}

        def owned(one: Json) -> Json:
            labels = {**one["metadata"]["labels"], "controller-revision-hash": revision}
            return {**one, "metadata": {**one["metadata"], "labels": labels, "ownerReferences": [owner]}}

        cluster.api.objects.change("pods", (HOME, f"{name}-0"), owned)
        revisions = {"currentRevision": "a", "updateRevision": "b"}
        cluster.add(
            "statefulsets",
            {"metadata": {"name": name, "namespace": HOME}, "spec": {}, "status": revisions},
        )

    return change


def waiting(reason: str, message: str) -> Json:
    return {"name": "c", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}


def on_one_node(cluster: clusters.Cluster) -> None:
    cluster.change("pods", HOME, "topolog-extender-1", nodeName="n0")


def evicted(name: str, node: str) -> Callable[[clusters.Cluster], None]:
    """A further extender, whose pod the kubelet has ended; its object stays."""

    def change(cluster: clusters.Cluster) -> None:
        sound_clusters.pod(cluster, name, "extender", node)
        status(name, phase="Failed", reason="Evicted", conditions=[])(cluster)

    return change


def terminating(name: str, component: str, *, seconds: float) -> Callable[[clusters.Cluster], None]:
    """A further pod that was deleted and is not ready any more; its grace period ends in ``seconds``."""

    def change(cluster: clusters.Cluster) -> None:
        sound_clusters.pod(cluster, name, component, "n2")
        status(name, conditions=[])(cluster)
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        stamp = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        cluster.api.objects.change(
            "pods",
            (HOME, name),
            lambda one: {**one, "metadata": {**one["metadata"], "deletionTimestamp": stamp}},
        )

    return change


def only_terminating(cluster: clusters.Cluster) -> None:
    """One extender, beside one that terminates on another node."""
    removed("pods", "topolog-extender-1")(cluster)
    terminating("topolog-extender-2", "extender", seconds=20)(cluster)


def replaced(cluster: clusters.Cluster) -> None:
    removed("pods", "topolog-extender-1")(cluster)
    evicted("topolog-extender-2", "n2")(cluster)


def removed(resource: str, name: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.objects.remove(resource, (HOME, name))

    return change


def overdue(cluster: clusters.Cluster) -> None:
    cluster.change("leases", HOME, "topolog-recorder", renewTime="2026-01-01T00:00:00.000000Z")


def of_another_cluster(cluster: clusters.Cluster) -> None:
    sound_clusters.claim(cluster, kubernetes="12345678-1234-1234-1234-123456789012")


def unclaimed(cluster: clusters.Cluster) -> None:
    sound_clusters.claim(cluster, kubernetes="")


def of_a_later_etcd(cluster: clusters.Cluster) -> None:
    sound_clusters.claim(cluster, epoch="999999999")


def of_an_earlier_era(cluster: clusters.Cluster) -> None:
    sound_clusters.claim(cluster, epoch=incarnations.next_era("999999999"))


def without_priority(cluster: clusters.Cluster) -> None:
    cluster.change("pods", HOME, "topolog-extender-1", priorityClassName="")


def given_up(cluster: clusters.Cluster) -> None:
    cluster.change("leases", HOME, "topolog-controller", holderIdentity="")


def example_address(cluster: clusters.Cluster) -> None:
    rule = {"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]}
    metadata = {"name": "topolog", "namespace": HOME}
    spec = {"policyTypes": ["Egress"], "egress": [rule]}
    cluster.add("networkpolicies", {"metadata": metadata, "spec": spec})


def own_address(cluster: clusters.Cluster) -> None:
    rules = [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}, {"podSelector": {}}]}, {}]
    metadata = {"name": "topolog", "namespace": HOME}
    cluster.add("networkpolicies", {"metadata": metadata, "spec": {"ingress": rules}})
