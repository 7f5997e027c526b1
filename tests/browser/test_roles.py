"""A page offers nothing that a viewer may not do: every button requests only what that role may call."""

import json

import pytest

from app import following_process
from app.serving.access import roles
from app.serving.tls import role_names
from tests.support.browser import browsers, scripts, shown

pytestmark = [pytest.mark.browser, pytest.mark.scenario("UI-11")]
VIEWS = (
    "",
    "?node=host-1",
    "pending",
    "pods/shop/web-3",
    "workloads",
    "decisions",
    "compare?from=1",
    "health",
)
ASKED = frozenset(("/apis/v1/simulate", "/apis/v1/replay", "/apis/v1/diff"))


def refused(page: browsers.Browser, seen: shown.Shown, role: str) -> list[str]:
    """The requests of the page that a caller with the role may not make."""
    page.collect()
    rules = following_process.rules_of(seen.world.registry)
    bindings = roles.RoleBindings(anonymous=(role,), rules=rules)
    found = (bindings.authorize({}, *call) for call in sorted(page.calls))
    return [one.message for one in found if isinstance(one, roles.Denied)]


@pytest.mark.parametrize("view", VIEWS)
def test_no_button_requests_what_a_viewer_may_not_call(
    on_small: browsers.Browser, small: shown.Shown, view: str
) -> None:
    on_small.open(f"/dashboard/{view}")
    if view.startswith("compare"):
        scale = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+2"}}]
        on_small.fill("#what-if .b textarea", json.dumps(scale))
    assert on_small.run(scripts.read("press_all"))
    on_small.settled()
    assert refused(on_small, small, role_names.VIEWER) == []
    asked = {path for _, path in on_small.calls if path.startswith("/apis/v1/")}
    assert asked
    assert not view.startswith("compare") or asked & ASKED
    # What the page requests is compared with the roles: another one may not make these requests.
    assert len(refused(on_small, small, role_names.SCHEDULER)) == len(on_small.calls)
