"""``topolog doctor cluster``: which PodDisruptionBudgets count as those of the extenders."""

from typing import Any

import pytest

from app.doctor.cluster import checks

Json = dict[str, Any]
COMPONENT = "app.kubernetes.io/component"
EXTENDERS: list[Json] = [
    {
        "metadata": {"name": f"topolog-extender-{number}", "labels": {COMPONENT: "extender"}},
        "spec": {"nodeName": f"n{number}", "priorityClassName": "system-cluster-critical"},
    }
    for number in range(2)
]


def requirement(operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": COMPONENT, "operator": operator, "values": list(values) or None}]}


SELECTING: dict[str, Json] = {
    "labels": {"selector": {"matchLabels": {COMPONENT: "extender"}}},
    "one of some values": {"selector": requirement("In", "extender", "view")},
    "none of some values": {"selector": requirement("NotIn", "recorder")},
    "a key": {"selector": requirement("Exists")},
    "labels and a key": {"selector": {"matchLabels": {COMPONENT: "extender"}, **requirement("Exists")}},
    "every pod": {"selector": {}},
}
OTHERS: dict[str, Json] = {
    "other labels": {"selector": {"matchLabels": {COMPONENT: "recorder"}}},
    "one of other values": {"selector": requirement("In", "recorder")},
    "none with the key": {"selector": requirement("DoesNotExist")},
    "labels of them, but not the key": {
        "selector": {"matchLabels": {COMPONENT: "extender"}, **requirement("DoesNotExist")}
    },
    "no pod": {"selector": None},
    "nothing": {},
}


@pytest.mark.parametrize("name", SELECTING)
def test_a_budget_that_selects_the_extenders_is_theirs(name: str) -> None:
    found = checks.spread(EXTENDERS, [{"spec": SELECTING[name]}])
    assert (found.verdict, found.seen) == ("ok", "2 on 2 nodes")


@pytest.mark.parametrize("name", OTHERS)
def test_a_budget_of_other_pods_is_not_theirs(name: str) -> None:
    found = checks.spread(EXTENDERS, [{"spec": OTHERS[name]}])
    assert (found.verdict, found.seen) == ("warning", "no PodDisruptionBudget")
