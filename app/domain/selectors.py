"""Labels and label selectors: what the API server accepts, and what matches (metav1 LabelSelector, WP-8)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.domain import model

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
DNS_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
"""Pattern of a part of a DNS-1123 subdomain; only the whole subdomain is limited in length."""
KEY: Final = rf"(?:(?=[^/]{{1,253}}/){DNS_LABEL}(?:\.{DNS_LABEL})*/)?{_NAME}"
"""Pattern of the key of a label, or the name of a resource: IsQualifiedName of k8s.io/apimachinery."""
VALUE: Final = rf"(?:{_NAME})?"
"""Pattern of the value of a label: IsValidLabelValue of k8s.io/apimachinery."""
MAX_KEY: Final = 317
"""Maximum characters of a key: 253 of the subdomain, the slash, and 63 of the name."""
MAX_VALUE: Final = 63


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
        elif problem := values_problem(one.operator, one.values):
            yield f"values {problem}"


def values_problem(operator: str, values: Sequence[str]) -> str:
    """Why the values do not fit the operator, which is one of OPERATORS; empty if they do."""
    if bool(values) == (operator in ("In", "NotIn")):
        return ""
    return f"must {'not ' if not values else ''}be empty with {operator}"


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
