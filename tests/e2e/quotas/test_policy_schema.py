"""The API server and Topolog accept and refuse the same WorkloadPolicies, and name the same field.

A cluster may have another definition of the kind, so Topolog validates every field itself.
"""

import copy
import json
import pathlib
import re
from typing import Any

import msgspec
import pytest
import yaml

from app.plugins.workload_policy import decoding
from tests.support.e2e import api_client, clusters, installations

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

PATH = "/apis/kosmos.io/v1alpha1/namespaces/default/workloadpolicies"
EXAMPLES = sorted((pathlib.Path(__file__).parents[1] / "manifests").glob("workloadpolicy-example-*.yaml"))
EXAMPLES_NAMESPACE = "workload-test"
DEFAULTS = {"allocationType": "Preferred", "allocationMethod": "Balance"}
SPEC: dict[str, Any] = {
    "topologyKey": "topology.kubernetes.io/zone",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "allocationPolicy": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 0}],
}


def expressions(*requirements: dict[str, object]) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": list(requirements)}}


def requirement(operator: str, *values: str) -> dict[str, object]:
    return {"key": "app", "operator": operator, **({"values": list(values)} if values else {})}


ACCEPTED: dict[str, dict[str, Any]] = {
    "plain": {},
    "required": {"allocationType": "Required", "allocationMethod": "Fill"},
    "in": expressions(requirement("In", "web", "db")),
    "not-in": expressions(requirement("NotIn", "web")),
    "exists": expressions(requirement("Exists")),
    "does-not-exist": expressions(requirement("DoesNotExist")),
    "exists-with-no-values": expressions({"key": "app", "operator": "Exists", "values": []}),
    "everything": {"labelSelector": {}},
    "most-expressions": expressions(*[requirement("Exists")] * 64),
    "most-values": expressions(requirement("In", *(f"v{number}" for number in range(256)))),
    "long-name": {"allocationPolicy": [{"name": "a" * 63, "replicas": 1}]},
    "long-key": {"topologyKey": f"{'.'.join(['p' * 63] * 3)}.{'p' * 61}/{'k' * 63}"},
    "key-with-every-sign": {"topologyKey": "a-1.example/A_b.c-D"},
    "value-with-every-sign": expressions(requirement("In", "A_b.c-D", "7")),
    "no-replicas-wanted": {"allocationPolicy": [{"name": "a", "replicas": 0}]},
    "most-replicas": {"allocationPolicy": [{"name": "a", "replicas": 2**31 - 1}]},
    "most-domains": {"allocationPolicy": [{"name": f"d{number}", "replicas": 1} for number in range(1000)]},
    "preferred": {"allocationType": "Preferred", "allocationMethod": "Balance"},
    "empty-label-value": {"labelSelector": {"matchLabels": {"app": ""}}},
    "empty-value": expressions(requirement("In", "")),
    "labels-and-expressions": {
        "labelSelector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [requirement("NotIn", "a", "b"), requirement("Exists")],
        }
    },
    "another-field": {"colour": "red"},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no-key": ({"topologyKey": None}, "spec.topologyKey"),
    "empty-key": ({"topologyKey": ""}, "spec.topologyKey"),
    "long-key": ({"topologyKey": f"{'.'.join(['p' * 63] * 4)}/{'k' * 63}"}, "spec.topologyKey"),
    "long-prefix-of-key": ({"topologyKey": f"{'.'.join(['p' * 63] * 4)}/k"}, "spec.topologyKey"),
    "long-name-of-key": ({"topologyKey": "k" * 64}, "spec.topologyKey"),
    "key-with-a-space": ({"topologyKey": "a b"}, "spec.topologyKey"),
    "key-with-a-line-end": ({"topologyKey": "zone\n"}, "spec.topologyKey"),
    "key-that-ends-in-a-dash": ({"topologyKey": "zone-"}, "spec.topologyKey"),
    "key-with-an-empty-prefix": ({"topologyKey": "/zone"}, "spec.topologyKey"),
    "key-with-a-large-prefix": ({"topologyKey": "Example.com/zone"}, "spec.topologyKey"),
    "key-with-two-slashes": ({"topologyKey": "a/b/c"}, "spec.topologyKey"),
    "label-key-with-a-space": (
        {"labelSelector": {"matchLabels": {"app": "web", "a b": "web"}}},
        "spec.labelSelector.matchLabels",
    ),
    "empty-label-key": ({"labelSelector": {"matchLabels": {"": "web"}}}, "spec.labelSelector.matchLabels"),
    "too-many-labels": (
        {"labelSelector": {"matchLabels": {f"l{number}": "" for number in range(65)}}},
        "spec.labelSelector.matchLabels",
    ),
    "label-value-with-a-space": (
        {"labelSelector": {"matchLabels": {"app": "a b"}}},
        "spec.labelSelector.matchLabels.app",
    ),
    "long-label-value": (
        {"labelSelector": {"matchLabels": {"app": "v" * 64}}},
        "spec.labelSelector.matchLabels.app",
    ),
    "expression-key-with-a-space": (
        expressions({"key": "a b", "operator": "Exists"}),
        "spec.labelSelector.matchExpressions[0].key",
    ),
    "value-with-a-space": (
        expressions(requirement("In", "web", "a b")),
        "spec.labelSelector.matchExpressions[0].values[1]",
    ),
    "value-with-a-line-end": (
        expressions(requirement("In", "web\n")),
        "spec.labelSelector.matchExpressions[0].values[0]",
    ),
    "domain-with-a-space": (
        {"allocationPolicy": [{"name": "a b", "replicas": 1}]},
        "spec.allocationPolicy[0].name",
    ),
    "no-selector": ({"labelSelector": None}, "spec.labelSelector"),
    "no-domains": ({"allocationPolicy": []}, "spec.allocationPolicy"),
    "domain-twice": (
        {"allocationPolicy": [{"name": "a", "replicas": 1}, {"name": "a", "replicas": 2}]},
        "spec.allocationPolicy",
    ),
    "too-many-domains": (
        {"allocationPolicy": [{"name": f"d{number}", "replicas": 1} for number in range(1001)]},
        "spec.allocationPolicy",
    ),
    "long-domain": (
        {"allocationPolicy": [{"name": "a" * 64, "replicas": 1}]},
        "spec.allocationPolicy[0].name",
    ),
    "negative": ({"allocationPolicy": [{"name": "a", "replicas": -1}]}, "spec.allocationPolicy[0].replicas"),
    "too-large": (
        {"allocationPolicy": [{"name": "a", "replicas": 2**31}]},
        "spec.allocationPolicy[0].replicas",
    ),
    "no-replicas": ({"allocationPolicy": [{"name": "a"}]}, "spec.allocationPolicy[0].replicas"),
    "other-type": ({"allocationType": "Maybe"}, "spec.allocationType"),
    "other-method": ({"allocationMethod": "Random"}, "spec.allocationMethod"),
    "other-operator": (
        expressions(requirement("Is", "web")),
        "spec.labelSelector.matchExpressions[0].operator",
    ),
    "operator-in-small-letters": (
        expressions(requirement("in", "web")),
        "spec.labelSelector.matchExpressions[0].operator",
    ),
    "in-without-values": (
        expressions(requirement("Exists"), requirement("In")),
        "spec.labelSelector.matchExpressions[1].values",
    ),
    "not-in-without-values": (
        expressions({"key": "app", "operator": "NotIn", "values": []}),
        "spec.labelSelector.matchExpressions[0].values",
    ),
    "exists-with-values": (
        expressions(requirement("Exists", "web")),
        "spec.labelSelector.matchExpressions[0].values",
    ),
    "empty-expression-key": (
        expressions({"key": "", "operator": "Exists"}),
        "spec.labelSelector.matchExpressions[0].key",
    ),
    "too-many-expressions": (
        expressions(*[requirement("Exists")] * 65),
        "spec.labelSelector.matchExpressions",
    ),
    "too-many-values": (
        expressions(requirement("In", *(f"v{number}" for number in range(257)))),
        "spec.labelSelector.matchExpressions[0].values",
    ),
    "number-as-key": ({"topologyKey": 7}, "spec.topologyKey"),
    "list-as-selector": ({"labelSelector": []}, "spec.labelSelector"),
    "list-as-labels": ({"labelSelector": {"matchLabels": ["app"]}}, "spec.labelSelector.matchLabels"),
    "number-as-label": ({"labelSelector": {"matchLabels": {"app": 7}}}, "spec.labelSelector.matchLabels.app"),
    "object-as-expressions": (
        {"labelSelector": {"matchExpressions": {}}},
        "spec.labelSelector.matchExpressions",
    ),
    "text-as-expression": (
        {"labelSelector": {"matchExpressions": ["app in (web)"]}},
        "spec.labelSelector.matchExpressions[0]",
    ),
    "no-expression-key": (
        expressions({"operator": "Exists"}),
        "spec.labelSelector.matchExpressions[0].key",
    ),
    "no-operator": (expressions({"key": "app"}), "spec.labelSelector.matchExpressions[0].operator"),
    "text-as-values": (
        expressions({"key": "app", "operator": "In", "values": "web"}),
        "spec.labelSelector.matchExpressions[0].values",
    ),
    "number-as-value": (
        expressions({"key": "app", "operator": "In", "values": [7]}),
        "spec.labelSelector.matchExpressions[0].values[0]",
    ),
    "no-allocations": ({"allocationPolicy": None}, "spec.allocationPolicy"),
    "object-as-domains": ({"allocationPolicy": {"a": 1}}, "spec.allocationPolicy"),
    "text-as-domain": ({"allocationPolicy": ["a"]}, "spec.allocationPolicy[0]"),
    "no-domain-name": ({"allocationPolicy": [{"replicas": 1}]}, "spec.allocationPolicy[0].name"),
    "empty-domain-name": (
        {"allocationPolicy": [{"name": "", "replicas": 1}]},
        "spec.allocationPolicy[0].name",
    ),
    "number-as-domain-name": (
        {"allocationPolicy": [{"name": 7, "replicas": 1}]},
        "spec.allocationPolicy[0].name",
    ),
    "text-as-replicas": (
        {"allocationPolicy": [{"name": "a", "replicas": "1"}]},
        "spec.allocationPolicy[0].replicas",
    ),
    "half-a-replica": (
        {"allocationPolicy": [{"name": "a", "replicas": 1.5}]},
        "spec.allocationPolicy[0].replicas",
    ),
    "number-as-type": ({"allocationType": 1}, "spec.allocationType"),
    "empty-method": ({"allocationMethod": ""}, "spec.allocationMethod"),
}


