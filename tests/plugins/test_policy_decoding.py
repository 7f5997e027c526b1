"""Validation of WorkloadPolicies, and the errors of invalid ones."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from app.domain import model, selectors
from app.kube import errors
from app.kube.objects import decoding
from app.plugins.workload_policy import decoding as policy_decoding
from app.plugins.workload_policy import policy_model
from app.plugins.workload_policy.decoding import spec_schema
from tests.support import call_counts, declared

ROOT = pathlib.Path(__file__).parents[2]
DEFINITION = ROOT / "deploy" / "crds" / "kosmos.io_workloadpolicies.yaml"
EXAMPLES = ROOT / "tests" / "e2e" / "manifests"
Json = dict[str, Any]

GOOD: Json = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "x"}},
    "allocationPolicy": [{"name": "host", "replicas": 3}, {"name": "member", "replicas": 0}],
    "allocationType": "Required",
    "allocationMethod": "Fill",
}


def policy(spec: object, **metadata: object) -> policy_model.WorkloadPolicy:
    body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata}, "spec": spec}
    return policy_decoding.policy(json.dumps(body).encode())


def test_a_valid_policy() -> None:
    assert policy(GOOD) == policy_model.WorkloadPolicy(
        uid="u",
        namespace="ns",
        name="p",
        topology_key="zone",
        selector=model.Selector(labels={"app": "x"}),
        allocations=(policy_model.Allocation("host", 3), policy_model.Allocation("member", 0)),
        type="Required",
        method="Fill",
    )


@pytest.mark.parametrize(
    ("name", "kind", "method"),
    [
        ("workloadpolicy-example-1", "Preferred", "Balance"),
        ("workloadpolicy-example-2", "Required", "Fill"),
    ],
)
def test_the_examples_of_kosmos_are_valid_unchanged(name: str, kind: str, method: str) -> None:
    """tests/e2e/quotas/test_policy_schema.py creates them on an API server."""
    example = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    # JSON Schema ignores the extensions of Kubernetes.
    assert [error.message for error in jsonschema_rs.validator_for(definition()).iter_errors(example)] == []
    example["metadata"]["uid"] = "u"
    assert policy_decoding.policy(json.dumps(example).encode()) == policy_model.WorkloadPolicy(
        uid="u",
        namespace="workload-test",
        name="workload-policy-test",
        topology_key="workload-test",
        selector=model.Selector(labels={"app": "clusterlink-floater-mix"}),
        allocations=(policy_model.Allocation("member", 1), policy_model.Allocation("host", 3)),
        type=kind,
        method=method,
    )


@pytest.mark.parametrize("absent", [{}, {"allocationType": None, "allocationMethod": None}])
def test_preferred_and_balance_are_the_defaults(absent: Json) -> None:
    spec = {
        key: value
        for key, value in GOOD.items()
        if not key.startswith("allocationT") and key != "allocationMethod"
    }
    found = policy(spec | absent)
    assert (found.type, found.method, found.errors) == ("Preferred", "Balance", ())


@pytest.mark.scenario("WP-8")
def test_every_operator_is_read() -> None:
    expressions = [
        {"key": "a", "operator": "In", "values": ["1", "2"]},
        {"key": "b", "operator": "NotIn", "values": ["3"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist", "values": None},
    ]
    found = policy(GOOD | {"labelSelector": {"matchLabels": {"app": "x"}, "matchExpressions": expressions}})
    assert found.errors == ()
    assert found.selector.expressions == (
        model.Requirement("a", "In", ("1", "2")),
        model.Requirement("b", "NotIn", ("3",)),
        model.Requirement("c", "Exists"),
        model.Requirement("d", "DoesNotExist"),
    )


def test_an_empty_selector_is_valid() -> None:
    assert policy(GOOD | {"labelSelector": {}}).errors == ()
    assert policy(GOOD | {"labelSelector": {"matchLabels": None, "matchExpressions": None}}).errors == ()


@pytest.mark.parametrize(("value", "strict"), [("true", True), ("false", False), ("", False)])
def test_the_annotation_of_strict_domains(value: str, strict: bool) -> None:
    found = policy(GOOD, annotations={"topolog.io/strict-domains": value})
    assert found.strict_domains is strict


SELECTED = "spec.labelSelector.matchExpressions[0]"


def labelled(labels: Json) -> Json:
    return GOOD | {"labelSelector": {"matchLabels": labels}}


def expression(operator: str, *values: str) -> Json:
    return {
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}
    }


def allocating(*allocations: Json) -> Json:
    return GOOD | {"allocationPolicy": list(allocations)}


@pytest.mark.scenario("WP-10")
@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (None, "spec is missing"),
        ([], "spec must be an object"),
        ({}, "spec.topologyKey is missing"),
        (GOOD | {"topologyKey": ""}, "spec.topologyKey is empty"),
        (GOOD | {"topologyKey": 5}, "spec.topologyKey is not a valid string"),
        (GOOD | {"topologyKey": "a b"}, "spec.topologyKey must be the key of a label, not 'a b'"),
        (GOOD | {"topologyKey": "zone\n"}, "spec.topologyKey must be the key of a label"),
        (GOOD | {"topologyKey": f"{'p' * 254}/k"}, "spec.topologyKey must be the key of a label"),
        (GOOD | {"topologyKey": "k" * 318}, "spec.topologyKey is longer than 317 characters"),
        (labelled({"a b": "c"}), "spec.labelSelector.matchLabels has a key that must be the key of a label"),
        (labelled({"": "c"}), "spec.labelSelector.matchLabels has a key that is empty"),
        (labelled({"a": "b c"}), "spec.labelSelector.matchLabels.a must be the value of a label, not 'b c'"),
        (labelled({f"l{at}": "" for at in range(65)}), "spec.labelSelector.matchLabels has 65 entries"),
        (GOOD | expression("In", "b c"), f"{SELECTED}.values[0] must be the value of a label"),
        (allocating({"name": "b c", "replicas": 1}), "spec.allocationPolicy[0].name must be the value"),
        (GOOD | {"labelSelector": None}, "spec.labelSelector is missing"),
        (GOOD | expression("Equals", "1"), f"{SELECTED}.operator must be one of In"),
        (GOOD | expression("In"), f"{SELECTED}.values must not be empty with In"),
        (GOOD | expression("Exists", "1"), f"{SELECTED}.values must be empty with Exists"),
        (allocating(), "spec.allocationPolicy is empty"),
        (allocating({"name": "a"}), "spec.allocationPolicy[0].replicas is missing"),
        (allocating({"replicas": 1}), "spec.allocationPolicy[0].name is missing"),
        (allocating({"name": "", "replicas": 1}), "spec.allocationPolicy[0].name is empty"),
        *(
            (
                GOOD | {"labelSelector": {"matchLabels": {name: 7}}},
                f"spec.labelSelector.matchLabels.{name} is not a valid string",
            )
            for name in ("app", "value", "key")
        ),
        (allocating({"name": "a", "replicas": -1}), "spec.allocationPolicy[0].replicas must be"),
        (allocating({"name": "a", "replicas": 1.5}), "spec.allocationPolicy[0].replicas must be a"),
        (allocating({"name": "a", "replicas": "2"}), "spec.allocationPolicy[0].replicas must be a"),
        (allocating({"name": "a", "replicas": True}), "spec.allocationPolicy[0].replicas must be a"),
        (
            allocating({"name": "a", "replicas": 1}, {"name": "a", "replicas": 1}),
            "spec.allocationPolicy names a",
        ),
        (GOOD | {"allocationType": "require"}, "spec.allocationType must be one of Preferred, Required"),
        (GOOD | {"allocationMethod": "fill"}, "spec.allocationMethod must be one of"),
    ],
)
def test_an_error_of_a_policy_names_field_and_reason(spec: object, error: str) -> None:
    found = policy(spec)
    assert any(one.startswith(error) for one in found.errors), found.errors
    assert (found.namespace, found.name) == ("ns", "p")


def test_the_readable_part_of_an_invalid_policy_is_kept() -> None:
    found = policy(GOOD | {"allocationType": "require"})
    assert (found.topology_key, len(found.allocations)) == ("zone", 2)


def numbered(count: int) -> Json:
    return allocating(*({"name": f"d{at}", "replicas": 1} for at in range(count)))


def test_a_policy_has_a_maximum_number_of_entries() -> None:
    assert len(policy(numbered(policy_decoding.ENTRIES)).allocations) == policy_decoding.ENTRIES
    found = policy(numbered(policy_decoding.ENTRIES + 1))
    assert found.errors == ("spec.allocationPolicy has 1001 entries; at most 1000 are allowed",)
    assert (found.allocations, found.topology_key, found.type) == ((), "zone", "Required")


def definition() -> Json:
    """The schema of the custom resource definition of deploy/."""
    crd = yaml.safe_load(DEFINITION.read_text())
    found: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_the_definition_of_the_resource_has_the_same_bound() -> None:
    schema = definition()["properties"]["spec"]["properties"]
    assert schema["allocationPolicy"]["maxItems"] == policy_decoding.ENTRIES
    expressions = schema["labelSelector"]["properties"]["matchExpressions"]
    assert expressions["maxItems"] == 64
    requirement = expressions["items"]["properties"]
    assert requirement["values"]["maxItems"] == 256
    assert tuple(requirement["operator"]["enum"]) == selectors.OPERATORS
    assert [rule["fieldPath"] for rule in expressions["items"]["x-kubernetes-validations"]] == [".values"] * 2


@pytest.mark.parametrize(("count", "refused"), [(64, False), (65, True)])
def test_a_selector_has_a_maximum_number_of_requirements(count: int, refused: bool) -> None:
    found = policy(
        GOOD | {"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}] * count}}
    )
    sentence = "spec.labelSelector.matchExpressions has 65 entries; at most 64 are allowed"
    assert found.errors == ((sentence,) if refused else ())


@pytest.mark.parametrize(("count", "refused"), [(256, False), (257, True)])
def test_a_requirement_has_a_maximum_number_of_values(count: int, refused: bool) -> None:
    one = {"key": "k", "operator": "In", "values": [f"v{number}" for number in range(count)]}
    found = policy(GOOD | {"labelSelector": {"matchExpressions": [one]}})
    sentence = "spec.labelSelector.matchExpressions[0].values has 257 entries; at most 256 are allowed"
    assert found.errors == ((sentence,) if refused else ())


class Compared(str):
    """Text whose comparisons are calls, also those that a list or a dict makes."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()

    def __str__(self) -> str:
        return self


