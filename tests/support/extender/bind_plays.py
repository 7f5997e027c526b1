"""Binds of few pods on few nodes by two replicas, in any order, while problems of all kinds happen."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from hypothesis import strategies as st

from app.domain import model
from app.kube.objects import decoding
from app.kube.writes import binding
from app.simulation.apiserver import faults, objects, requests
from tests.support.extender import replicas
from tests.support.store import materialised

Step = tuple[str | int, ...]
"""A method of Play and its arguments."""

BINDING = faults.calls("POST", "/binding")
NODES = ("h1", "h2", "m1", "n1")
"""Two hosts, a member, and a node in no domain."""
PODS = 4

binds = st.tuples(st.just("bind"), st.integers(0, PODS - 1), st.sampled_from(NODES), st.integers(0, 1))
problems = st.tuples(
    st.just("problem"),
    st.sampled_from(["401", "403", "404", "409", "429", "500", "503", "PROXY", "LOSE", "DROP", "DROP2"]),
)
others = st.one_of(
    st.tuples(st.just("see")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("wait")),
    st.tuples(st.just("delete"), st.integers(0, PODS - 1)),
    st.tuples(st.just("recreate"), st.integers(0, PODS - 1)),
    st.tuples(st.just("put"), st.integers(0, PODS - 1)),
    st.tuples(st.just("offer"), st.integers(0, PODS - 1), st.integers(0, 1)),
    st.tuples(st.just("touch"), st.integers(0, PODS - 1)),
    st.tuples(st.just("blind")),
    st.tuples(st.just("late"), st.sampled_from([409, 504])),
    st.tuples(st.just("arrive")),
)
steps = st.lists(st.one_of(binds, binds, problems, others), min_size=4, max_size=20)


class Play:
    """One run: a cluster, two replicas, and pods that come and go."""

    quotas: Mapping[str, int] = MappingProxyType({"host": 1, "member": 1})
    beside: Sequence[type[Any]] = ()
    """Plugins that are enabled beside those in the tree."""

    def __init__(self, shop: replicas.Cluster) -> None:
        self.shop = shop
        for name in NODES:
            shop.node(name, role={"h": "host", "m": "member", "n": "none"}[name[0]])
        shop.policy(self.quotas)
        self.pods = [self.pod(number) for number in range(PODS)]
        self.alive = [True] * PODS
        self.under_way: list[requests.Request] = []
        """Bindings that got no answer and have not taken effect yet."""
        self.ended: dict[model.Uid, model.NodeName] = {}
        """Node of each deleted pod that was bound."""
        shop.see()
        self.replicas = [shop.replica(bind=0.5, beside=self.beside) for _ in range(2)]

    def pod(self, number: int) -> model.Pod:
        """A new pod."""
        return self.shop.pod(f"web-{number}")

    def step(self, what: str | int, *how: str | int) -> None:
        getattr(self, str(what))(*how)

    def bind(self, number: int, node: str, replica: int) -> None:
        pod = self.pods[number]
        error = self.replicas[replica].bind(pod, node)
        # What must never happen (extender contract, 8): success for a pod that was not bound there.
        assert error or node in (self.shop.bound(pod), self.ended.get(pod.uid))
        assert not error or error.startswith("topolog: ")

    def problem(self, kind: str) -> None:
        api = self.shop.api.faults
        if kind.isdigit():
            api.add(faults.FaultKind.FAIL, BINDING, status=int(kind))
        elif kind == "PROXY":
            api.add(faults.FaultKind.LOSE, BINDING, proxy_status=503)
        elif kind == "LOSE":
            api.add(faults.FaultKind.LOSE, BINDING)
        else:
            api.add(faults.FaultKind.DROP, BINDING, times=4 if kind == "DROP2" else 1)

    def offer(self, number: int, replica: int) -> None:
        """kube-scheduler sends the pod as it is now: later it may be bound for this version."""
        self.replicas[replica].offer(self.pods[number])

    def touch(self, number: int) -> None:
        """Another client changes a field of a pod that scheduling does not depend on."""
        if self.alive[number]:
            self.shop.touch(self.pods[number])

    def blind(self) -> None:
        self.shop.api.faults.add(faults.FaultKind.FAIL, lambda request: request.method == "GET", status=500)

    def late(self, status: int = 504) -> None:
        """The next Binding is answered with an error, and takes effect some time afterwards, or never."""
        delay(self.shop, self.under_way, status)

    def arrive(self) -> None:
        while self.under_way:
            self.shop.api.router.answer(self.under_way.pop())

    def see(self) -> None:
        self.shop.see()

    def settle(self) -> None:
        """A Binding under way may still arrive: the controller fences it before it releases a placement."""
        self.replicas[0].settled()

    def wait(self) -> None:
        self.under_way.clear()
        for replica in self.replicas:
            replica.clock.ahead += binding.UNFENCED

    def delete(self, number: int) -> None:
        if self.alive[number]:
            pod = self.pods[number]
            self.ended[pod.uid] = self.shop.bound(pod)
            self.shop.delete(pod)
            self.alive[number] = False

    def recreate(self, number: int) -> None:
        self.delete(number)
        self.pods[number] = self.pod(number)
        self.alive[number] = True

    def put(self, number: int) -> None:
        """Another client binds a pod to a node outside all quotas."""
        if self.alive[number] and not self.shop.bound(self.pods[number]):
            self.shop.put(self.pods[number], "n1")

    def release_all(self) -> None:
        """The controller releases what will never be bound."""
        self.replicas[0].settled()

    def end(self) -> None:
        """The problems are over and everything settles: no count is wrong, and none counts a pod twice."""
        self.shop.api.faults.clear()
        self.arrive()
        self.shop.see()
        self.release_all()
        self.shop.see()
        for replica in self.replicas:
            snapshot = replica.snapshot()
            recount = {key: n for key, n in self.shop.quotas_used().items() if not key.endswith("|none")}
            counts = {key: n for key, n in snapshot.counts.items() if not key.endswith("|none")}
            assert counts == recount
            assert dict(snapshot.counts) == materialised.counts(replica.store)
            assert not snapshot.placements
        for domain, quota in self.quotas.items():
            assert self.shop.most(domain) <= quota


def delay(shop: replicas.Cluster, under_way: list[requests.Request], status: int) -> None:
    """The next Binding is answered with this status, is not carried out, and is added to ``under_way``."""

    def caught(request: requests.Request) -> bool:
        if BINDING(request):
            under_way.append(request)
            return True
        return False

    shop.api.faults.add(faults.FaultKind.FAIL, caught, status=status)


def relabelled(shop: replicas.Cluster, pod: model.Pod, labels: Mapping[str, str]) -> model.Pod:
    """A user sets labels of the pod; as kube-scheduler has it then."""

    def change(found: objects.Json) -> objects.Json:
        found["metadata"]["labels"].update(labels)
        return found

    shop.api.objects.change("pods", (pod.namespace, pod.name), change)
    return decoding.pod(msgspec.json.encode(shop.api.objects.get("pods", (pod.namespace, pod.name))))
