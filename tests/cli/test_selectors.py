"""Label selectors of ``topolog get -l`` select what kubectl's do."""

import click
import pytest

from app.cli.get import selectors as parsed
from app.domain import selectors

LABELS = {"app": "web", "tier": "", "example.com/zone": "a-1"}
HOLD = (
    "app",
    "app=web",
    "app==web",
    "app = web",
    "app!=db",
    "db!=web",
    "!db",
    "! db",
    "tier=",
    "app in (web,db)",
    "app in ( web , db ),tier",
    "app notin (db)",
    "db notin (web)",
    "example.com/zone=a-1, app",
    "app=web,!db,tier!=front",
)
FAIL = ("db", "app=db", "app!=web", "!app", "app in (db)", "app notin (web,db)", "app=web,db")
WRONG = ("", ",", "a,", ",a", "a=b=c", "a in b", "a in (b", "a b", "a=(b)", "!", "=b", "in (a)")


def matched(text: str) -> bool:
    """Whether the selector matches the labels."""
    return selectors.matches(parsed.Selector().convert(text, None, None), LABELS)


@pytest.mark.parametrize("text", HOLD)
def test_a_selector_holds(text: str) -> None:
    assert matched(text)


@pytest.mark.parametrize("text", FAIL)
def test_a_selector_does_not_hold(text: str) -> None:
    assert not matched(text)


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_selector_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a selector such as"):
        parsed.Selector().convert(text, None, None)
