"""A placement without a Binding, as a killed extender leaves it, on real parts: fenced, then released.

Nothing schedules its pod, so nothing but the controller writes to it, with the rights of deploy/rbac.
"""

from collections.abc import Iterator

import pytest

from app import plugins, settings
from app.domain import events, model, projections
from app.framework import registry
from app.kube.writes import pod_conditions
from app.store import stores
from app.store.log import batches
from tests.support import declared, polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "fence"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/orphan"
WITHIN = 40.0
"""Seconds; a Binding that nothing fences is waited for for 75."""


@pytest.fixture
def orphan(cluster: clusters.Cluster, topolog: installations.Installation) -> Iterator[api_client.Object]:
    """A pod that is placed on a node in the log, and whose Binding was never answered."""
    cluster.add_nodes("n1", labels={"zone": "a"})
    cluster.add_namespace(NAMESPACE)
    labels = {"app": "app", workloads.POLICY_LABEL: "p"}
    cluster.apply(
        workloads.policy(NAMESPACE, "p", "zone", "app", a=1),
        workloads.pod(NAMESPACE, "orphan", scheduler="none", **labels),
    )
    store = stores.open_store(
        settings.Store(url=topolog.store.url),
        schema=declared.SCHEMA,
        cluster="default",
        indexed=registry.Registry([plugin() for plugin in plugins.USUAL]).indexed(),
    )
    recorded = polling.eventually(
        lambda: store.follower.catch_up().pod_named(NAMESPACE, "orphan"), "the pod is recorded", within=20
    )
    polling.eventually(
        lambda: topolog.quotas(NAMESPACE, "p") == {"a": 0}, "so are policy and node", within=20
    )
    assert recorded is not None
    found = cluster.api().get(POD)
    placed = events.PlacementsCommitted(
        placements=(model.Placement(recorded, "n1", resource_version=found["metadata"]["resourceVersion"]),)
    )
    projection = projections.Projection(store.follower.catch_up())
    projection.apply(placed)
    store.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    yield found
    store.close()


def test_an_orphaned_placement_is_fenced_and_released_and_its_late_binding_refused(
    cluster: clusters.Cluster, topolog: installations.Installation, orphan: api_client.Object
) -> None:
    def counted() -> dict[str, int]:
        return topolog.counts(NAMESPACE, "p", ["a"])

    assert counted() == {"a": 1}
    polling.eventually(lambda: counted() == {"a": 0}, "the place is free", within=WITHIN, seen=counted)
    now, before = cluster.api().get(POD), orphan["metadata"]
    messages = {each["type"]: each["message"] for each in now["status"]["conditions"]}
    assert f"node n1 for version {before['resourceVersion']} " in messages[pod_conditions.FENCED]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: before[key] for key in ("name", "uid", "resourceVersion")},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    with pytest.raises(api_client.ApiError) as refused:
        cluster.api().create(f"{POD}/binding", binding)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert cluster.api().get(POD) == now
