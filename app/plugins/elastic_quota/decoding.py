"""Decodes and validates ElasticQuotas.

A webhook may or may not have checked the objects, so every field is validated here. An invalid quota is kept
and shown with its errors, as far as it is readable; its pods are refused with the reason. What Koordinator
ignores when it cannot be read, such as a weight, is ignored here too, with a warning.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from app.domain import declared_objects
from app.domain.fit import quantities
from app.framework import manifests
from app.plugins.elastic_quota import quota_model
from app.plugins.elastic_quota.quota_model import Amounts, Quota

PREFIX = "quota.scheduling.koordinator.sh/"
"""Of the labels and annotations of quotas, and of the labels of their pods."""

SPEC: declared_objects.Fields = {"min": {}, "max": {}, declared_objects.MORE: {}}
"""The fields of the specification in both families."""
RESOURCES = 100
"""Maximum resources of one list."""
NAMESPACES = 1_000
"""Maximum namespaces of one quota."""
_TEXT = 64 * 1024
"""Maximum characters of an annotation."""
_ERRORS = 10
"""Maximum errors and warnings kept per quota."""
_REASON = 512
"""Maximum characters of an error."""
_NAME = 317
"""Maximum characters of the name of a resource."""


class Manifest(manifests.ApiStruct):
    """An ElasticQuota of either family."""

    metadata: manifests.Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")


_manifest = msgspec.json.Decoder(Manifest)


def quota(raw: bytes | msgspec.Raw) -> Quota:
    """The quota of its JSON. Raises ValueError only if it cannot be identified."""
    seen = manifest(raw)
    labels, errors, warnings = seen.metadata.labels or {}, list[str](), list[str]()
    annotations = _Annotations(seen.metadata.annotations or {}, warnings)
    least, most = _limits(seen.spec, errors)
    return Quota(
        uid=seen.metadata.uid,
        namespace=seen.metadata.namespace,
        name=seen.metadata.name,
        created=seen.metadata.creation_timestamp or "",
        min=least,
        max=most,
        parent="" if (parent := labels.get(f"{PREFIX}parent", "")) == quota_model.ROOT else parent,
        is_parent=_true(labels, "is-parent"),
        lends=labels.get(f"{PREFIX}allow-lent-resource") != "false",
        tree=labels.get(f"{PREFIX}tree-id", ""),
        is_root=_true(labels, "is-root"),
        ignores_default_tree=_true(labels, "ignore-default-tree"),
        forced=_true(labels, "allow-force-update"),
        weight=annotations.amounts("shared-weight"),
        namespaces=annotations.names("namespaces"),
        total=annotations.amounts("total-resource"),
        errors=few(errors),
        # The annotations have been read by this point: arguments are evaluated in order.
        warnings=few(warnings),
    )


def manifest(raw: bytes | msgspec.Raw) -> Manifest:
    """The parts of a quota that both families have. Raises ValueError if it cannot be identified."""
    return _manifest.decode(raw)


def few(problems: list[str]) -> tuple[str, ...]:
    """The first of the problems, each shortened, and how many more there are."""
    shown = [manifests.shortened(problem, _REASON) for problem in problems[:_ERRORS]]
    if len(problems) > _ERRORS:
        shown.append(f"and {len(problems) - _ERRORS} more")
    return tuple(shown)


def _true(labels: Mapping[str, str], name: str) -> bool:
    return labels.get(f"{PREFIX}{name}") == "true"


def _limits(raw: msgspec.Raw, errors: list[str]) -> tuple[Amounts, Amounts]:
    """spec.min and spec.max as far as they are valid. A min above its max is an error of the quota."""
    given = specified(raw, errors)
    least = amounts("spec.min", given.get("min"), errors)
    most = amounts("spec.max", given.get("max"), errors)
    errors += _above(least, most)
    return least, most


def _above(least: Amounts, most: Amounts) -> Iterator[str]:
    for resource, amount in least.items():
        if resource not in most:
            yield f"spec.min has {resource}, spec.max has not"
        elif amount > most[resource]:
            low, high = (quantities.written(resource, one[resource]) for one in (least, most))
            yield f"spec.min of {resource} is {low}, more than spec.max of {high}"


def check(found: Quota) -> tuple[str, ...]:
    """What a quota with these fields would be refused for."""
    lists = {"spec.min": found.min, "spec.max": found.max, "weight": found.weight, "total": found.total}
    problems = refused(lists)
    problems += _above(found.min, found.max)
    if len(found.namespaces) > NAMESPACES:
        problems.append(f"namespaces has {len(found.namespaces)} names; at most {NAMESPACES} are allowed")
    return few(problems)


def refused(lists: Mapping[str, Amounts]) -> list[str]:
    """What is wrong with resource lists, whose amounts are in the model's units: path -> resource list."""
    problems: list[str] = []
    for path, held in lists.items():
        amounts(path, held, problems)
    return problems


def specified(raw: msgspec.Raw, errors: list[str]) -> dict[str, Any]:
    """The specification; empty if it is none."""
    spec = msgspec.json.decode(raw)
    if spec is not None and not isinstance(spec, dict):
        errors.append("spec must be an object")
        spec = None
    return spec or {}


def amounts(path: str, found: object, problems: list[str]) -> Amounts:
    """The valid amounts of a resource list, sorted; every other one is a problem."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        problems.append(f"{path} must be an object of quantities")
        return {}
    if len(found) > RESOURCES:
        problems.append(f"{path} has {len(found)} resources; at most {RESOURCES} are allowed")
        return {}
    return dict(_valid(path, found, problems))


def _valid(path: str, found: dict[str, Any], problems: list[str]) -> Iterator[tuple[str, int]]:
    for resource, value in sorted(found.items()):
        where = f"{path}.{resource}"
        if not resource or len(resource) > _NAME or "|" in resource or not resource.isprintable():
            problems.append(f"{where} is not the name of a resource")
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            problems.append(f"{where} is not a quantity")
            continue
        try:
            amount = quantities.parse(value, resource)
        except (ValueError, OverflowError) as problem:
            problems.append(f"{where}: {problem}")
            continue
        if amount < 0:
            problems.append(f"{where} is negative: {value}")
            continue
        yield resource, amount


class _Annotations:
    """Annotations that hold JSON."""

    def __init__(self, held: Mapping[str, str], warnings: list[str]) -> None:
        self._held = held
        self._warnings = warnings

    def amounts(self, name: str) -> Amounts:
        """A resource list; empty if there is none that can be read."""
        found = self._decoded(name)
        problems: list[str] = []
        read = amounts(f"annotation {name}", found, problems)
        if problems:
            self._warnings.extend(f"{problem}; the annotation is ignored" for problem in problems)
            return {}
        return read

    def names(self, name: str) -> tuple[str, ...]:
        """A list of names, sorted; empty if there is none that can be read."""
        found = self._decoded(name)
        if found is None:
            return ()
        if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
            self._warnings.append(f"annotation {name} is not a list of names; it is ignored")
            return ()
        if len(found) > NAMESPACES:
            self._warnings.append(
                f"annotation {name} has {len(found)} names; at most {NAMESPACES} are allowed; it is ignored"
            )
            return ()
        return tuple(sorted(set(found)))

    def _decoded(self, name: str) -> object:
        text = self._held.get(f"{PREFIX}{name}")
        if not text:
            return None
        if len(text) > _TEXT:
            self._warnings.append(f"annotation {name} is longer than {_TEXT} characters; it is ignored")
            return None
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            self._warnings.append(f"annotation {name} is not JSON; it is ignored")
            return None
