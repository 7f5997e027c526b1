"""One heavy question at a time; nothing that is asked changes the store."""

import dataclasses
import gc
import threading
import types
from collections.abc import Callable
from concurrent import futures
from contextlib import AbstractContextManager
from unittest import mock

import pytest

from app import settings, view_process
from app.api import errors
from app.api.introspection import heavy
from app.api.v1.pictures import reasons, series
from app.domain import events
from app.serving import servers
from tests.support import fold_counts
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem
from tests.support.extender.questions import ask, post
from tests.support.store import contents


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
    assert viewing.introspection_threads > 1 + view_process.WAITING


def polled(condition: Callable[[], bool]) -> bool:
    """Whether the condition holds within a minute."""
    return any(condition() or threading.Event().wait(0.01) for _ in range(6000))


@pytest.mark.scenario("WI-12")
def test_a_question_that_waited_too_long_is_429_and_one_pod_as_it_is_is_not_heavy(
    six: api_worlds.World,
) -> None:
    given = six.app.extensions["topolog"]
    turns = heavy.OneAtATime(patience=0.01)
    six.app.extensions["topolog"] = dataclasses.replace(given, turns=turns)
    with turns.admitted():
        response = post(six, "fit", {"pod": "shop/a-5"})
        assert_problem(response, 429, "TooManyRequests", "another heavy question")
        assert response.headers["Retry-After"] == "1"
        assert ask(six, "simulate", pod="shop/a-5")["fits"] is False
        overrides = {"overrides": [{"op": "deletePods", "pods": {"selector": {"none": "such"}}}]}
        for more in ({"situation": overrides}, {"preemption": True}):
            response = post(six, "simulate", {"pod": "shop/a-5", **more})
            assert_problem(response, 429, "TooManyRequests", "another heavy question")
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
    ("path", "steps"), [*((READ[2], at) for at in range(3)), *((READ[3], at) for at in range(12))]
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


def hanging_up(after: int) -> dict[str, Callable[[], bool]]:
    """The environment of a client that is seen to hang up at a later check, and is asked about no further."""
    asked = iter([False] * after + [True])
    return {"topolog.hung_up": lambda: next(asked)}


@pytest.mark.scenario("WI-12")
@pytest.mark.parametrize(
    "path", ["nodes?at=3400", "frames?from=1&to=3400&count=2", "moments?from=3000&to=3400"]
)
def test_a_long_range_of_the_log_is_folded_no_further_once_the_client_has_hung_up(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for start in range(0, 3500, 250):
        pods = [api_worlds.pod("a-5", number=str(number)) for number in range(start, start + 250)]
        six.append(*(events.PodSeen(pod=pod) for pod in pods))
    monkeypatch.setattr(six.store.follower, "nearest", lambda _: None)
    six.client.get("/apis/v1/nodes")
    folded = fold_counts.applied(monkeypatch)
    gone = six.client.get(f"/apis/v1/{path}", environ_overrides=hanging_up(2))
    assert_problem(gone, 499, "ClientGone", "closed")
    assert sum(folded) <= 2000
    folded.clear()
    assert six.client.get(f"/apis/v1/{path}").status_code == 200
    assert sum(folded) >= 3000


@pytest.mark.scenario("WI-12")
@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("simulate", {"pending": {}, "situation": "SITUATION"}),
        ("fit", {"pod": "shop/a-5", "situation": "SITUATION"}),
        ("diff", {"to": "SITUATION"}),
        ("replay", {"overrides": "OVERRIDES", "mode": "chain", "from": "HEAD"}),
    ],
)
def test_overrides_are_folded_no_further_once_the_client_has_hung_up(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch, question: str, asked: dict[str, object]
) -> None:
    many = [{"op": "addPods", "like": "shop/a-5", "count": 20_000}]
    head = str(six.store.follower.catch_up().offset)
    known = {"SITUATION": {"overrides": many}, "OVERRIDES": many, "HEAD": head}
    body = {name: known.get(str(value), value) for name, value in asked.items()}
    six.client.get("/apis/v1/nodes")
    folded = fold_counts.applied(monkeypatch)
    gone = six.client.post(f"/apis/v1/{question}", json=body, environ_overrides=hanging_up(5))
    assert_problem(gone, 499, "ClientGone", "closed")
    assert 0 < sum(folded) <= 5000


@pytest.mark.scenario("WI-12")
def test_the_place_of_a_client_that_hangs_up_while_it_waits_is_free_at_once(six: api_worlds.World) -> None:
    """Long before the one at work has ended."""
    turns = heavy.OneAtATime(waiting=1, patience=600.0)
    given = six.app.extensions["topolog"]
    six.app.extensions["topolog"] = dataclasses.replace(given, turns=turns)
    with turns.admitted():
        for _ in range(2):
            gone = six.client.post("/apis/v1/fit", json={"pod": "shop/a-5"}, environ_overrides=hanging_up(2))
            assert_problem(gone, 499, "ClientGone", "closed")
    assert ask(six, "fit", pod="shop/a-5")["fits"] is False


@pytest.mark.scenario("WI-12")
@pytest.mark.parametrize(
    ("path", "module"), [("pending/reasons", reasons), ("series?of=nodes&from=0", series)]
)
def test_pages_that_ask_together_cost_one_answer(
    six: api_worlds.World, monkeypatch: pytest.MonkeyPatch, path: str, module: types.ModuleType
) -> None:
    """All of them ask before the first one is answered."""
    pages = 8
    turns = heavy.OneAtATime(waiting=pages, patience=600.0)
    entered: list[None] = []  # A mock loses calls of threads that it counts at once.
    admitted = turns.admitted

    def counted() -> AbstractContextManager[None]:
        entered.append(None)
        return admitted()

    monkeypatch.setattr(turns, "admitted", counted)
    six.app.extensions["topolog"] = dataclasses.replace(six.app.extensions["topolog"], turns=turns)
    computed = mock.Mock(wraps=module._body)
    monkeypatch.setattr(module, "_body", computed)
    with futures.ThreadPoolExecutor(pages) as threads:
        with turns.admitted():
            asked = [threads.submit(six.client.get, f"/apis/v1/{path}") for _ in range(pages)]
            assert polled(lambda: len(entered) == 1 + pages)
        found = [one.result(60) for one in asked]
    assert {(one.status_code, one.data) for one in found} == {(200, found[0].data)}
    assert computed.call_count == 1


@pytest.mark.scenario("WI-12")
def test_no_question_writes(six: api_worlds.World) -> None:
    api_worlds.decide(six, api_worlds.pod("a-5"))
    before = contents.of_cluster(six.store)
    assert before
    scale = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": 9}}]
    ask(six, "simulate", pending={}, situation={"overrides": scale})
    ask(six, "fit", pod="shop/a-5")
    ask(six, "replay", overrides=scale)
    ask(six, "bisect", fits="shop/a-5")
    for path in READ:
        answer = six.client.get(f"/apis/v1/{path}")
        assert (answer.status_code, bool(answer.data)) == (200, True), path
    assert contents.of_cluster(six.store) == before


def test_the_collector_is_paused_for_the_one_at_work_alone() -> None:
    turns = heavy.OneAtATime(waiting=0)
    assert gc.isenabled()
    with turns.admitted():
        assert not gc.isenabled()
        with pytest.raises(errors.Problem), turns.admitted():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), turns.admitted():
        _ = 1 / 0
    assert gc.isenabled()
