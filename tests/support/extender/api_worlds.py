"""A small cluster in a real store, the plugins of the seeds, and the API on top of it."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import flask
from flask.testing import FlaskClient

from app import plugins, settings
from app.api import routes
from app.api.introspection import services, times
from app.domain import events, model, projections
from app.framework import registry
from app.plugins.workload_policy import policy_model
from app.store import audit_reports, schemas, stores
from app.store.bundles import bundle_restorer
from app.store.log import batches, incarnations
from app.store.server import connections, embedded
from app.verbs import candidates, contexts, decision_reports, filtering, prioritizing
from app.verbs.explain import recorded_configurations
from app.verbs.questions.shadows import shadow_comparison
from tests.support import declared, polling
from tests.support.decisions import no_cluster

POLICY_LABEL = "workload-policy/kosmos.io"
START = 1_782_900_000.0
"""The wall clock of the process: 2026-07-01T10:00:00Z."""


def node(name: str, **labels: str) -> events.NodeSeen:
    """A ready node with 8 cpu, 32 GiB and capacity for 110 pods; label names with - for _."""
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


def policy(host: int = 1, member: int = 1) -> events.ObjectObserved:
    """shop/spread: Required, Fill, over the node label ``role``."""
    return declared.observed(
        policy_model.WorkloadPolicy(
            uid="uid-spread",
            namespace="shop",
            name="spread",
            topology_key="role",
            selector=model.Selector(labels={"app": "web"}),
            allocations=(policy_model.Allocation("host", host), policy_model.Allocation("member", member)),
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
        events.PlacementsCommitted(
            placements=(model.Placement(pod("web-2"), "member-1"),), at="2026-07-01T10:00:01Z", by="topolog"
        ),
        events.PodSeen(pod=pod("web-3")),
        events.PodSeen(pod=pod("job-1", "host-2", rl_job_group="job")),
        *(
            events.Relisted(kind, since="", until="77", reason="start")
            for kind in sorted(declared.SCHEMA.names)
        ),
    ]


@dataclass
class World:
    """The store of one cluster, and one process's API on it."""

    store: stores.Store
    registry: registry.Registry
    app: flask.Flask
    now: list[float]
    """The wall clock; change its one element to move it."""
    shadows: shadow_comparison.ShadowComparison
    """Its thread is not started: a test calls ``step``."""

    @property
    def client(self) -> FlaskClient:
        """The identity of the caller."""
        return self.app.test_client()

    def append(self, *happened: events.AnyEvent) -> int:
        """Write events and return the last offset."""
        projection = projections.Projection(self.store.follower.catch_up())
        for event in happened:
            projection.apply(event)
        batch = batches.Batch(events=happened, increments=projection.increments)
        return self.store.log.append(batch).last

    def begin_again(self) -> model.Position:
        """Report the last event as lost; the position in the history that ended, once the next is read."""
        former = self.store.follower.catch_up().position
        begun = incarnations.new((former.incarnation,))
        event = events.StoreRewound(former.incarnation, former.offset, former.offset, "a test")
        guard = batches.Guard(epoch="9", writer="w")
        assert self.store.log.rewind(event, begun, found=former.incarnation, guard=guard)
        self.store.log.follow(begun)
        polling.eventually(
            lambda: self.store.follower.snapshot.position.incarnation == begun, "the new history"
        )
        return former


def plugins_of_the_seeds() -> registry.Registry:
    """All plugins as they come, JobAffinity twice as heavy."""
    return registry.Registry([plugin() for plugin in plugins.USUAL], weights={"JobAffinity": 2})


