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
    assert "x is not a number" in run("bisect", "--count", "c", "x").stderr
