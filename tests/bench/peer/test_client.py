"""The bodies of the compiled client against those recorded from a real kube-scheduler."""

import json
import pathlib
import subprocess
from typing import Any

import pytest

from app.kube.objects import decoding
from tests.bench.data import bench_cluster
from tests.bench.peer import builds, client

RECORDED_POD = {"metadata", "spec", "status"}
RECORDED_METADATA = {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"}


@pytest.fixture(scope="module")
def programs() -> builds.Programs:
    if not builds.is_built():
        pytest.skip("the client is not built; `python -m tests.bench.peer.builds` builds it (needs Go)")
    return builds.built()


def body(programs: builds.Programs, tmp_path: pathlib.Path, load: client.Load, seed: int = 1) -> str:
    listing = tmp_path / "nodes.json"
    listing.write_bytes(bench_cluster.listing(load.nodes))
    command = client.Caller(programs, tmp_path, listing).command(load, {})
    done = subprocess.run(
        [*command, "-print-body", f"-seed={seed}"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_names_are_sent_in_the_recorded_form(programs: builds.Programs, tmp_path: pathlib.Path) -> None:
    text = body(programs, tmp_path, client.Load(5, calls=1))
    sent: dict[str, Any] = json.loads(text)
    assert list(sent) == ["Pod", "Nodes", "NodeNames"]
    assert '"Nodes":null,"NodeNames":["' in text
    assert set(sent["Pod"]) == RECORDED_POD
    assert set(sent["Pod"]["metadata"]) >= RECORDED_METADATA
    assert "managedFields" not in sent["Pod"]["metadata"]
    assert "nodeName" not in sent["Pod"]["spec"]
    assert sorted(sent["NodeNames"]) == sorted(bench_cluster.node_name(number) for number in range(5))


def test_the_order_of_the_names_and_the_uid_change(programs: builds.Programs, tmp_path: pathlib.Path) -> None:
    load = client.Load(50, calls=1)
    one, other = (json.loads(body(programs, tmp_path, load, seed)) for seed in (1, 2))
    assert one["NodeNames"] != other["NodeNames"]
    assert one["Pod"]["metadata"]["uid"] != other["Pod"]["metadata"]["uid"]


def test_whole_nodes_are_as_large_as_real_ones(programs: builds.Programs, tmp_path: pathlib.Path) -> None:
    text = body(programs, tmp_path, client.Load(20, calls=1, form="nodes"))
    sent: dict[str, Any] = json.loads(text)
    assert sent["NodeNames"] is None
    assert list(sent["Nodes"]) == ["metadata", "items"]
    assert 7_200 < len(text) / 20 < 8_500


def test_the_pod_is_one_of_the_policy(programs: builds.Programs, tmp_path: pathlib.Path) -> None:
    sent = json.loads(body(programs, tmp_path, client.Load(1, calls=1, policy=bench_cluster.HALF)))
    pod = decoding.pod(json.dumps(sent["Pod"]).encode())
    assert pod.labels[bench_cluster.POLICY_LABEL] == bench_cluster.HALF
    assert (pod.namespace, pod.requests["cpu"]) == (bench_cluster.NAMESPACE, 250)