def world(
    store: stores.Store,
    chosen: registry.Registry | None = None,
    *,
    configured: settings.Settings | None = None,
    identity: Callable[[], str] = lambda: "operator@example",
    stream_seconds: float = 0.0,
) -> World:
    """The API of one process on an opened store, by default with the plugins of the seeds.

    ``configured``: the settings that it shows; ``identity``: of the caller; ``stream_seconds``: after
    which a stream ends as soon as it has caught up.
    """
    chosen, now = chosen or plugins_of_the_seeds(), [START]
    app = flask.Flask("topolog", static_folder=None)
    compared = shadows_of(store, chosen)
    given = services.Services(
        follower=store.follower,
        histories=store.histories,
        decisions=store.decisions,
        log=store.log,
        reports=audit_reports.Reports(store.client, store.keys),
        registry=chosen,
        configurations=recorded_configurations.RecordedConfigurations(
            chosen, plugins.IN_TREE, lambda: store.follower.snapshot
        ),
        wall=lambda: now[0],
        identity=identity,
        settings=settings.current(configured)
        if configured is not None
        else {"store.url": "(hidden)", "cluster": "test"},
        shadows=compared,
        bundle=bundle_restorer.opened(store.client, store.keys),
        version="0.1.0",
        stream_seconds=stream_seconds,
    )
    routes.register(app, given)
    return World(store, chosen, app, now, compared)


def shadows_of(
    store: stores.Store,
    chosen: registry.Registry,
    *,
    milliseconds: Callable[[str], int] = times.milliseconds,
    wall: Callable[[], float] = lambda: START,
) -> shadow_comparison.ShadowComparison:
    """What compares decisions with the shadows, of a process that starts now."""
    return shadow_comparison.ShadowComparison(
        follower=store.follower,
        past=store.histories,
        decisions=store.decisions,
        recorded=recorded_configurations.RecordedConfigurations(
            chosen, plugins.IN_TREE, lambda: store.follower.snapshot
        ),
        known=plugins.IN_TREE,
        milliseconds=milliseconds,
        wall=wall,
    )


Process = Callable[[], stores.Store]


@contextlib.contextmanager
def processes(
    server: embedded.Server, cluster: str, chosen: registry.Registry | None = None
) -> Iterator[Process]:
    """Opens the cluster's store as often as there are processes; their threads run.

    ``chosen``: the plugins whose labels are indexed, instead of those of the seeds.
    """
    indexed = (chosen or plugins_of_the_seeds()).indexed()
    client = connections.connect(server.url)
    schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.close()
    with contextlib.ExitStack() as opened:

        def start() -> stores.Store:
            one = stores.open_store(
                settings.Store(url=server.url),
                schema=declared.SCHEMA,
                cluster=cluster,
                indexed=indexed,
            )
            opened.callback(one.close)
            one.start()
            return one

        yield start


def filled(store: stores.Store) -> World:
    """One process, and the small cluster of history."""
    made = world(store)
    made.append(*history())
    return made


def decide(
    world: World,
    *pods: model.Pod,
    at: str = "2026-07-01T10:00:02.000Z",
    offered: Collection[model.NodeName] | None = None,
) -> list[str]:
    """Filter and prioritize as kube-scheduler would, ``at`` a time; the ids of the records, oldest first.

    ``offered``: the nodes that kube-scheduler offers; by default all.
    """
    context = contexts.Context(
        plugins=world.registry,
        state=world.store.follower,
        log=world.store.log,
        decisions=world.store.decisions,
        binder=no_cluster.NoCluster(),
        now=lambda: at,
        monotonic=lambda: 0.0,
        digest=world.registry.digest,
    )
    for pod in pods:
        known = world.store.follower.catch_up().nodes
        given = candidates.Candidates(sorted(known if offered is None else offered))
        answer = filtering.run(context, pod, given)
        decision_reports.report(context, "filter", decision_reports.filtered(answer, given), 0.0012)
        if answer.trace.kept:
            scored = prioritizing.run(context, pod, given)
            decision_reports.report(context, "prioritize", decision_reports.scored(scored, given), 0.0004)
    world.store.decisions.stop()
    world.store.decisions.start()
    return [decision.id for decision in world.store.decisions.latest(limit=1000)][::-1]
