"""``topolog diff`` against a real API."""

from tests.support.extender import api_worlds
from tests.support.extender.questions import Run


def test_differences_are_rows_and_exit_code_one(run: Run) -> None:
    start = run.world.store.follower.catch_up().offset
    run.world.append(api_worlds.pod_seen("a-5", "host-4"))
    done = run("diff", str(start))
    assert done.returncode == 1, done.stderr
    assert "counts   changed  shop/spread|role=host  count: 3 -> 4" in done.stdout
    assert run("diff", str(start), "-o", "name").stdout.split() == [
        "counts/shop/spread|role=host",
        "pending/shop/a-5",
        "pods/shop/a-5",
    ]


def test_equal_moments_are_exit_code_zero(run: Run) -> None:
    done = run("diff", "5", "5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing differs\n")
    assert run("diff", "999999").returncode == 2
