"""``topolog score``: the scenarios of JobAffinity through the command, and the modules that it imports."""

import json
from typing import Any

import pytest

from tests.support import commands

SIBLING = {"name": "rl-worker-1", "labels": {"rl-job-group": "job-alpha"}}
POD = {"name": "rl-worker-3", "labels": {"rl-job-group": "job-alpha"}}


def scored(scenario: object, **environ: str) -> dict[str, dict[str, Any]]:
    """The nodes of ``topolog score -o json`` by name."""
    done = commands.called("score", "-", "-o", "json", stdin=json.dumps(scenario), **environ)
    assert done.returncode in (0, 1), done.stderr
    return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}


@pytest.mark.scenario("RL-12")
def test_a_file_in_the_short_form_is_scored() -> None:
    nodes = scored(
        {
            "pod": POD,
            "nodes": [
                {"name": "node-1", "podsOnNode": [{"name": "other-pod", "labels": {}}]},
                {"name": "node-2", "podsOnNode": [SIBLING]},
            ],
        }
    )
    assert {name: node["score"] for name, node in nodes.items()} == {"node-1": 0, "node-2": 10}
    assert nodes["node-2"]["scores"] == {"JobAffinity": 10}


@pytest.mark.scenario("RL-12")
def test_the_core_imports_no_web_no_redis_and_no_kubernetes() -> None:
    program = """
import pkgutil, sys
import app.domain, app.framework, app.plugins
for package in (app.domain, app.framework, app.plugins):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        __import__(found.name)
imported = {name.partition(".")[0] for name in sys.modules}
foreign = {"flask", "redis", "kubernetes", "gunicorn", "urllib3"} & imported
raise SystemExit(f"imported: {foreign}" if foreign else 0)
"""
    done = commands.run(["-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.scenario("RL-12")
def test_scoring_works_without_flask_redis_and_kubernetes() -> None:
    program = """
import sys
for name in ("flask", "redis", "kubernetes", "gunicorn"):
    sys.modules[name] = None
from app import cli
sys.argv = ["topolog", "score", "-"]
cli.main()
"""
    done = commands.run(["-c", program], stdin=json.dumps({"pod": POD, "nodes": [{"name": "n"}]}))
    assert done.returncode == 0, done.stderr
    assert "default/rl-worker-3: 1 of 1 nodes are left" in done.stdout


POLICY = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "allocationPolicy": [{"name": "x", "replicas": 1}],
        "allocationType": "Required",
    },
}
LABELS = {"app": "a", "workload-policy/kosmos.io": "p"}


def test_objects_of_the_api_and_lists_of_kubectl_are_read() -> None:
    bound = {
        "metadata": {"name": "one", "namespace": "default", "labels": LABELS},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    }
    nodes = scored(
        {
            "pod": {"metadata": {"name": "two", "labels": LABELS}, "spec": {}, "status": {}},
            "nodes": {"kind": "List", "items": [{"metadata": {"name": "n1", "labels": {"zone": "x"}}}]},
            "pods": {"items": [bound]},
            "policies": [POLICY],
        }
    )
    assert nodes["n1"]["kept"] is False
    assert "default/p" in nodes["n1"]["reason"]


@pytest.mark.parametrize(("running", "kept"), [("35", False), ("25", True)])
def test_pods_of_a_file_request_their_limits(running: str, kept: bool) -> None:
    """A quota of 90 cores counts them, of pods that run and of the one that is placed."""

    def pod(name: str, cpu: str, **spec: str) -> dict[str, Any]:
        labels = {"quota.scheduling.koordinator.sh/name": "q"}
        containers = [{"name": "c", "resources": {"limits": {"cpu": cpu}}}]
        return {"metadata": {"name": name, "labels": labels}, "spec": {**spec, "containers": containers}}

    quota = {
        "metadata": {"name": "q", "namespace": "quotas"},
        "spec": {"min": {"cpu": 90}, "max": {"cpu": 90}},
    }
    scenario = {
        "quotas": [quota],
        "nodes": [
            {
                "metadata": {"name": "n1"},
                "status": {"allocatable": {"cpu": "100"}},
                "podsOnNode": [pod("one", running)],
            }
        ],
        "pods": [pod("two", "50", nodeName="n1")],
        "pod": pod("asks", "10"),
    }
    assert scored(scenario, TOPOLOG_PLUGINS_ENABLED="ElasticQuota")["n1"]["kept"] is kept


