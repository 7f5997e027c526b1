"""Matches labels against a label selector (metav1 LabelSelector, WP-8)."""

from collections.abc import Mapping

from app.domain import model

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


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
