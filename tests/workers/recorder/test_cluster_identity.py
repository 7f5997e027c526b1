"""Which Kubernetes cluster a log is of: the UID of its kube-system namespace decides."""

import contextlib
import os
import socket

import pytest

from app.kube.client import clients
from app.simulation.apiserver import apiservers
from app.store import errors
from app.store.log import batches
from tests.support import commands, declared
from tests.support.kube import plain_access
from tests.support.workers import clusters, lossy_worlds, recordings


def named(cluster: clusters.Cluster, uid: str) -> None:
    """The cluster gets the kube-system namespace that makes it this one."""
    metadata = {"name": "kube-system", "uid": uid}
    cluster.server.objects.create("namespaces", {"metadata": metadata})


def test_another_cluster_of_the_same_name_is_refused_with_its_own_message(own: lossy_worlds.World) -> None:
    named(own.cluster, "uid-of-the-first")
    lossy_worlds.filled(own)
    assert own.log.state().kubernetes == "uid-of-the-first"
    head = own.log.head()
    with (
        apiservers.ApiServer(declared.SCHEMA) as server,
        contextlib.closing(clients.Client(plain_access.of(server.url))) as client,
    ):
        other = clusters.Cluster(server, client)
        named(other, "uid-of-the-second")
        other.node("foreign")
        second = recordings.Recording(own.open(), other)
        recordings.eventually(
            lambda: "is that of another Kubernetes cluster" in str(second.recorder.checks()), "it is refused"
        )
        problem = str(second.recorder.checks()["store"])
        assert "UID uid-of-the-first, here it has uid-of-the-second" in problem
        assert "Give one of the two another name (setting cluster)" in problem
        assert problem.endswith(f"changed by hand, run HDEL {own.extender.keys.meta} kubernetes")
        assert "adopt" not in problem
        assert own.log.head() == head
        second.stop()
    assert "foreign" not in own.extender.follower.catch_up().nodes


def test_a_cluster_whose_etcd_was_restored_keeps_its_store(own: lossy_worlds.World) -> None:
    """It is listed again: its watches would be silent until the versions from before are reached."""
    named(own.cluster, "uid-of-the-first")
    lossy_worlds.filled(own).stop()
    with (
        apiservers.ApiServer(declared.SCHEMA, bookmarks=3600.0) as server,
        contextlib.closing(clients.Client(plain_access.of(server.url))) as client,
    ):
        restored = clusters.Cluster(server, client)
        named(restored, "uid-of-the-first")
        restored.node("after-the-restore")
        done = commands.called(
            "adopt", "--yes", "--force", TOPOLOG_STORE_URL=own.server.url, TOPOLOG_CLUSTER="own"
        )
        assert done.returncode == 0, done.stderr
        again = recordings.Recording(own.open(), restored)
        again.ready()
        recordings.eventually(
            lambda: set(own.extender.follower.catch_up().nodes) == {"after-the-restore"},
            "what the restored cluster has is recorded",
        )
        assert own.log.state().kubernetes == "uid-of-the-first"
        again.stop()


def test_an_operator_without_a_name_is_recorded_by_number(
    own: lossy_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the image, whose user is in no file of users."""
    lossy_worlds.filled(own).stop()
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    environ = {"TOPOLOG_STORE_URL": own.server.url, "TOPOLOG_CLUSTER": "own"}
    done = commands.called("adopt", "--yes", "--force", **environ)
    assert done.returncode == 0, done.stderr
    assert own.log.state().writer == f"4000000001@{socket.gethostname()}"


def test_a_store_that_names_no_cluster_adopts_the_first_one(own: lossy_worlds.World) -> None:
    lossy_worlds.filled(own).stop()
    assert own.log.state().kubernetes == ""
    named(own.cluster, "uid-of-the-first")
    own.record().ready()
    assert own.log.state().kubernetes == "uid-of-the-first"
    # Two that come at the same time: the function takes one of them.
    guard = batches.Guard(epoch="9" * 30, writer="other")
    with pytest.raises(errors.Rewound):
        own.log.append(batches.Batch(events=(), kubernetes="uid-of-the-second"), guard)