def test_no_node_left_is_exit_code_one_with_the_reasons() -> None:
    scenario = {
        "pod": {"name": "two", "labels": LABELS},
        "nodes": [{"name": "n1", "labels": {"zone": "y"}}],
        "policies": [POLICY],
    }
    done = commands.called("score", "-", stdin=json.dumps(scenario))
    assert done.returncode == 1
    assert "default/two: 0 of 1 nodes are left" in done.stdout
    assert "refused" in done.stdout


def test_plugins_and_weights_are_read_from_the_settings() -> None:
    scenario = {"pod": POD, "nodes": [{"name": "n", "podsOnNode": [SIBLING]}]}
    assert scored(scenario, TOPOLOG_PLUGINS_WEIGHTS='{"JobAffinity": 3}')["n"]["score"] == 30
    assert scored(scenario, TOPOLOG_PLUGINS_ENABLED="WorkloadPolicy")["n"]["score"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param("{", "not JSON: Input data was truncated", id="not JSON"),
        pytest.param("pod: {}", "not JSON: invalid character (byte 0); `kubectl get -o json`", id="YAML"),
        pytest.param("[" * 100_000, "not JSON", id="nested"),
        pytest.param("[]", "must be an object", id="no object"),
        pytest.param("{}", "pod is missing", id="no pod"),
        pytest.param('{"pod": {"name": "p"}, "node": []}', "unknown key node", id="unknown key"),
        pytest.param(
            '{"pod": {"name": "p"}, "nodes": [1]}', "nodes must be a list of objects", id="no objects"
        ),
        pytest.param('{"pod": {"name": "p"}, "nodes": [{}]}', "has no name", id="nameless"),
        pytest.param('{"pod": {"name": "p", "labels": 1}}', "pods default/p", id="bad labels"),
        pytest.param(
            '{"pod": {"name": "p", "lables": {}}}',
            "unknown key lables in pod; allowed keys: name, namespace, uid, labels, ",
            id="misspelt in a pod",
        ),
        pytest.param(
            '{"pod": {"name": "p", "podsOnNode": []}}', "unknown key podsOnNode in pod", id="key of a node"
        ),
        pytest.param(
            '{"pod": {"name": "p"}, "nodes": [{"name": "n", "podsOnNodes": []}]}',
            "unknown key podsOnNodes in nodes",
            id="misspelt in a node",
        ),
        pytest.param(
            '{"pod": {"name": "p"}, "nodes": [{"name": "n", "podsOnNode": [{"name": "q", "label": {}}]}]}',
            "unknown key label in podsOnNode",
            id="misspelt in a pod on a node",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_the_place(text: str, message: str) -> None:
    done = commands.called("score", "-", stdin=text)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plugin_that_the_pod_does_not_concern_is_not_named() -> None:
    """Coscheduling and ElasticQuota may concern every pod, and do so by the state."""
    every = {"TOPOLOG_PLUGINS_ENABLED": "*,ElasticQuota,Coscheduling"}
    given = json.dumps({"pod": {"name": "alone"}, "nodes": [{"name": "node-1"}]})
    assert (
        json.loads(commands.called("score", "-", "-o", "json", stdin=given, **every).stdout)["plugins"] == []
    )
    assert "No plugin applies to this pod." in commands.called("score", "-", stdin=given, **every).stdout


def test_a_byte_order_mark_is_no_part_of_the_file() -> None:
    """As `topolog simulate -f` reads it: editors of Windows write one."""
    given = "\ufeff" + json.dumps({"pod": {"name": "alone"}, "nodes": [{"name": "node-1"}]})
    assert commands.called("score", "-", stdin=given).returncode == 0
