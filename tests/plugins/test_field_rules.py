"""Objects that a question makes of fields: nothing can be supposed that could not be recorded."""

from typing import Any

import msgspec
import pytest

from app.domain import model, snapshots
from app.framework import supposed_operations
from app.verbs.questions import kinds
from tests.support import declared

EMPTY = snapshots.empty(schema=declared.SCHEMA)

OF = {"uid": "u", "namespace": "shop", "name": "one"}
PARTS = [{"name": "host", "replicas": 3}, {"name": "member", "replicas": 1}]
POLICY = {"topology_key": "role", "selector": {"labels": {"app": "web"}}, "allocations": PARTS}
VALID: dict[str, dict[str, Any]] = {
    "workloadpolicies": {**POLICY, "type": "Required", "method": "Fill"},
    "elasticquotas": {"min": {"cpu": 1000}, "max": {"cpu": 2000, "pods": 3}, "namespaces": ["shop"]},
    "sigselasticquotas": {"min": {"cpu": 2000}, "max": {"pods": 3}},
    "koordinatorpodgroups": {"minimum": 3, "resources": {"cpu": 1000}},
    "sigspodgroups": {"minimum": 1, "timeout": 60},
    "nativepodgroups": {"topology_key": "zone"},
    "workloads": {"groups": {"driver": 0, "worker": 4}},
    "clusternetworktopologies": {"namespace": "", "layers": [{"name": "rack", "labels": ["rack"]}]},
    "poddisruptionbudgets": {
        "selector": {"expressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
        "allowed": 1,
    },
}
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("workloadpolicies", {"type": "required"}, "spec.allocationType must be one of"),
    ("workloadpolicies", {"method": "fill"}, "spec.allocationMethod must be one of"),
    ("workloadpolicies", {"topology_key": "a key"}, "spec.topologyKey must be the key of a label"),
    ("workloadpolicies", {"allocations": [{"name": "host", "replicas": -3}]}, "must be between 0 and"),
    ("workloadpolicies", {"allocations": [*PARTS, PARTS[0]]}, "names host twice"),
    ("workloadpolicies", {"selector": {"expressions": [{"key": "a", "operator": "in"}]}}, "operator"),
    ("workloadpolicies", {"spec": {}}, "workloadpolicies have no field spec"),
    ("workloadpolicies", {"selector": {"matchLabels": {}}}, "have no field selector.matchLabels"),
    ("workloadpolicies", {"allocations": [{**PARTS[0], "replica": 1}]}, "no field allocations.0.replica"),
    ("elasticquotas", {"min": {"cpu": 3000}}, "spec.min of cpu is 3, more than spec.max of 2"),
    ("elasticquotas", {"min": {"gpu": 1}}, "spec.min has gpu, spec.max has not"),
    ("elasticquotas", {"max": {"cpu": -1}, "min": {}}, "spec.max.cpu is negative"),
    ("elasticquotas", {"weight": {"a|b": 1}}, "weight.a|b is not the name of a resource"),
    ("sigselasticquotas", {"min": {"cpu": -1}}, "spec.min.cpu is negative"),
    ("koordinatorpodgroups", {"minimum": 0}, "minimum is 0; at least 1 is required"),
    ("koordinatorpodgroups", {"options": {"other": "x"}}, "options.other is not an annotation"),
    ("sigspodgroups", {"minimum": 5000}, "at most 1,000 members"),
    ("nativepodgroups", {"minimum": -1}, "minimum is negative"),
    ("nativepodgroups", {"resources": {"cpu": -1}}, "resources.cpu is not a quantity"),
    ("workloads", {"groups": {"driver": -1}}, "groups.driver is negative"),
    ("clusternetworktopologies", {"layers": [{"name": "a"}, {"name": "a"}]}, "names a layer twice"),
    ("clusternetworktopologies", {"layers": [{"name": "a", "label": "b"}]}, "no field layers.0.label"),
    ("poddisruptionbudgets", {"selector": {"expressions": [{"key": "a", "operator": "in"}]}}, "operator"),
    ("poddisruptionbudgets", {"selector": {"expressions": [{"key": "a", "operator": "In"}]}}, "values must"),
    ("poddisruptionbudgets", {"selector": {"matchLabels": {}}}, "have no field selector.matchLabels"),
    ("poddisruptionbudgets", {"error": "too large"}, "too large"),
]


def test_every_kind_has_a_valid_object_and_an_invalid_one() -> None:
    assert VALID.keys() == {kind for kind, _, _ in INVALID} == set(kinds.names(EMPTY))


@pytest.mark.parametrize("kind", VALID)
def test_the_fields_of_a_valid_object_make_it(kind: str) -> None:
    found = kinds.recorded(EMPTY, kind, {**OF, **VALID[kind]}, "fields")
    assert msgspec.json.decode(found.encode()) == {**OF, **VALID[kind]}


