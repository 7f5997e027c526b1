"""The extender of a second cluster of the same name decides nothing, and appends nothing to the log."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from app.simulation import populations
from app.simulation.apiserver import apiservers
from tests.support import child_processes, declared, polling
from tests.support.extender import stages
from tests.support.store import crash_safe_server

NODES = ("n1", "n2")
BOTH = ("UID first", "here it has second")


def named(api: apiservers.ApiServer, uid: str) -> None:
    """The cluster gets the kube-system namespace that makes it this one."""
    api.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": uid}})


@pytest.fixture
def first(tmp_path: pathlib.Path) -> Iterator[stages.Stage]:
    """A cluster with two nodes and a soft policy, whose recorder has claimed the store."""
    (tmp_path / "store").mkdir()
    server = crash_safe_server.CrashSafeServer(tmp_path / "store", append_only=True)
    try:
        with apiservers.ApiServer(declared.SCHEMA) as api:
            named(api, "first")
            stage = stages.Stage(tmp_path, api, server)
            try:
                for name in NODES:
                    stage.node(name, role="host")
                stage.policy("shop", "soft", {**stages.spec(host=1), "allocationType": "Preferred"})
                stage.worker("record")
                stage.seen()
                yield stage
            finally:
                stage.close()
    finally:
        server.stop()


@pytest.fixture
def second(tmp_path: pathlib.Path) -> Iterator[apiservers.ApiServer]:
    """The other cluster."""
    with apiservers.ApiServer(declared.SCHEMA) as api:
        named(api, "second")
        yield api


def test_an_extender_of_another_cluster_decides_nothing(
    first: stages.Stage, second: apiservers.ApiServer, tmp_path: pathlib.Path
) -> None:
    own = stages.write_kubeconfig(tmp_path / "second.kubeconfig", second.url)
    replica = first.extend("second", TOPOLOG_KUBE_KUBECONFIG=str(own))
    polling.ready(replica.process, lambda: "[-] identity" in replica.readiness()[1])
    status, text = replica.readiness()
    assert status == 503
    assert all(uid in text for uid in BOTH)
    head = first.store.log.head()

    caller = first.caller()
    web = {"app": "web", stages.POLICY_LABEL: "soft"}
    pods = [populations.pod("shop", name, labels) for name, labels in (("soft", web), ("free", {}))]
    soft, free = (json.loads(second.objects.create("pods", pod)) for pod in pods)
    refused = caller.post("/filter", stages.request(soft, *NODES)).json
    assert refused["NodeNames"] is None
    assert all(uid in refused["Error"] for uid in BOTH)
    assert "setting cluster" in refused["Error"]
    # No plugin is interested in it, but it would be counted.
    assert caller.post("/filter", stages.request(free, *NODES)).json["NodeNames"] == list(NODES)
    for pod in (soft, free):
        error = caller.post("/bind", stages.bind(pod, "n1")).json["Error"]
        assert all(uid in error for uid in BOTH)
        assert error.endswith("nothing was bound")
    scores = caller.post("/prioritize", stages.request(soft, *NODES)).items
    assert {one["Host"]: one["Score"] for one in scores} == dict.fromkeys(NODES, 0)
    victims = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}
    offered = {"Pod": soft, "NodeNameToMetaVictims": victims}
    assert caller.post("/preempt", offered).json == {"NodeNameToMetaVictims": {}}

    replica.line(pod="shop/soft", verb="preempt")
    assert [
        second.objects.get("pods", ("shop", name))["spec"].get("nodeName") for name in ("soft", "free")
    ] == [
        None,
        None,
    ]
    replica.process.stop()
    assert first.store.log.read(head.offset) == []
    assert first.store.decisions.latest() == []


def test_an_extender_is_not_ready_before_it_has_compared(first: stages.Stage, tmp_path: pathlib.Path) -> None:
    """It decides nothing by the log, so that it must not replace one that does."""
    port = child_processes.free_port()
    nowhere = stages.write_kubeconfig(tmp_path / "nowhere.kubeconfig", f"http://127.0.0.1:{port}")
    replica = first.extend("early", TOPOLOG_KUBE_KUBECONFIG=str(nowhere))
    polling.ready(replica.process, lambda: "[-] identity: it is not known yet" in replica.readiness()[1])
    assert replica.readiness()[0] == 503
