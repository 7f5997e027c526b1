"""Matches labels against a label selector (metav1 LabelSelector, WP-8)."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.domain import model

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def decoded(spelled: Mapping[str, Any]) -> model.Selector:
    """The selector of a valid LabelSelector, as the API server returns it."""
    expressions = tuple(
        model.Requirement(one["key"], one["operator"], tuple(one.get("values") or ()))
        for one in spelled.get("matchExpressions") or ()
    )
    return model.Selector(dict(spelled.get("matchLabels") or {}), expressions)


def problems(selector: model.Selector) -> Iterator[str]:
    """What the API server refuses in the expressions of a selector."""
    for one in selector.expressions:
        if one.operator not in OPERATORS:
            yield f"operator must be one of {', '.join(OPERATORS)}, not {one.operator[:80]!r}"
        elif bool(one.values) != (one.operator in ("In", "NotIn")):
            yield f"values must {'not ' if not one.values else ''}be empty with {one.operator}"


def matches(selector: model.Selector, labels: Mapping[str, str]) -> bool:
    """Whether every part of the selector matches the labels."""
    if not selector.labels.items() <= labels.items():
        return False
    return not selector.expressions or all(
        _holds(requirement, labels) for requirement in selector.expressions
    )


def _holds(requirement: model.Requirement, labels: Mapping[str, str]) -> bool:
    match requirement.operator:
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case _:
            return False
