"""The recorder between a simulated cluster and a real store.

After each story the counts in the store equal the fold of the log. Not here: the reflector's own
rules (tests/kube), the append function (tests/store).
"""

import gc
from collections.abc import Callable

import pytest

from app import settings
from app.domain import events, model, projections
from app.kube.watch import kinds, reflectors
from app.simulation import populations
from app.simulation.apiserver import faults
from app.store import errors, schemas, stores
from app.store.log import batches
from app.store.server import connections
from tests.support import declared
from tests.support.kube import large_populations
from tests.support.store import crash_safe_server
from tests.support.workers import clusters, recordings
from workers.recorder import batch_builder, inboxes, recorders

Start = Callable[[], recordings.Recording]


def zones(cluster: clusters.Cluster, host: int = 3, member: int = 2) -> None:
    for at in range(host):
        cluster.node(f"host-{at}", zone="host")
    for at in range(member):
        cluster.node(f"member-{at}", zone="member")


def kinds_of(store: stores.Store) -> list[str]:
    return [type(entry.event).__name__ for entry in store.log.read(0)]


def recorded_events(store: stores.Store, kind: type[events.Event]) -> list[events.AnyEvent]:
    return [entry.event for entry in store.log.read(0) if isinstance(entry.event, kind)]


def place(store: stores.Store, pod: model.Pod, node: str) -> None:
    """A placement, as an extender writes it."""
    snapshot = store.follower.catch_up()
    event = events.placed(pod, node)
    projection = projections.Projection(snapshot)
    projection.apply(event)
    subjects = declared.SCHEMA.footprint(pod, node)
    guard = batches.Guard(versions={subject: snapshot.version(subject) for subject in subjects})
    store.log.append(batches.Batch(events=(event,), increments=projection.increments), guard)


# -- what is recorded -------------------------------------------------------------------------


def test_everything_is_recorded_before_it_is_ready(recorded: Start, cluster_side: clusters.Cluster) -> None:
    cluster_side.server.objects.load("nodes", large_populations.nodes(40))
    cluster_side.server.objects.load("pods", large_populations.pods(1_700, on=40))
    cluster_side.policy("p", namespace="team-000", key=populations.ZONE, app="app-0", **{"zone-0": 1})
    snapshot = recorded().ready().snapshot
    assert (len(snapshot.nodes), len(snapshot.pods), len(snapshot.all(declared.POLICIES))) == (40, 1_700, 1)
    assert set(snapshot.listed) == set(declared.SCHEMA.names)
    assert sum(snapshot.counts.values()) == large_populations.PODS_PER_WORKLOAD


def test_an_echo_is_not_an_event(recorded: Start, cluster_side: clusters.Cluster) -> None:
    cluster_side.node("n")
    recording = recorded().ready()
    before = recording.snapshot.offset
    cluster_side.patch("/api/v1/nodes/n/status", {"status": {"nodeInfo": {"kernelVersion": "6"}}})
    cluster_side.label_node("n", zone="z")
    snapshot = recording.until(lambda one: one.nodes["n"].labels.get("zone") == "z", "the label")
    assert snapshot.offset == before + 1


def test_a_pod_recreated_under_its_name(recorded: Start, cluster_side: clusters.Cluster) -> None:
    recording = recorded().ready()
    first = cluster_side.pod("p")
    cluster_side.end_pod("p")
    second = cluster_side.pod("p")
    snapshot = recording.until(lambda one: second.uid in one.pods, "the second pod")
    assert first.uid not in snapshot.pods
    assert snapshot.pod_named("ns", "p") == second


def test_an_undecodable_object_is_quarantined_and_the_watch_continues(
    recorded: Start, cluster_side: clusters.Cluster
) -> None:
    store = cluster_side.server.objects
    store.create("pods", {"metadata": {"name": "bad", "namespace": "ns", "labels": {"a": 1}}})
    recording = recorded().ready()
    store.create("nodes", {"metadata": {"name": "worse", "labels": []}})
    cluster_side.node("good")
    recording.until(lambda one: "good" in one.nodes, "the node behind the poison")
    found = recorded_events(recording.store, events.Quarantined)
    assert [(one.kind, one.object) for one in found if isinstance(one, events.Quarantined)] == [
        ("pods", "ns/bad"),
        ("nodes", "worse"),
    ]