@pytest.mark.parametrize(
    "entry",
    [
        lambda at: {"name": Compared(f"d{at}"), "replicas": 1},
        lambda _: {"name": Compared("d"), "replicas": 1},
        lambda at: {"name": Compared(f"d {at}"), "replicas": -1},
    ],
    ids=["valid", "names that repeat", "invalid"],
)
def test_the_work_of_validation_grows_with_the_entries_and_not_with_their_square(
    entry: Callable[[int], Json],
) -> None:
    def work(count: int) -> int:
        spec = allocating(*map(entry, range(count)))
        return call_counts.calls_of(lambda: spec_schema.load(spec, partial=()))

    most = work(policy_decoding.ENTRIES)
    assert most > policy_decoding.ENTRIES
    assert most < 2.1 * work(policy_decoding.ENTRIES // 2)


def test_entries_beyond_the_limit_are_not_validated() -> None:
    def work(count: int) -> int:
        raw = json.dumps({"metadata": {"name": "p", "uid": "u"}, "spec": numbered(count)}).encode()
        return call_counts.calls_of(lambda: policy_decoding.policy(raw))

    assert work(16_000) == work(policy_decoding.ENTRIES + 1) < work(policy_decoding.ENTRIES // 2)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            GOOD | {"labelSelector": {"matchLabels": {f"l{at}": "x" * 60 for at in range(4_000)}}},
            "spec.labelSelector takes",
        ),
        (GOOD | {"topologyKey": "k" * 100_000}, "spec.topologyKey is longer than 317 characters"),
        (
            allocating({"name": "a" * 100_000, "replicas": 1}),
            "spec.allocationPolicy[0].name is longer than 63",
        ),
        (GOOD | {"allocationType": "x" * 100_000}, "spec.allocationType must be one of"),
        (allocating(*({"name": f"d{at}"} for at in range(1_000))), "spec has 990 more errors"),
    ],
)
def test_what_is_kept_of_an_oversized_policy_is_bounded(spec: Json, error: str) -> None:
    found = policy(spec)
    assert any(one.startswith(error) for one in found.errors), found.errors
    assert len(msgspec.json.encode(found)) < 8 * 1024


def test_only_a_policy_without_a_name_is_undecodable() -> None:
    with pytest.raises(errors.Undecodable, match=r"workloadpolicies .unnamed. cannot be decoded"):
        decoding.declared_seen(declared.POLICIES, b'{"metadata":{},"spec":{}}')
