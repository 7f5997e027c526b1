"""The decoder that plugins use whose kept part consists of fields of the specification."""

import json
from typing import Annotated

import msgspec
import pytest

from app.domain import model
from app.framework import manifests


class Gauge(model.DeclaredObject, frozen=True):
    """Two fields of a specification."""

    per_node_limit: Annotated[int, msgspec.Meta(le=9)] = 7
    zone: str = ""


def read(spec: object, **metadata: object) -> Gauge:
    named = {"name": "g", "uid": "u", "namespace": "n", **metadata}
    return manifests.decoder(Gauge)(json.dumps({"metadata": named, "spec": spec}).encode())


def test_fields_of_the_specification_are_kept_under_their_python_names() -> None:
    assert read({"perNodeLimit": 3, "zone": "z", "other": [1]}) == Gauge("u", "n", "g", 3, "z")


@pytest.mark.parametrize(
    "spec", [None, {}, {"perNodeLimit": None}, {"per_node_limit": 3}, {"uid": "x", "name": "y"}]
)
def test_what_is_absent_or_null_has_its_default(spec: object) -> None:
    assert read(spec) == Gauge("u", "n", "g")


@pytest.mark.parametrize(
    "spec", [[], "x", {"perNodeLimit": "3"}, {"perNodeLimit": True}, {"perNodeLimit": 10}]
)
def test_a_value_of_another_type_is_refused(spec: object) -> None:
    with pytest.raises(ValueError, match=r"Expected"):
        read(spec)


@pytest.mark.parametrize("metadata", [{"name": ""}, {"uid": "a b"}, {"name": None}])
def test_an_object_that_cannot_be_identified_is_refused(metadata: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"metadata"):
        read({}, **metadata)


def test_a_kind_is_named_by_its_api_version_its_resource_and_its_kept_part() -> None:
    kind = manifests.kind(Gauge, "example.com/v2", "gauges", optional=True)
    assert (kind.name, kind.resource, kind.manifest) == ("gauges", "gauges", "Gauge")
    assert (kind.group, kind.versions, kind.optional) == ("example.com", ("v2",), True)
    assert kind.moves("shop") == ("gauges-in:shop",)
    manifest = {"metadata": {"name": "g", "uid": "u", "namespace": "n"}, "spec": {"zone": "z"}}
    found = kind.decode(json.dumps(manifest).encode())
    assert found == Gauge("u", "n", "g", zone="z")
    assert kind.observed(found).subjects == ("gauges:n/g", "gauges-in:n")


def test_a_kind_of_the_core_group_has_a_version_only() -> None:
    kind = manifests.kind(Gauge, "v1", "gauges")
    assert (kind.group, kind.versions) == ("", ("v1",))
