"""``topolog shadow`` against a real API: set and deleted at an extender, shown where it is compared."""

import json

import pytest

from tests.support.extender import api_worlds, questions


def test_a_shadow_is_set_compared_and_deleted(run: questions.Run, six: api_worlds.World) -> None:
    edit = ("--scale", "shop/spread", "host=5", "--until", "2100-01-01T00:00:00Z")
    done = run("shadow", "set", "wider", *edit, "--note", "try 5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("shadow wider is compared with decisions from offset ")
    assert done.stdout.endswith(" until 2100-01-01T00:00:00.000Z\n")
    before = run("shadow", "show", "wider")
    assert "no decision was compared here yet" in before.stdout
    for name in ("a-5", "a-6"):
        api_worlds.decide(six, api_worlds.pod(name))
    while six.shadows.step():
        pass
    shown = run("shadow", "show", "wider")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("shadow wider: try 5, set by operator@example at offset ")
    assert "admitted: 2" in shown.stdout
    assert "shop/a-6" in shown.stdout
    report = json.loads(run("shadow", "show", "wider", "-o", "json").stdout)
    assert (report["note"], report["differences"]["classes"]["admitted"]) == ("try 5", 2)
    listed = run("get", "shadows")
    assert listed.stdout.split()[:8] == [
        "SHADOW",
        "SINCE",
        "UNTIL",
        "BY",
        "COMPARED",
        "SAME",
        "NOTE",
        "wider",
    ]
    gone = run("shadow", "delete", "wider")
    assert (gone.returncode, gone.stdout) == (0, "shadow wider deleted\n")
    missing = run("shadow", "delete", "wider")
    assert (missing.returncode, missing.stderr) == (1, "topolog: cannot find shadow wider; set are: none\n")


def test_what_was_not_compared_is_noted_as_in_a_replay(run: questions.Run, six: api_worlds.World) -> None:
    run("shadow", "set", "same", "--scale", "shop/spread", "host=3", "--until", "2100-01-01T00:00:00Z")
    api_worlds.decide(six, api_worlds.pod("a-5"))
    while six.shadows.step():
        pass
    shown, replayed = run("shadow", "show", "same"), run("replay", "--scale", "shop/spread", "host=3")
    assert shown.stdout.splitlines()[1] == replayed.stdout.splitlines()[0]
    assert shown.stdout.splitlines()[1] == "1 decisions compared, 1 would have been the same"
    assert "note: override 1 changed nothing at any decision" in shown.stderr.splitlines()
    assert "note: --scale changed nothing at any decision" in replayed.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("set", "empty"), "a shadow needs an edit"),
        (("set", "Upper", "--weights", "JobAffinity=2"), "must be a DNS label"),
        (
            ("set", "twice", "--weights", "JobAffinity=2", "--ttl", "1h", "--until", "2099-01-01T00:00:00Z"),
            "exclude",
        ),
        (("set", "nodes", "--override", '{"op": "cordon", "nodes": ["host-1"]}'), "not nodes or pods"),
        (("set", "nodes", "--cordon", "host-1"), "No such option"),
        (
            ("set", "past", "--weights", "JobAffinity=2", "--until", "2020-01-01T00:00:00Z"),
            "topolog: --until: must be in the future; it is now 20",
        ),
    ],
)
def test_what_cannot_be_a_shadow_is_refused_with_its_reason(
    run: questions.Run, six: api_worlds.World, arguments: tuple[str, ...], text: str
) -> None:
    head = six.store.follower.catch_up().position
    done = run("shadow", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert six.store.follower.catch_up().position == head