def test_a_cluster_without_the_definition_and_with_it_later(
    recorded: Start, cluster_side: clusters.Cluster
) -> None:
    zones(cluster_side)
    cluster_side.server.objects.serve("workloadpolicies", False)
    for at in range(2):
        cluster_side.pod(f"p{at}", node=f"host-{at}", app="x")
    recording = recorded().ready()
    assert recording.snapshot.listed["workloadpolicies"] == ""
    cluster_side.server.objects.serve("workloadpolicies", True)
    cluster_side.policy("p", host=3)
    recording.until_counts(host=2)
    cluster_side.server.objects.serve("workloadpolicies", False)
    recording.until(lambda one: not one.all(declared.POLICIES), "the policies are gone with their definition")
    recording.until_counts()


def test_the_collector_runs_although_a_kind_is_never_listed(
    recorded: Start, cluster_side: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "FIRST_LISTS", 0.1)
    zones(cluster_side)
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, lambda asked: "/workloadpolicies" in asked.path, times=10**6, status=403
    )
    recording = recorded()
    recording.until(lambda one: "nodes" in one.listed, "the nodes are listed")
    recordings.eventually(gc.isenabled, "the collector runs")
    assert not recording.recorder.ready


# -- counts -----------------------------------------------------------------------------------


@pytest.mark.scenario("WP-7")
def test_a_later_policy_counts_what_already_runs(recorded: Start, cluster_side: clusters.Cluster) -> None:
    zones(cluster_side)
    for at, node in enumerate(("host-0", "host-1", "member-0")):
        cluster_side.pod(f"p{at}", node=node, app="x")
    cluster_side.pod("other", node="host-2", app="y")
    cluster_side.pod("elsewhere", node="host-2", namespace="other", app="x")
    recording = recorded().ready()
    recording.until_counts()
    cluster_side.policy("p", host=3, member=1)
    recording.until_counts(host=2, member=1)


@pytest.mark.scenario("WP-3")
def test_a_terminating_pod_frees_its_place(recorded: Start, cluster_side: clusters.Cluster) -> None:
    zones(cluster_side)
    cluster_side.policy("p", host=3, member=1)
    for at in range(3):
        cluster_side.pod(f"p{at}", node=f"host-{at}", app="x")
    recording = recorded().ready()
    recording.until_counts(host=3)
    cluster_side.delete_pod("p1")
    recording.until_counts(host=2)
    assert recording.snapshot.pod_named("ns", "p1") is not None
    cluster_side.end_pod("p1")
    recording.until(lambda one: one.pod_named("ns", "p1") is None, "the pod is gone")
    recording.until_counts(host=2)


@pytest.mark.scenario("WP-4")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_place(recorded: Start, cluster_side: clusters.Cluster, phase: str) -> None:
    zones(cluster_side)
    cluster_side.policy("p", host=3)
    for at in range(2):
        cluster_side.pod(f"p{at}", node=f"host-{at}", app="x")
    recording = recorded().ready()
    recording.until_counts(host=2)
    cluster_side.phase("p0", phase)
    recording.until_counts(host=1)


@pytest.mark.scenario("WP-12")
def test_nodes_that_change_their_labels_move_the_counts(
    recorded: Start, cluster_side: clusters.Cluster
) -> None:
    zones(cluster_side)
    cluster_side.policy("p", host=3, member=2)
    for at, node in enumerate(("host-0", "host-1", "host-2", "member-0")):
        cluster_side.pod(f"p{at}", node=node, app="x")
    recording = recorded().ready()
    recording.until_counts(host=3, member=1)
    before = recording.snapshot.offset
    cluster_side.label_node("host-2", zone="member")
    recording.until_counts(host=2, member=2)
    assert recording.snapshot.offset == before + 1
    cluster_side.label_node("host-1", zone=None)
    recording.until_counts(host=1, member=2)
    cluster_side.client.delete("/api/v1/nodes/member-0")
    recording.until_counts(host=1, member=1)


