"""Conditions on decisions: the grammar of label selectors over the fields of a record."""

import pytest

from app.domain import model
from app.store.decisions import conditions, records

REFUSED = records.Decision(
    id="7-0",
    position=model.Position("abc", 41),
    verb="filter",
    pod=model.Pod(uid="u1", namespace="shop", name="a-1", labels={"app": "web"}, priority=5),
    configuration="c0",
    kept=0,
    outcome="refused",
    at="2026-07-01T10:00:00Z",
    milliseconds=1.5,
    reasons={"no capacity (host 3/3, member 1/1)": 6, "not in a tree": 1},
    plugins=("WorkloadPolicy", "ElasticQuota"),
    candidates=b"",
    count=7,
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("  ", True),
        ("verb=filter", True),
        ("verb==filter", True),
        ("verb!=filter", False),
        ("verb in (bind, filter)", True),
        ("verb notin (bind,filter)", False),
        ("verb=filter,outcome=kept", False),
        ("verb = filter , outcome = refused", True),
        ("plugin=ElasticQuota", True),
        ("plugin!=ElasticQuota", False),
        ("plugin!=Other", True),
        ("reason~capacity", True),
        ('reason="no capacity (host 3/3, member 1/1)"', True),
        ("reason=capacity", False),
        ("pod=shop/a-1,namespace=shop,name=a-1,uid=u1", True),
        ("kept<1,candidates>6,priority=5,offset!=40", True),
        ("milliseconds>1.4", True),
        ("milliseconds<1.4", False),
        ("kept in (0,1)", True),
        ("kept notin (0,1)", False),
        ("label.app=web", True),
        ("label.app", True),
        ("!label.app", False),
        ("!label.other,!node,!error", True),
        ("node=n1", False),
        ("node!=n1", True),
        ('name="a\\-1"', True),
        ("id=7-0,configuration=c0", True),
    ],
)
def test_every_operator_compares_as_in_a_label_selector(text: str, holds: bool) -> None:
    assert conditions.parse(text).holds(REFUSED) is holds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("verbs=filter", "there is no field 'verbs'; known: id, verb, outcome"),
        ("verb=", "expected a value at the end"),
        ("=filter", "expected a field, not '='"),
        ("verb filter", "expected =, !=, >, <, ~, in or notin, not 'filter'"),
        ("verb=filter outcome=kept", "expected a comma before 'outcome'"),
        ("verb in filter", "expected a list in parentheses, not 'filter'"),
        ("verb in (filter", "a list ends with a parenthesis"),
        ("verb=filter,", "expected a field at the end"),
        ("verb>3", "verb is not a number"),
        ("kept=many", "kept needs a number, not 'many'"),
        ("kept~3", "kept is a number"),
        ('reason="open', "cannot be read from '\"open' on"),
        ("label.=x", "there is no field 'label.'"),
        ("verb=" + "x" * 4000, "must have at most 3072 characters"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, words: str) -> None:
    with pytest.raises(conditions.Invalid, match=r".") as refused:
        conditions.parse(text)
    assert words in str(refused.value)
