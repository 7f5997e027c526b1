"""An etcd that is restored from a backup while a recorder leads: versions go back, and the epoch stays."""

from app.domain import events
from app.kube.election import electors
from app.store import stores
from tests.support.workers import clusters, leadership_events, recordings

SILENCE = 1.0
"""Seconds after which a watch counts as stalled; the API server sends a bookmark every 0.2 s."""


def lose_versions(cluster: clusters.Cluster) -> None:
    """Changes of a kind that is not watched, far more than the renewals of a Lease within the silence."""
    for at in range(5_000):
        meta = {"namespace": "ns", "name": f"e{at}"}
        cluster.server.objects.create("events", {"metadata": meta})


def test_a_leader_lists_again_what_it_watched_at_versions_that_etcd_lost(
    store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    # The holder keeps the Lease, also on a busy machine.
    durations = electors.Durations()
    recording = recordings.Recording(store, cluster_side, silence=SILENCE, durations=durations).ready()
    try:
        cluster_side.node("kept")
        recording.until(lambda one: "kept" in one.nodes, "the node is recorded")
        backup = cluster_side.server.objects.backup()
        lose_versions(cluster_side)
        cluster_side.node("lost")
        recording.until(lambda one: "lost" in one.nodes, "what will be lost is recorded")
        before = store.log.head().offset
        cluster_side.server.objects.restore(backup)
        cluster_side.server.disconnect()
        cluster_side.node("later")
        recording.until(lambda one: set(one.nodes) == {"kept", "later"}, "the state is that of the backup")
        cluster_side.node("last")
        recording.until(lambda one: "last" in one.nodes, "its watch goes on")
        listed = [one.event for one in store.log.read(before) if isinstance(one.event, events.Relisted)]
        (reason,) = {one.reason for one in listed if one.kind == "nodes"}
        assert reason.startswith("went back: resourceVersion ")
        assert len(leadership_events.leaders(store.log)) == 1
    finally:
        recording.stop()
