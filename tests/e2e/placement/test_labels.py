"""Node labels decide: the plain extender's own test, by changing labels on real nodes."""

from collections.abc import Mapping

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LABEL = "priority.lixueduan.com"
SCHEDULER = "i-scheduler-extender"
NODES = ("scheduler-1", "scheduler-2")


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """Two nodes without the label."""
    cluster.add_nodes(*NODES)
    topolog.start_scheduler(SCHEDULER)


def create(cluster: clusters.Cluster, name: str) -> str:
    cluster.apply(workloads.pod("default", name, scheduler=SCHEDULER))
    return f"/api/v1/namespaces/default/pods/{name}"


def runs_on(cluster: clusters.Cluster, path: str) -> str:
    def look() -> api_client.Object:
        return cluster.api().get(path)

    polling.eventually(lambda: look()["status"]["phase"] == "Running", "the pod runs", seen=look)
    node: str = look()["spec"]["nodeName"]
    return node


def answered(topolog: installations.Installation, name: str, verb: str) -> api_client.Object:
    """The record of the latest answer to this verb for a pod."""

    def look() -> list[api_client.Object]:
        found: list[api_client.Object] = topolog.ask(f"/apis/v1/decisions?pod=default/{name}&verb={verb}")[
            "items"
        ]
        return found

    return polling.eventually(look, f"the {verb} for {name} is recorded")[0]


def label(cluster: clusters.Cluster, **values: str | None) -> None:
    for node, value in values.items():
        cluster.label_node(node.replace("_", "-"), {LABEL: value})


def known(topolog: installations.Installation, expected: Mapping[str, str | None]) -> None:
    """Wait until Topolog has seen the labels."""

    def look() -> dict[str, str | None]:
        items = topolog.ask("/apis/v1/plugins/NodeLabelPriority/nodes")["items"]
        return {each["name"]: each["value"] for each in items}

    polling.eventually(lambda: look() == expected, f"labels are {expected}", seen=look)


@pytest.mark.scenario("LX-1", "LX-2")
def test_a_pod_waits_for_a_label_and_runs_once_there_is_one(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    path = create(cluster, "first")

    def refused() -> bool:
        condition = workloads.scheduled(cluster.api().get(path))
        return condition.get("reason") == "Unschedulable" and LABEL in condition["message"]

    polling.eventually(
        refused, "the pod is pending with the reason", seen=lambda: cluster.api().get(path)["status"]
    )
    assert f"2 node has no label {LABEL}" in workloads.scheduled(cluster.api().get(path))["message"]
    assert answered(topolog, "first", "filter")["error"] in ("", None)
    fields = f"involvedObject.name=first,reason=FailedScheduling,reportingComponent={SCHEDULER}"

    def events() -> list[api_client.Object]:
        return cluster.api().list("/api/v1/namespaces/default/events", fields=fields)

    polling.eventually(events, "an event of its scheduler")
    assert LABEL in events()[0]["message"]

    label(cluster, scheduler_1="10")
    assert runs_on(cluster, path) == "scheduler-1"


@pytest.mark.scenario("LX-3")
def test_two_labelled_nodes_pass_and_score_their_values(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    label(cluster, scheduler_2="20")
    known(topolog, {"scheduler-1": "10", "scheduler-2": "20"})
    runs_on(cluster, create(cluster, "second"))  # on either: the scheduler adds its own scores
    assert answered(topolog, "second", "filter")["kept"] == 2
    decision = answered(topolog, "second", "prioritize")
    shown = topolog.ask(f"/apis/v1/pods/default/second/explain?decision={decision['id']}")
    assert totals(shown) == {"scheduler-1": 10, "scheduler-2": 20}


def totals(explained: api_client.Object) -> dict[str, int]:
    return {each["node"]: each["total"] for each in explained["scores"]}


@pytest.mark.scenario("LX-4", "LX-5")
def test_only_the_best_node_is_left_by_filter_onlyone(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.schedulers[f"{SCHEDULER}-filter"].process.stop()
    topolog.start_scheduler(SCHEDULER, filter_verb="filter_onlyone")
    assert runs_on(cluster, create(cluster, "third")) == "scheduler-2"
    assert answered(topolog, "third", "filter_onlyone")["kept"] == 1
    label(cluster, scheduler_1="30")
    known(topolog, {"scheduler-1": "30", "scheduler-2": "20"})
    assert runs_on(cluster, create(cluster, "fourth")) == "scheduler-1"
    assert answered(topolog, "fourth", "filter_onlyone")["node"] == "scheduler-1"