@pytest.fixture(scope="module")
def defined(cluster: clusters.Cluster) -> clusters.Cluster:
    """A cluster with the custom resource definition of deploy/, and the namespace of the examples."""
    cluster.kubectl("apply", "-k", installations.DEPLOY / "crds")
    cluster.await_done("wait", "--for=condition=established", "crd/workloadpolicies.kosmos.io")
    cluster.add_namespace(EXAMPLES_NAMESPACE)
    return cluster


def policy(name: str, change: dict[str, Any]) -> api_client.Object:
    spec = {key: value for key, value in (copy.deepcopy(SPEC) | change).items() if value is not None}
    return {
        "apiVersion": "kosmos.io/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": name, "namespace": "default", "uid": "u"},
        "spec": spec,
    }


def errors(found: api_client.Object) -> tuple[str, ...]:
    """What Topolog has against it."""
    return decoding.policy(msgspec.json.encode(found)).errors


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_of_kosmos_are_stored_unchanged(defined: clusters.Cluster, path: pathlib.Path) -> None:
    example = yaml.safe_load(path.read_text())
    # Strict validation refuses a field that the definition does not have.
    defined.kubectl("apply", "--validate=strict", "-f", path)
    name = f"workloadpolicies/{example['metadata']['name']}"
    found = json.loads(defined.kubectl("-n", EXAMPLES_NAMESPACE, "get", name, "-o", "json"))
    defined.kubectl("delete", "-f", path)
    assert found["spec"] == DEFAULTS | example["spec"]
    assert errors(found) == ()


@pytest.mark.parametrize("name", ACCEPTED)
def test_both_accept(defined: clusters.Cluster, name: str) -> None:
    made = policy(name, ACCEPTED[name])
    assert errors(made) == ()
    assert errors(defined.api().create(PATH, made)) == ()


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse_and_name_the_same_field(defined: clusters.Cluster, name: str) -> None:
    change, field = REFUSED[name]
    made = policy(name, change)
    (error,) = errors(made)
    assert error.startswith(f"{field} "), error
    with pytest.raises(api_client.ApiError) as refused:
        defined.api().create(PATH, made)
    assert refused.value.status == 422
    # A list of domains is a map for the API server, which names the second one of a pair.
    assert re.search(rf"{re.escape(field)}(\[1\])?(:|$)", refused.value.message), refused.value.message


def test_kubectl_explains_each_field(defined: clusters.Cluster) -> None:
    text = defined.kubectl("explain", "workloadpolicies.spec")
    assert [field for field in (*SPEC, "allocationType", "allocationMethod") if field not in text] == []
    assert "The node label whose values are the domains." in text
