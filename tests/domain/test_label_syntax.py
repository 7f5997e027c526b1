"""Which keys and values of labels are accepted: by the rule of the API server, wherever one is read.

IsQualifiedName and IsValidLabelValue of k8s.io/apimachinery.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.framework import manifests, supposed_operations
from app.plugins.workload_policy.decoding import spec_schema

KEYS = {
    **dict.fromkeys(("a", "A", "9", "a.b", "a..b", "a-_.b", "a" * 63), True),
    **dict.fromkeys(("x/a", "x.y-z/a", "9.x/a", "x--y/A_b", f"{'p' * 253}/{'k' * 63}"), True),
    **dict.fromkeys(("", "/", "a/", "/a", "a/b/c", "a b", "a\n", "é", "-a", "a-", ".a", "a_"), False),
    **dict.fromkeys(("a..b/x", "a.-b/x", "a-.b/x", ".a/x", "a./x", "-a/x", "a-/x", "A/x", "a_b/x"), False),
    **dict.fromkeys((f"{'p' * 254}/k", f"{'p' * 254}/", "x/a\n", "x\n/a", "k" * 64, f"x/{'k' * 64}"), False),
}
VALUES = {
    **dict.fromkeys(("", "a", "A.b", "0-_.9", "v" * 63), True),
    **dict.fromkeys(("-", "a ", "a\n", "_a", "a.", "x/y", "é", "v" * 64), False),
}


def converts(kind: object, value: str) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def is_loaded(spec: dict[str, Any]) -> bool:
    return not spec_schema.load(spec, ("labelSelector", "allocationPolicy", "topologyKey"))[1]


KEY_USERS: dict[str, Callable[[str], bool]] = {
    "annotations of plans": lambda key: manifests.is_annotation(key, ""),
    "labels of plans": lambda key: manifests.is_label(key, ""),
    "overrides": lambda key: converts(supposed_operations.QualifiedName, key),
    "topology keys": lambda key: is_loaded({"topologyKey": key}),
    "selectors": lambda key: is_loaded({"labelSelector": {"matchLabels": {key: "a"}}}),
}
VALUE_USERS: dict[str, Callable[[str], bool]] = {
    "labels of plans": lambda value: manifests.is_label("a", value),
    "overrides": lambda value: converts(supposed_operations.LabelValue, value),
    "selectors": lambda value: is_loaded({"labelSelector": {"matchLabels": {"a": value}}}),
}


@pytest.mark.parametrize("user", KEY_USERS)
def test_keys_are_accepted_as_by_the_api_server(user: str) -> None:
    assert {key: KEY_USERS[user](key) for key in KEYS} == KEYS


@pytest.mark.parametrize("user", VALUE_USERS)
def test_values_are_accepted_as_by_the_api_server(user: str) -> None:
    assert {value: VALUE_USERS[user](value) for value in VALUES} == VALUES