@pytest.mark.parametrize(("kind", "fields", "words"), INVALID)
def test_fields_that_the_decoder_would_refuse_are_refused(
    kind: str, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(supposed_operations.Invalid) as refused:
        kinds.recorded(EMPTY, kind, {**OF, **VALID[kind], **fields}, "fields")
    assert refused.value.field == "fields"
    assert words in refused.value.text


SELECTOR = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
SPECS: dict[str, dict[str, Any]] = {
    "workloadpolicies": {
        "topologyKey": "role",
        "labelSelector": SELECTOR,
        "allocationPolicy": PARTS,
        "allocationType": "Required",
        "allocationMethod": "Fill",
    },
    "elasticquotas": {"min": {"cpu": 1}, "max": {"cpu": 2}},
    "sigselasticquotas": {"min": {"cpu": 1}, "max": {"cpu": 2}},
    "koordinatorpodgroups": {"minMember": 3, "minResources": {"cpu": 1}, "scheduleTimeoutSeconds": 60},
    "sigspodgroups": {"minMember": 3, "minResources": {"cpu": 1}, "scheduleTimeoutSeconds": 60},
    "nativepodgroups": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"},
    "workloads": {"podGroups": [{"name": "driver", "policy": {"gang": {"minCount": 2}}}]},
    "clusternetworktopologies": {"networkTopologySpec": [{"topologyLayer": "NodeTopologyLayer"}]},
    "poddisruptionbudgets": {
        "minAvailable": 1,
        "selector": SELECTOR,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    },
}
"""Fields that the definitions have, also such as are not kept."""
MISSPELT: list[tuple[str, dict[str, Any], str]] = [
    ("workloadpolicies", {"allocationTyp": "Required"}, "spec.allocationTyp; did you mean allocationType?"),
    ("workloadpolicies", {"allocationTyp": None}, "spec.allocationTyp; did you mean allocationType?"),
    ("workloadpolicies", {"colour": "red"}, "spec.colour; known: topologyKey, labelSelector, "),
    ("workloadpolicies", {"labelSelector": {"matchLabel": {}}}, "spec.labelSelector.matchLabel; did you"),
    (
        "workloadpolicies",
        {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "value": ["b"]}]}},
        "spec.labelSelector.matchExpressions[0].value; did you mean values?",
    ),
    (
        "workloadpolicies",
        {"allocationPolicy": [PARTS[0], {**PARTS[1], "replica": 2}]},
        "spec.allocationPolicy[1].replica; did you mean replicas?",
    ),
    ("elasticquotas", {"maxx": {"cpu": 2}}, "elasticquotas have no field spec.maxx; did you mean max?"),
    ("sigselasticquotas", {"mins": {"cpu": 2}}, "sigselasticquotas have no field spec.mins; did you mean"),
    ("koordinatorpodgroups", {"minmember": 3}, "spec.minmember; did you mean minMember?"),
    ("sigspodgroups", {"minMembers": 3}, "spec.minMembers; did you mean minMember?"),
    ("poddisruptionbudgets", {"minAvailible": 3}, "spec.minAvailible; did you mean minAvailable?"),
    (
        "poddisruptionbudgets",
        {"selector": {"matchlabels": {}}},
        "spec.selector.matchlabels; did you mean matchLabels?",
    ),
]


def decoded(kind: str, spec: dict[str, Any]) -> model.DeclaredObject:
    """The object of a manifest as kubectl prints it: with what the API server and kubectl add."""
    metadata = {
        "name": "one",
        "namespace": "shop",
        "generation": 3,
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    status = {"observedGeneration": 3, "disruptionsAllowed": 1}
    return kinds.decoded(EMPTY, kind, {"metadata": metadata, "spec": spec, "status": status})


@pytest.mark.parametrize("kind", VALID)
def test_a_manifest_may_have_the_fields_of_its_definition(kind: str) -> None:
    assert decoded(kind, SPECS[kind]).name == "one"


@pytest.mark.parametrize(("kind", "fields", "words"), MISSPELT)
def test_a_misspelt_field_of_a_manifest_is_refused(kind: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(supposed_operations.Invalid) as refused:
        decoded(kind, {**SPECS[kind], **fields})
    assert refused.value.field == "manifest"
    assert words in refused.value.text


@pytest.mark.parametrize("kind", sorted(VALID.keys() - {"workloadpolicies"}))
def test_a_field_of_a_later_version_of_another_definition_passes(kind: str) -> None:
    assert decoded(kind, {**SPECS[kind], "networkTopology": {"mode": "hard"}}).name == "one"


def test_names_are_compared_in_objects_of_usual_size_alone() -> None:
    """A question may have so many names that comparing them takes seconds."""
    spec = {**SPECS["sigspodgroups"], "minMembers": 3, **{f"field{number}": 1 for number in range(100)}}
    assert decoded("sigspodgroups", spec).name == "one"


@pytest.mark.parametrize("kind", VALID)
def test_the_watch_ignores_a_field_that_it_does_not_read(kind: str) -> None:
    declared_kind = EMPTY.schema.called(kind)
    assert declared_kind is not None

    def seen(spec: dict[str, Any]) -> object:
        return declared_kind.decode(msgspec.json.encode({"metadata": OF, "spec": spec}))

    assert seen({**SPECS[kind], "allocationTyp": "Required"}) == seen(SPECS[kind])
