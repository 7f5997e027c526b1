"""Many concurrent binds under all kinds of faults: no quota is exceeded, and no answer is wrong."""

import random
import secrets
from concurrent import futures

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain import model
from app.kube.writes import binding
from app.simulation.apiserver import faults, requests
from app.store.server import embedded
from tests.support.extender import replicas

BINDING = faults.calls("POST", "/binding")
HOSTS = tuple(f"h{number}" for number in range(4))
QUOTA = 10


@pytest.mark.scenario("WP-14")
@pytest.mark.parametrize("seed", range(3))
def test_fifty_pods_ten_places_two_replicas(store_server: embedded.Server, cluster: str, seed: int) -> None:
    dice = random.Random(seed)
    with replicas.cluster(store_server.url, cluster) as shop:
        for host in HOSTS:
            shop.node(host, role="host")
        shop.policy({"host": QUOTA})
        pods = [shop.pod(f"web-{number}") for number in range(50)]
        before = shop.see()
        both = [shop.replica(), shop.replica()]
        for status in (403, 409, 500):
            shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=status, times=2)
        shop.api.faults.add(faults.FaultKind.LOSE, BINDING, times=2)
        # Some pods are asked about twice at the same time, as after a call that timed out.
        plan = [(pod, dice.choice(both), dice.choice(HOSTS)) for pod in pods]
        plan += [(pod, dice.choice(both), host) for pod, _, host in dice.sample(plan, 15)]
        dice.shuffle(plan)
        with futures.ThreadPoolExecutor(8) as pool:
            errors = list(pool.map(lambda one: attempted(*one), plan))

        assert all(
            shop.bound(pod) == host for (pod, _, host), error in zip(plan, errors, strict=True) if not error
        )
        asked = {pod.uid: host for pod, _, host in plan}
        # A Binding whose outcome is unknown keeps its place until it cannot take effect any more.
        for _ in range(3):
            for pod in dice.sample(pods, len(pods)):
                if not shop.bound(pod):
                    shop.touch(pod)  # kube-scheduler writes the failure into the pod's status
                attempted(pod, both[0], asked[pod.uid])
        shop.see()
        appended = both[0].events(after=before)
        assert shop.most("host") == QUOTA
        assert sum(shop.bound(pod) != "" for pod in pods) == QUOTA
        assert shop.quotas_used() == dict(both[1].snapshot().counts) == both[0].store.log.counts()
        for pod in pods:
            placements = [line.split()[0] for line in appended if line.endswith(f"pod:{pod.uid}")]
            last = [name for name in placements if name in ("PlacementsCommitted", "PlacementReleased")][-1:]
            assert (last == ["PlacementsCommitted"]) == (shop.bound(pod) != ""), (
                "each bound pod has a placement"
            )


def attempted(pod: model.Pod, replica: replicas.Replica, node: str) -> str:
    """The calls of kube-scheduler about a pod: no bind if filter keeps no node."""
    answer = replica.filter(pod)
    return replica.bind(pod, node) if node in answer.trace.kept else "refused by filter"


# -- whatever happens --------------------------------------------------------------------------

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
    st.tuples(st.just("late")),
    st.tuples(st.just("arrive")),
)
steps = st.lists(st.one_of(binds, binds, problems, others), min_size=4, max_size=20)

UNDER_WAY: list[tuple[str | int, ...]] = [
    ("late",),
    ("bind", 0, "h1", 1),
    ("problem", "403"),
    ("bind", 0, "m1", 1),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""A Binding arrives after another node was refused to its pod, and its place given to another pod."""

REPEATED: list[tuple[str | int, ...]] = [
    ("bind", 0, "m1", 0),
    ("problem", "LOSE"),
    ("problem", "403"),
    ("bind", 1, "h1", 0),
    ("bind", 2, "h2", 0),
]
"""A Binding is carried out on a kept connection, which is closed; its repetition on another one is denied."""

FENCED: list[tuple[str | int, ...]] = [
    ("offer", 0, 0),
    ("late",),
    ("bind", 0, "h1", 0),
    ("touch", 0),
    ("bind", 0, "m1", 1),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""A Binding arrives after the pod was written to: its place has been released, and given to another pod."""

OUTDATED: list[tuple[str | int, ...]] = [
    ("offer", 0, 0),
    ("touch", 0),
    ("late",),
    ("late",),
    ("bind", 0, "h1", 0),
    ("bind", 0, "m1", 1),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""A pod is bound for an outdated version, then for the present one, which may arrive late."""

GONE: list[tuple[str | int, ...]] = [("bind", 0, "h1", 0), ("see",), ("delete", 0), ("bind", 0, "h1", 0)]
"""A bind is repeated after its pod was bound and is gone again, which neither replica has observed yet."""


class Play:
    """One run: a cluster, two replicas, and pods that come and go."""

    def __init__(self, shop: replicas.Cluster) -> None:
        self.shop = shop
        for name in NODES:
            shop.node(name, role={"h": "host", "m": "member", "n": "none"}[name[0]])
        shop.policy({"host": 1, "member": 1})
        self.pods = [shop.pod(f"web-{number}") for number in range(PODS)]
        self.alive = [True] * PODS
        self.under_way: list[requests.Request] = []
        """Bindings that got no answer and have not taken effect yet."""
        self.ended: dict[model.Uid, model.NodeName] = {}
        """Node of each deleted pod that was bound."""
        shop.see()
        self.replicas = [shop.replica(bind=0.5), shop.replica(bind=0.5)]

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

    def late(self) -> None:
        """The next Binding is answered with an error, and takes effect some time afterwards, or never."""

        def caught(request: requests.Request) -> bool:
            if BINDING(request):
                self.under_way.append(request)
                return True
            return False

        self.shop.api.faults.add(faults.FaultKind.FAIL, caught, status=504)

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
        self.pods[number] = self.shop.pod(f"web-{number}")
        self.alive[number] = True

    def put(self, number: int) -> None:
        """Another client binds a pod to a node outside all quotas."""
        if self.alive[number] and not self.shop.bound(self.pods[number]):
            self.shop.put(self.pods[number], "n1")

    def end(self) -> None:
        """The problems are over and everything settles: no count is wrong, and none counts a pod twice."""
        self.shop.api.faults.clear()
        self.arrive()
        self.shop.see()
        self.replicas[0].settled()
        self.shop.see()
        for replica in self.replicas:
            snapshot = replica.snapshot()
            recount = {key: n for key, n in self.shop.quotas_used().items() if not key.endswith("|none")}
            counts = {key: n for key, n in snapshot.counts.items() if not key.endswith("|none")}
            assert counts == recount
            assert dict(snapshot.counts) == replica.store.log.counts()
            assert not snapshot.placements
        assert self.shop.most("host") <= 1
        assert self.shop.most("member") <= 1


@pytest.mark.scenario("WP-14", "PR-23", "LX-12")
@settings(max_examples=150, deadline=None)
@example(steps=UNDER_WAY)
@example(steps=GONE)
@example(steps=REPEATED)
@example(steps=FENCED)
@example(steps=OUTDATED)
@given(steps=steps)
def test_success_is_only_answered_for_a_bound_pod(
    store_server: embedded.Server, steps: list[tuple[str | int, ...]]
) -> None:
    with replicas.cluster(store_server.url, f"p{secrets.token_hex(6)}") as shop:
        play = Play(shop)
        for step in steps:
            play.step(*step)
        play.end()
