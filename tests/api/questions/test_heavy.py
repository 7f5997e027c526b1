"""One heavy question at a time; nothing that is asked changes the store."""

import dataclasses
import threading
from collections.abc import Callable

import pytest

from app import bootstrap, settings, view_process
from app.api import errors
from app.api.introspection import heavy
from app.serving import servers
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem
from tests.support.extender.questions import ask, post


@pytest.mark.scenario("WI-12")
def test_one_works_some_wait_and_others_are_refused() -> None:
    turns = heavy.OneAtATime(waiting=1, patience=60.0)
    inside, leave = threading.Event(), threading.Event()
    admissions = refusals = 0

    def work() -> None:
        with turns.admitted():
            inside.set()
            leave.wait(60)

    def wait() -> None:
        nonlocal admissions, refusals
        try:
            with turns.admitted():
                admissions += 1
        except errors.Problem as problem:
            refusals += problem.status == 429

    first = threading.Thread(target=work)
    first.start()
    assert inside.wait(60)
    others = [threading.Thread(target=wait) for _ in range(2)]
    for one in others:
        one.start()
    assert polled(lambda: refusals == 1)
    assert admissions == 0
    leave.set()
    for one in (first, *others):
        one.join(60)
    assert (admissions, refusals) == (1, 1)


def test_heavy_questions_leave_threads_to_the_others() -> None:
    """Of an extender and of the view: a bound that the threads reach first would have no effect."""
    viewing = view_process.options(settings.load(None, {}))
    assert servers.Options().introspection_threads > 1 + heavy.WAITING
    assert viewing.introspection_threads > 1 + bootstrap.VIEWED_WAITING


def polled(condition: Callable[[], bool]) -> bool:
    """Whether the condition holds within a minute."""
    return any(condition() or threading.Event().wait(0.01) for _ in range(6000))


@pytest.mark.scenario("WI-12")
def test_a_question_that_waited_too_long_is_429_and_one_pod_is_not_heavy(six: api_worlds.World) -> None:
    given = six.app.extensions["topolog"]
    turns = heavy.OneAtATime(patience=0.01)
    six.app.extensions["topolog"] = dataclasses.replace(given, turns=turns)
    with turns.admitted():
        response = post(six, "fit", {"pod": "shop/a-5"})
        assert_problem(response, 429, "TooManyRequests", "another heavy question")
        assert response.headers["Retry-After"] == "1"
        assert ask(six, "simulate", pod="shop/a-5")["fits"] is False
    assert ask(six, "fit", pod="shop/a-5")["fits"] is False
    # A mistake gives the place free again.
    assert post(six, "fit", {"pod": "shop/none"}).status_code == 404
    assert ask(six, "fit", pod="shop/a-5")["fits"] is False


READ = (
    "diff?from=0&measure=pods",
    "map?color=quota:shop/spread",
    "frames?from=0",
    "series?of=quota:shop/spread&from=0",
    "moments?from=0",
    "watch?from=0",
    "pods/shop/a-1/life",
    "pods/shop/a-5/explain",
    "decisions/facets",
    "pending/reasons",
    "export?from=3",
)


@pytest.mark.scenario("WI-12")
@pytest.mark.parametrize(
    ("path", "steps"), [*((READ[2], at) for at in range(3)), *((READ[3], at) for at in range(2))]
)
def test_a_picture_is_drawn_no_further_once_its_client_has_hung_up(
    six: api_worlds.World, path: str, steps: int
) -> None:
    """It is noticed when the turn comes, and at a later step."""
    asked = iter([False] * steps + [True])
    gone = {"topolog.hung_up": lambda: next(asked)}
    assert_problem(six.client.get(f"/apis/v1/{path}", environ_overrides=gone), 499, "ClientGone", "closed")
    assert list(asked) == []
    assert six.client.get(f"/apis/v1/{path}").status_code == 200


@pytest.mark.scenario("WI-12")
def test_no_question_writes(six: api_worlds.World) -> None:
    api_worlds.decide(six, api_worlds.pod("a-5"))
    client = six.store.client
    before = {key: client.dump(key) for key in client.keys("*") if b"reader" not in key}
    scale = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": 9}}]
    ask(six, "simulate", pending={}, situation={"overrides": scale})
    ask(six, "fit", pod="shop/a-5")
    ask(six, "replay", overrides=scale)
    ask(six, "bisect", fits="shop/a-5")
    for path in READ:
        answer = six.client.get(f"/apis/v1/{path}")
        assert (answer.status_code, bool(answer.data)) == (200, True), path
    after = {key: client.dump(key) for key in client.keys("*") if b"reader" not in key}
    assert after == before
