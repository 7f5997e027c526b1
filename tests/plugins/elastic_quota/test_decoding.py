"""ElasticQuotas from their JSON: everything invalid is named, and nothing is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.elastic_quota import decoding
from app.plugins.elastic_quota.quota_model import Quota

PREFIX = "quota.scheduling.koordinator.sh/"


def manifest(
    spec: object, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> bytes:
    metadata = {
        "name": "q",
        "namespace": "quotas",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {f"{PREFIX}{key}": value for key, value in (labels or {}).items()},
        "annotations": {f"{PREFIX}{key}": value for key, value in (annotations or {}).items()},
    }
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


LIMITS: dict[str, Any] = {"min": {"cpu": "1", "memory": "1Gi"}, "max": {"cpu": "1500m", "memory": "2Gi"}}


def test_every_field_is_read() -> None:
    labels = {
        "parent": "p",
        "is-parent": "true",
        "allow-lent-resource": "false",
        "tree-id": "t",
        "is-root": "true",
        "ignore-default-tree": "true",
        "allow-force-update": "true",
    }
    annotations = {
        "shared-weight": '{"cpu": 3, "memory": "1Ki"}',
        "namespaces": '["b", "a", "b"]',
        "total-resource": '{"cpu": "40"}',
    }
    assert decoding.quota(manifest(LIMITS, labels, annotations)) == Quota(
        uid="u",
        namespace="quotas",
        name="q",
        created="2026-01-01T00:00:00Z",
        min={"cpu": 1000, "memory": 2**30},
        max={"cpu": 1500, "memory": 2**31},
        parent="p",
        is_parent=True,
        lends=False,
        tree="t",
        is_root=True,
        ignores_default_tree=True,
        forced=True,
        weight={"cpu": 3000, "memory": 1024},
        namespaces=("a", "b"),
        total={"cpu": 40000},
    )


def test_defaults() -> None:
    found = decoding.quota(manifest(LIMITS, {"parent": "koordinator-root-quota"}))
    assert (found.parent, found.is_parent, found.lends, found.tree) == ("", False, True, "")
    assert found.weights == found.max
    assert found.errors == found.warnings == ()


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ([], "spec must be an object"),
        ({"min": {"cpu": "-1"}, "max": {"cpu": 1}}, "spec.min.cpu is negative: -1"),
        ({"min": {"cpu": 2}, "max": {"cpu": "1500m"}}, "spec.min of cpu is 2, more than spec.max of 1500m"),
        ({"min": {"cpu": 2}}, "spec.min has cpu, spec.max has not"),
        ({"max": {"cpu": "many"}}, "spec.max.cpu: 'many' is not a quantity such as 100m, 1.5Gi or 12e6"),
        ({"max": {"cpu": True}}, "spec.max.cpu is not a quantity"),
        ({"max": {"cpu": [1]}}, "spec.max.cpu is not a quantity"),
        ({"max": [1]}, "spec.max must be an object of quantities"),
        ({"max": {"a|b": 1}}, "spec.max.a|b is not the name of a resource"),
        (
            {"max": {f"r{n}": 1 for n in range(101)}},
            "spec.max has 101 resources; at most 100 are allowed",
        ),
    ],
)
def test_what_is_invalid_is_named(spec: object, error: str) -> None:
    assert decoding.quota(manifest(spec)).errors == (error,)


def test_huge_amounts_are_kept_within_63_bits() -> None:
    found = decoding.quota(manifest({"max": {"cpu": "1e30", "memory": "9223372036854775807"}}))
    assert (found.errors, found.max) == ((), {"cpu": 2**63 - 1, "memory": 2**63 - 1})


def test_only_the_first_errors_are_kept() -> None:
    found = decoding.quota(manifest({"max": {f"r{n:02}": -1 for n in range(30)}}))
    assert len(found.errors) == 11
    assert found.errors[-1] == "and 20 more"


@pytest.mark.parametrize(
    ("annotations", "warning"),
    [
        (
            {"shared-weight": "3"},
            "annotation shared-weight must be an object of quantities; the annotation is ignored",
        ),
        ({"shared-weight": "{"}, "annotation shared-weight is not JSON; it is ignored"),
        (
            {"shared-weight": '{"cpu": -1}'},
            "annotation shared-weight.cpu is negative: -1; the annotation is ignored",
        ),
        ({"namespaces": "a,b"}, "annotation namespaces is not JSON; it is ignored"),
        ({"namespaces": "[1]"}, "annotation namespaces is not a list of names; it is ignored"),
        (
            {"namespaces": json.dumps([f"n{n}" for n in range(1001)])},
            "annotation namespaces has 1001 names; at most 1000 are allowed; it is ignored",
        ),
        (
            {"total-resource": "[" * 70_000},
            "annotation total-resource is longer than 65536 characters; it is ignored",
        ),
        ({"total-resource": "[" * 60_000}, "annotation total-resource is not JSON; it is ignored"),
    ],
)
def test_annotations_that_cannot_be_read_are_ignored_with_a_warning(
    annotations: dict[str, str], warning: str
) -> None:
    found = decoding.quota(manifest(LIMITS, annotations=annotations))
    assert (found.errors, found.warnings) == ((), (warning,))
    assert (found.weight, found.namespaces, found.total) == ({}, (), {})


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_any_specification_is_kept(spec: object, weight: object) -> None:
    found = decoding.quota(manifest(spec, annotations={"shared-weight": json.dumps(weight)}))
    assert (found.namespace, found.name) == ("quotas", "q")
    amounts = [*found.min.values(), *found.max.values(), *found.weight.values()]
    assert all(0 <= amount < 2**63 for amount in amounts)
