"""A small cluster in a real store, the plugins of the seeds, and the API on top of it."""

from dataclasses import dataclass

import flask
from flask.testing import FlaskClient

from app import plugins
from app.api import introspecting, services
from app.domain import events, model, projecting
from app.framework import registry
from app.store import logs, opening, reports

POLICY_LABEL = "workload-policy/kosmos.io"
START = 1_782_900_000.0
"""The wall clock of the process: 2026-07-01T10:00:00Z."""


def node(name: str, **labels: str) -> events.NodeSeen:
    """A ready node with 8 cpu, 32 GiB and room for 110 pods; label names with - for _."""
    return events.NodeSeen(
        node=model.Node(
            name=name,
            uid=f"uid-{name}",
            labels={key.replace("_", "-"): value for key, value in labels.items()},
            allocatable={"cpu": 8000, "memory": 32 << 30, "pods": 110},
            ready=True,
        )
    )


def pod(name: str, node: str = "", **labels: str) -> model.Pod:
    """A pod of the policy shop/spread; label names with - for _."""
    return model.Pod(
        uid=f"uid-{name}",
        namespace="shop",
        name=name,
        labels={"app": "web", POLICY_LABEL: "spread"}
        | {key.replace("_", "-"): value for key, value in labels.items()},
        requests={"cpu": 500, "memory": 1 << 30},
        node=node,
        created="2026-07-01T10:00:00Z",
    )


def pod_seen(name: str, node: str = "", **labels: str) -> events.PodSeen:
    """The watch shows the pod."""
    return events.PodSeen(pod=pod(name, node, **labels))


def policy(host: int = 1, member: int = 1) -> events.PolicySeen:
    """shop/spread: Required, Fill, over the node label ``role``."""
    return events.PolicySeen(
        policy=model.WorkloadPolicy(
            uid="uid-spread",
            namespace="shop",
            name="spread",
            topology_key="role",
            selector=model.Selector(labels={"app": "web"}),
            allocations=(model.Allocation("host", host), model.Allocation("member", member)),
            type="Required",
            method="Fill",
        )
    )


def history() -> list[events.AnyEvent]:
    """Two members, four hosts, two full domains, one pod in flight, one that waits."""
    return [
        *(node(f"member-{at}", role="member", priority_lixueduan_com="10") for at in (1, 2)),
        *(node(f"host-{at}", role="host") for at in (1, 2, 3, 4)),
        policy(),
        events.PodSeen(pod=pod("web-1", "host-1")),
        events.PodPlaced(pod=pod("web-2"), node="member-1", at="2026-07-01T10:00:01Z", by="topolog"),
        events.PodSeen(pod=pod("web-3")),
        events.PodSeen(pod=pod("job-1", "host-2", rl_job_group="job")),
        *(events.Relisted(kind, since="", until="77", reason="start") for kind in sorted(model.KINDS)),
    ]


@dataclass
class World:
    """The store of one cluster, and one process's API on it."""

    store: opening.Store
    registry: registry.Registry
    app: flask.Flask
    now: list[float]
    """The wall clock; change its one element to move it."""

    @property
    def client(self) -> FlaskClient:
        """Somebody who asks."""
        return self.app.test_client()

    def append(self, *happened: events.AnyEvent) -> int:
        """Write events and return the last offset."""
        projection = projecting.Projection(self.store.follower.catch_up())
        for event in happened:
            projection.apply(event)
        batch = logs.Batch(events=happened, increments=projection.increments)
        return self.store.log.append(batch).last


def plugins_of_the_seeds() -> registry.Registry:
    """All plugins as they come, JobAffinity twice as heavy."""
    return registry.Registry([plugin() for plugin in plugins.IN_TREE], weights={"JobAffinity": 2})


def world(store: opening.Store) -> World:
    """The API of one process on an opened store."""
    chosen, now = plugins_of_the_seeds(), [START]
    app = flask.Flask("topolog", static_folder=None)
    given = services.Services(
        follower=store.follower,
        histories=store.histories,
        decisions=store.decisions,
        log=store.log,
        reports=reports.Reports(store.client, store.keys),
        registry=chosen,
        wall=lambda: now[0],
        identity=lambda: "operator@example",
        settings={"store.url": "(hidden)", "cluster": "test"},
        version="0.1.0",
    )
    introspecting.register(app, given)
    return World(store, chosen, app, now)
