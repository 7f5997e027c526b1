"""A shadow in a real process of ``topolog view``: compared there, and set at an extender only."""

import json

import pytest

from app.domain import events
from tests.support import commands, polling
from tests.support.browser.seen_worlds import Json, Seen, ask
from tests.support.extender import api_worlds, questions
from tests.support.extender.error_shape import body

PATH = "/apis/v1/shadows/tight"
OVERRIDES = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"member": 2}}]


@pytest.fixture(scope="module", autouse=True)
def decided(seen: Seen) -> None:
    """Shadow tight, and one pod that no node had capacity for."""
    asked = {"overrides": OVERRIDES, "until": "2100-01-01T00:00:00Z"}
    response = seen.world.client.put(PATH, json=asked)
    assert response.status_code == 200, response.text
    # As an extender does when it starts; another process computes under recorded configurations only.
    seen.world.append(events.ConfigurationApplied(seen.world.registry.configuration()))
    api_worlds.decide(seen.world, api_worlds.pod("web-3"))


def differences(seen: Seen) -> Json:
    """What the process has compared by now, once it has all that was decided."""
    replayed = questions.ask(
        seen.world, "replay", overrides=OVERRIDES, compare="scores", **{"from": str(since(seen))}
    )

    def comparisons() -> Json | None:
        found = ask(seen, PATH)[1]["differences"]
        return found if found is not None and found["examined"] == replayed["examined"] else None

    return polling.eventually(comparisons, "the decisions are compared", within=30)


def since(seen: Seen) -> int:
    return int(body(seen.world.client.get(PATH))["since"])


@pytest.mark.scenario("WI-9")
def test_it_compares_what_was_decided_since_the_shadow_was_set(seen: Seen) -> None:
    found = differences(seen)
    assert found["examined"] > 0
    assert found["classes"]["admitted"] == found["examined"]
    assert [one["pod"]["name"] for one in found["items"]] == ["web-3"] * found["examined"]
    assert (found["behindSeconds"], found["gap"], found["problem"]) == (0, False, None)
    shown = commands.called("shadow", "show", "tight", "--server", seen.viewer.url)
    assert "admitted: 1" in shown.stdout, shown.stderr


def test_its_metrics_are_the_numbers_of_the_answer(seen: Seen) -> None:
    found = differences(seen)
    text = seen.viewer.metrics()
    for name, number in {**found["classes"], "same": found["same"]}.items():
        assert f'topolog_shadow_decisions_total{{class="{name}",shadow="tight"}} {number:.1f}\n' in text
    for cause, number in found["skipped"].items():
        assert f'topolog_shadow_skipped_total{{cause="{cause}",shadow="tight"}} {number:.1f}\n' in text
    assert 'topolog_shadow_behind_seconds{shadow="tight"} 0.0\n' in text
    assert 'topolog_shadow_gap{shadow="tight"} 0.0\n' in text


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_it_sets_and_deletes_none(seen: Seen, method: str) -> None:
    before = seen.world.store.follower.catch_up().position
    status, found = ask(seen, PATH, method, json.dumps({"overrides": OVERRIDES}).encode())
    assert (status, found["reasonCode"]) == (404, "NotFound")
    assert seen.world.store.follower.catch_up().position == before
