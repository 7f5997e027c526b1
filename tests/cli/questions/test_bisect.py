"""``topolog bisect`` against a real API."""

import dataclasses

import pytest

from app.verbs.questions import bisection
from tests.support.extender import api_worlds
from tests.support.extender.questions import Run


def test_the_event_is_a_row(run: Run) -> None:
    run.world.append(api_worlds.policy(host=9))
    offset = run.world.append(api_worlds.policy(host=3))
    done = run("bisect", "a-5", "-n", "shop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no, shop/a-5 does not fit, since ")
    assert f"{offset}" in done.stdout
    assert "ObjectObserved  shop/spread" in done.stdout
    named = run("bisect", "--count", "shop/spread|role=host", "3", "-o", "name")
    assert named.stdout.strip().startswith(f"{run.world.store.log.incarnation}/")
    assert named.stderr.startswith("note: an answer that changed there and back ")


def test_a_change_that_was_not_found_has_no_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies before the moment that is known so far."""
    whole = bisection.bisect

    monkeypatch.setattr(
        bisection, "bisect", lambda *given: dataclasses.replace(whole(*given), complete=False)
    )
    asked = ("bisect", "--count", "shop/spread|role=host", "3")
    assert ", since an event after " in run(*asked).stdout
    named = run(*asked, "-o", "name")
    assert (named.returncode, named.stdout) == (0, "")
    assert named.stderr.endswith("incomplete: more time is needed (--budget)\n")


def test_a_pod_alone_is_asked_about_as_with_fits(run: Run) -> None:
    run.world.append(api_worlds.policy(host=9))
    offset = run.world.append(api_worlds.policy(host=3))
    spelled = [
        run("bisect", *words, "-o", "jsonpath=$['now','since','complete']")
        for words in (("shop/a-5",), ("shop/a-5", "--fits"), ("--fits", "a-5", "-n", "shop"))
    ]
    assert spelled[0].stdout.startswith("false"), spelled[0].stderr
    assert f"/{offset}" in spelled[0].stdout
    assert len({one.stdout for one in spelled}) == 1
    roomy = run("bisect", "shop/a-5", "--fits", "--candidates", "roomy")
    assert roomy.stdout == run("bisect", "shop/a-5", "--candidates", "roomy").stdout


def test_what_did_not_change_is_stated(run: Run) -> None:
    done = run("bisect", "--exists", "pod:shop/none")
    assert done.stdout.startswith("no, pod:shop/none does not exist; no change since ")
    assert run("bisect").returncode == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--fits", "shop/a-5", "--candidates", "roomy"), "no, shop/a-5 does not fit"),
        (("--count", "shop/spread|role=host", "3"), "yes, shop/spread|role=host is at least 3"),
        (("--count", "shop/spread|role=host", "4"), "no, shop/spread|role=host is less than 4"),
        (("--waiting", "2", "-n", "shop"), "yes, at least 2 pods wait in shop"),
        (("--waiting", "3"), "no, fewer than 3 pods wait"),
        (("--waiting", "1", "-n", "none"), "no, no pod waits in none"),
        (("--exists", "policy:shop/spread"), "yes, policy:shop/spread exists"),
    ],
)
def test_the_answer_repeats_its_question(run: Run, words: tuple[str, ...], sentence: str) -> None:
    first, _, _ = run("bisect", *words).stdout.partition(" since ")
    assert first.rstrip(",").removesuffix("; no change") == sentence


def test_a_namespace_completes_what_exists(run: Run) -> None:
    named = run("bisect", "--exists", "pod:shop/a-5").stdout
    assert named.startswith("yes, pod:shop/a-5 exists, since ")
    assert run("bisect", "--exists", "pod:a-5", "-n", "shop").stdout == named
    assert run("bisect", "--exists", "node:host-4", "-n", "shop").stdout.startswith("yes, node:host-4 ")
    assert "is not pod:NAMESPACE/NAME" in run("bisect", "--exists", "pod:a-5").stderr


def test_a_mistake_is_a_usage_error(run: Run) -> None:
    done = run("bisect", "--count", "shop/spread|role=host", "3", "-n", "shop")
    assert done.returncode == 2
    assert "-n is not for --count: the name of a count has the namespace of its object" in done.stderr
    assert "x is not a number" in run("bisect", "--count", "c", "x").stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a pod, or use one of --count, --waiting and --exists"),
        (("--fits",), "--fits requires a pod"),
        (("--fits", "--waiting", "2"), "--fits requires a pod"),
        (("--fits", "--exists", "node:host-1"), "--fits requires a pod"),
        (
            ("shop/a-5", "--fits", "--waiting", "2"),
            "only one condition is allowed; given are a pod, --waiting",
        ),
        (
            ("shop/a-5", "--fits", "--count", "shop/spread|role=host", "3"),
            "only one condition is allowed; given are a pod, --count",
        ),
        (
            ("--waiting", "2", "--exists", "node:host-1"),
            "only one condition is allowed; given are --waiting, --exists",
        ),
        (("--waiting", "2", "--candidates", "roomy"), "--candidates is for a pod"),
        (("a/b/c", "--fits"), "fits: 'a/b/c' is not NAMESPACE/NAME"),
    ],
)
def test_exactly_one_condition_is_required(run: Run, words: tuple[str, ...], sentence: str) -> None:
    done = run("bisect", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
