"""Calls with a few parts changed, removed or doubled at random: none makes a server error."""

import json
import pathlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.campaigns import sizes
from tests.support.extender import stages

NASTY: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        2**63,
        10**40,
        1.5,
        "",
        "x",
        "\0",
        "a\nb",
        "{}",
        [],
        {},
        [None],
        {"": None},
        [[]],
        ["a", 1],
    ]
)
KEYS = st.sampled_from(["", "uid", "UID", "name", "Pods", "items", "metadata", "spec", "labels", "\0", "{}"])


def mutated(draw: st.DrawFn, value: object) -> object:
    """The value with one part changed, removed or doubled."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        change = draw(st.sampled_from(["inside", "inside", "inside", "replace", "drop", "rename", "swap"]))
        rest = {k: v for k, v in value.items() if k != key}
        match change:
            case "inside":
                return {**value, key: mutated(draw, value[key])}
            case "replace":
                return {**value, key: draw(NASTY)}
            case "drop":
                return rest
            case "rename":
                return {**rest, draw(KEYS): value[key]}
            case _:
                return {**value, key: value[draw(st.sampled_from(sorted(value)))]}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], mutated(draw, value[at]), *value[at + draw(st.integers(0, 1)) :]]
    return draw(NASTY)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path, and the body of a call with a few mistakes."""
    value: object = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 3))):
        value = mutated(draw, value)
    spelled = json.dumps(value, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(spelled)))
        spelled = spelled[:at] + draw(st.binary(max_size=3)) + spelled[at + draw(st.integers(0, 3)) :]
    return draw(st.sampled_from(stages.paths() + stages.paths("/api"))), spelled


_POD = json.loads(pathlib.Path(__file__).with_name("recorded.json").read_bytes())["Pod"]
_POD["metadata"]["labels"] = {"app": "web", "workload-policy/kosmos.io": "p", "rl-job-group": "g"}
_POD["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}]
_POD["spec"]["schedulingGroup"] = {"podGroupName": "g"}
_VICTIMS = {"n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}}
VALID: list[object] = [
    {"Pod": _POD, "Nodes": None, "NodeNames": ["n1", "n2", "n3"]},
    {"Pod": _POD, "Nodes": {"metadata": {}, "items": [{"metadata": {"name": "n1"}}]}, "NodeNames": None},
    {"PodName": "fuzzed", "PodNamespace": "fuzz", "PodUID": "absent", "Node": "n1"},
    {"Pod": _POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": _VICTIMS},
    {
        "Pod": _POD,
        "NodeNameToVictims": {"n1": {"Pods": [_POD], "NumPDBViolations": 0}},
        "NodeNameToMetaVictims": None,
    },
]


@pytest.mark.filterwarnings("error")
def test_no_body_makes_a_server_error(stage: stages.Stage, unharmed: None) -> None:
    caller = stage.caller()
    checks: dict[str, Callable[[stages.Answer], bool]] = {
        "filter": lambda reply: isinstance(reply.json["Error"], str),
        "filter_onlyone": lambda reply: isinstance(reply.json["Error"], str),
        "prioritize": lambda reply: all(type(one["Score"]) is int for one in reply.items),
        "priority": lambda reply: all(type(one["Score"]) is int for one in reply.items),
        # Nothing can be bound here, so no answer may claim it.
        "bind": lambda reply: reply.json["Error"] != "",
        "preempt": lambda reply: harmless(reply.json),
    }

    @settings(max_examples=sizes.examples(200), deadline=None)
    @given(sent=bodies())
    def check(sent: tuple[str, bytes]) -> None:
        path, body = sent
        reply = caller.post(path, body)
        assert reply.status in (200, 400), reply.raw[:300]
        if reply.status == 200:
            assert checks[path.rpartition("/")[2]](reply)
        else:
            assert reply.json["message"]
            assert len(reply.raw) < 2_000

    check()


def harmless(reply: stages.Json) -> bool:
    """Nothing in it stops a scheduler or its preemption (extender contract, 10)."""
    return all(
        victims["Pods"]
        and all(isinstance(pod["UID"], str) and pod["UID"] for pod in victims["Pods"])
        and -(2**63) <= victims["NumPDBViolations"] < 2**63
        for victims in reply["NodeNameToMetaVictims"].values()
    )
