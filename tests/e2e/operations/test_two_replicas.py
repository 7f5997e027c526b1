"""Two schedulers, two extenders, one store: quotas hold while any of the processes is killed."""

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import urllib3

from tests.support import polling
from tests.support.e2e import clusters, installations, pod_watches, quota_witness, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE, POLICY = "race", "p"
NODES = tuple(f"n{number}" for number in range(20))
DOMAINS = {name: "host" if number < 15 else "member" for number, name in enumerate(NODES)}
QUOTA = 10
SCHEDULERS = ("one", "two")


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """Two extenders, each with its own scheduler."""
    with installations.Installation(cluster, replicas=2) as installed:
        cluster.add_nodes(*(name for name in NODES if DOMAINS[name] == "host"), labels={"kind": "host"})
        cluster.add_nodes(*(name for name in NODES if DOMAINS[name] == "member"), labels={"kind": "member"})
        cluster.add_namespace(NAMESPACE)
        for number, name in enumerate(SCHEDULERS):
            installed.start_scheduler(name, extender=number)
        yield installed


@pytest.fixture
def overseer(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> Iterator[quota_witness.Overseer]:
    with quota_witness.Overseer(cluster.api(), NAMESPACE, DOMAINS) as overseer:
        yield overseer


def recounted(cluster: clusters.Cluster) -> dict[str, int]:
    return {"host": quota_witness.recount(cluster.api(), NAMESPACE, DOMAINS)["host"]}


def agree(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """Each extender, the store and the API server count the same, and it is the quota.

    A placement whose Binding may still be carried out is counted until the controller has fenced it.
    """

    def counts() -> list[dict[str, int]]:
        with contextlib.suppress(urllib3.exceptions.HTTPError, AssertionError):
            shown = [topolog.quotas(NAMESPACE, POLICY, extender=number) for number in (0, 1)]
            return [*shown, topolog.counts(NAMESPACE, POLICY, ["host"]), recounted(cluster)]
        return []

    polling.eventually(
        lambda: counts() == [{"host": QUOTA}] * 4, "all count the same", within=30, every=0.2, seen=counts
    )


@pytest.mark.scenario("WP-14", "RL-10")
def test_fifty_pods_of_two_schedulers_never_exceed_the_quota(
    cluster: clusters.Cluster, topolog: installations.Installation, overseer: quota_witness.Overseer
) -> None:
    both = [cluster.schedulers[f"{name}-filter"].process for name in SCHEDULERS]
    for process in both:
        process.freeze()
    cluster.apply(
        workloads.policy(NAMESPACE, POLICY, "kind", "app", host=QUOTA),
        *(
            workloads.deployment(NAMESPACE, f"of-{name}", 25, policy=POLICY, app="app", scheduler=name)
            for name in SCHEDULERS
        ),
    )
    polling.eventually(lambda: len(cluster.pods(NAMESPACE)) == 50, "fifty pods are there", within=30)
    for process in both:  # now they compete for the quota
        process.thaw()
    agree(cluster, topolog)

    def refused() -> int:
        conditions = [workloads.scheduled(pod) for pod in workloads.pending(cluster, NAMESPACE)]
        return sum(each.get("reason") == "Unschedulable" for each in conditions)

    polling.eventually(lambda: refused() == 50 - QUOTA, "forty are refused", within=30, seen=refused)
    assert all(part.calls() for part in topolog.extenders), "both extenders were called"
    agree(cluster, topolog)
    overseer.catch_up()
    assert overseer.peak == {"host": QUOTA}


class Churn:
    """Deletes a random placed pod ten times a second, so that there is always capacity to fill."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self._api = cluster.api()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn", daemon=True)
        self.deleted = 0

    def __enter__(self) -> "Churn":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        dice = random.Random(7)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        while not self._ended.wait(0.1):
            placed = [pod for pod in self._api.list(path) if pod_watches.counted(pod)]
            if placed:
                self._api.delete(f"{path}/{workloads.name(dice.choice(placed))}")
                self.deleted += 1


@pytest.mark.scenario("RL-10")
def test_no_quota_is_exceeded_while_each_process_is_killed(
    cluster: clusters.Cluster, topolog: installations.Installation, overseer: quota_witness.Overseer
) -> None:
    agree(cluster, topolog)
    processes: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "recorder": (topolog.recorder.process.kill, topolog.recorder.start),
        "extender": (topolog.extenders[1].process.kill, topolog.extenders[1].start),
        "store": (topolog.store.kill, topolog.store.start),
    }
    with Churn(cluster) as churn:
        for (kill, start), _ in itertools.product(processes.values(), range(2)):
            more_are_bound(topolog)
            kill()
            time.sleep(1.0)  # long enough for every retry to meet the gap
            start()
    agree(cluster, topolog)
    assert churn.deleted > 20
    overseer.catch_up()
    assert overseer.peak == {"host": QUOTA}
    polling.eventually(
        lambda: len(cluster.pods(NAMESPACE)) == 50,
        "each deleted pod is replaced",
        seen=lambda: len(cluster.pods(NAMESPACE)),
    )


def more_are_bound(topolog: installations.Installation) -> None:
    """Wait until some more pods are bound."""

    def bound() -> int:
        return sum(line["outcome"] == "bound" for part in topolog.extenders for line in part.calls())

    before = bound()
    polling.eventually(lambda: bound() > before + 3, "pods are placed", within=30, seen=bound)