@pytest.mark.scenario("WP-13")
def test_a_policy_that_is_edited_is_counted_again(recorded: Start, cluster_side: clusters.Cluster) -> None:
    for at in range(4):
        cluster_side.node(f"n{at}", zone="host" if at < 3 else "member", rack=f"r{at % 2}")
    cluster_side.policy("p", host=3, member=1)
    for at in range(4):
        cluster_side.pod(f"p{at}", node=f"n{at}", app="x", tier=f"t{at % 2}")
    recording = recorded().ready()
    recording.until_counts(host=3, member=1)
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 2}])
    recording.until(lambda one: one.all(declared.POLICIES)["ns/p"].desired("host") == 2, "the quota")
    recording.until_counts(host=3, member=1)  # no pod is evicted
    cluster_side.edit_policy("p", topologyKey="rack")
    recording.until_counts("rack", r0=2, r1=2)
    cluster_side.edit_policy("p", labelSelector={"matchLabels": {"tier": "t0"}})
    recording.until_counts("rack", r0=2)
    cluster_side.edit_policy("p", topologyKey="")
    recording.until_counts()
    assert recording.snapshot.all(declared.POLICIES)["ns/p"].errors == ("spec.topologyKey is empty",)


# -- together with extenders ------------------------------------------------------------------


def test_a_placement_is_confirmed_by_the_watch(recorded: Start, cluster_side: clusters.Cluster) -> None:
    zones(cluster_side)
    cluster_side.policy("p", host=3)
    pod = cluster_side.pod("p0", app="x")
    recording = recorded().ready()
    place(recording.store, pod, "host-0")
    recording.until_counts(host=1)
    cluster_side.bind("p0", "host-0")
    snapshot = recording.until(lambda one: pod.uid not in one.placements, "the placement is confirmed")
    assert snapshot.pods[pod.uid].node == "host-0"
    recording.until_counts(host=1)


