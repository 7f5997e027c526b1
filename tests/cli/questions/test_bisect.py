"""``topolog bisect`` against a real API."""

from tests.support.extender import api_worlds
from tests.support.extender.questions import Run


def test_the_event_is_a_row(run: Run) -> None:
    run.world.append(api_worlds.policy(host=9))
    offset = run.world.append(api_worlds.policy(host=3))
    done = run("bisect", "a-5", "-n", "shop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no, since ")
    assert f"{offset}" in done.stdout
    assert "ObjectObserved  shop/spread" in done.stdout
    named = run("bisect", "--count", "shop/spread|role=host", "3", "-o", "name")
    assert named.stdout.strip().startswith(f"{run.world.store.log.incarnation}/")


def test_what_did_not_change_is_stated(run: Run) -> None:
    assert ": no change since " in run("bisect", "--exists", "pod:shop/none").stdout
    assert run("bisect").returncode == 2


def test_a_namespace_completes_what_exists(run: Run) -> None:
    named = run("bisect", "--exists", "pod:shop/a-5").stdout
    assert named.startswith("yes, since ")
    assert run("bisect", "--exists", "pod:a-5", "-n", "shop").stdout == named
    assert run("bisect", "--exists", "node:host-4", "-n", "shop").stdout.startswith("yes, since ")
    assert "is not pod:NAMESPACE/NAME" in run("bisect", "--exists", "pod:a-5").stderr


def test_a_mistake_is_a_usage_error(run: Run) -> None:
    done = run("bisect", "--count", "shop/spread|role=host", "3", "-n", "shop")
    assert done.returncode == 2
    assert "-n is not for --count: the name of a count has the namespace of its object" in done.stderr
    assert "x is not a number" in run("bisect", "--count", "c", "x").stderr