def test_changes_that_follow_soon_wait_for_the_next_append(
    recorded: Start, cluster_side: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is at once when it is full."""
    zones(cluster_side)
    recording = recorded().ready()
    # They fill a batch, too; one of each kind may be on its way.
    cluster_side.server.router.bookmarks = 3600.0
    cluster_side.label_node("host-0", zone="other")
    recording.until(lambda one: one.nodes["host-0"].labels["zone"] == "other", "the label")
    before = recording.snapshot.offset
    waits: list[float] = []
    take = inboxes.Inbox.take

    def noted(inbox: inboxes.Inbox, limit: int, *, linger: float, timeout: float) -> list[reflectors.Change]:
        waits.append(linger)
        return take(inbox, limit, linger=linger, timeout=timeout)

    monkeypatch.setattr(inboxes.Inbox, "take", noted)
    # Longer than this test may take. The recorder may be waiting already, for as long as it was before.
    monkeypatch.setattr("workers.recorder.recorders.PACE", 3600.0)
    recordings.eventually(lambda: max(waits, default=0.0) > recordings.LIMIT, "the recorder waits so long")
    first = cluster_side.pod("p0")
    recordings.eventually(lambda: recording.recorder._inbox.length > 0, "the pod has arrived")
    assert first.uid not in recording.snapshot.pods
    for at in range(1, batch_builder.MAX_EVENTS):
        cluster_side.pod(f"p{at}")
    # What comes after the batch waits again.
    recording.until(lambda one: len(one.pods) > 200, "the pods")
    appended = recording.store.log.read(before)
    pods = [entry for entry in appended if isinstance(entry.event, events.PodSeen)]
    assert len({entry.at_ms for entry in pods[:200]}) == 1


def test_concurrent_writers_lose_nothing(
    recorded: Start, again: Callable[[], stores.Store], cluster_side: clusters.Cluster
) -> None:
    """Another process places the pods while they are listed, observed, bound and relabelled."""
    zones(cluster_side)
    cluster_side.policy("p", host=30, member=30)
    recording = recorded().ready()
    extender = again()
    for at in range(40):
        pod = cluster_side.pod(f"p{at}", app="x")
        for _ in range(50):
            try:
                place(extender, pod, f"host-{at % 3}")
                break
            except errors.Conflict:
                continue
        cluster_side.bind(f"p{at}", f"host-{at % 3}")
        if at == 20:
            cluster_side.label_node("host-2", zone="member")
    recording.until(lambda one: not one.placements and len(one.pods) == 40, "all placements are confirmed")
    moved = sum(at % 3 == 2 for at in range(40))
    recording.until_counts(host=40 - moved, member=moved)


# -- restarts and gaps ------------------------------------------------------------------------


def test_a_restart_resumes_without_a_list(recorded: Start, cluster_side: clusters.Cluster) -> None:
    cluster_side.node("before")
    first = recorded().ready()
    first.stop()
    cluster_side.node("between")
    lists = sum(map(faults.lists("nodes"), cluster_side.server.seen))
    second = recorded().ready()
    second.until(lambda one: "between" in one.nodes, "what came in between")
    assert sum(map(faults.lists("nodes"), cluster_side.server.seen)) == lists


@pytest.mark.scenario("WP-15")
def test_missed_changes_are_found_by_the_next_list(recorded: Start, cluster_side: clusters.Cluster) -> None:
    zones(cluster_side)
    cluster_side.policy("p", host=3)
    for at in range(3):
        cluster_side.pod(f"p{at}", node=f"host-{at}", app="x")
    first = recorded().ready()
    first.until_counts(host=3)
    first.stop()
    cluster_side.end_pod("p0")
    cluster_side.client.delete("/api/v1/nodes/host-2")
    for kind in kinds.watched(declared.SCHEMA):
        cluster_side.server.objects.compact(kind.name)
    second = recorded().ready()
    second.until_counts(host=1)
    gone = recorded_events(second.store, events.PodGone)
    assert [(one.name, one.assumed) for one in gone if isinstance(one, events.PodGone)] == [("p0", True)]
    reasons = [
        one.reason
        for one in recorded_events(second.store, events.Relisted)
        if isinstance(one, events.Relisted)
    ]
    assert sum(reason.startswith("410 Expired") for reason in reasons) >= 2


def test_a_proxy_that_loses_its_way_ends_no_pod(recorded: Start, cluster_side: clusters.Cluster) -> None:
    zones(cluster_side)
    cluster_side.policy("p", host=1)
    cluster_side.pod("w0", node="host-0", app="x")
    recording = recorded().ready()
    recording.until_counts(host=1)
    before = recording.store.follower.catch_up().offset
    lost = cluster_side.server.faults.add(
        faults.FaultKind.DROP, lambda request: request.method == "GET", proxy_status=404, times=30
    )
    cluster_side.server.disconnect()
    recordings.eventually(lambda: lost.struck == 30, "the proxy answers")
    cluster_side.pod("w1", node="host-1", app="x")
    recording.until_counts(host=2)
    after = [entry.event for entry in recording.store.log.read(before)]
    assert not [one for one in after if isinstance(one, events.PodGone | events.NodeGone | events.ObjectGone)]


def test_a_pod_that_is_only_placed_is_not_missing(
    recorded: Start, again: Callable[[], stores.Store], cluster_side: clusters.Cluster
) -> None:
    """A list may be older than the pod that an extender has just placed."""
    zones(cluster_side)
    unseen = model.Pod(uid="u", namespace="ns", name="new", labels={"app": "x"})
    place(again(), unseen, "host-0")
    snapshot = recorded().ready().snapshot
    assert "u" in snapshot.placements


def test_a_store_that_goes_away_and_comes_back(
    cluster_side: clusters.Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = crash_safe_server.CrashSafeServer(tmp_path_factory.mktemp("store"), append_only=True)
    try:
        client = connections.connect(server.url)
        schemas.migrate(client, declared.names("c"), declared.SCHEMA)
        client.close()
        store = stores.open_store(
            settings.Store(url=server.url, socket_timeout=0.5),
            schema=declared.SCHEMA,
            cluster="c",
        )
        recording = recordings.Recording(store, cluster_side).ready()
        server.kill()
        cluster_side.node("n")
        recordings.eventually(lambda: bool(recording.recorder.problem), "the recorder notices")
        assert not recording.recorder.ready
        server.restart()
        recording.until(lambda one: "n" in one.nodes, "what came meanwhile")
        recordings.eventually(lambda: recording.recorder.ready, "the recorder is ready again")
        recording.stop()
        store.close()
    finally:
        server.stop()
