"""Recorded candidates of one pod: of its own attempts, up to the moment, and nodes that exist."""

import msgspec
import pytest

from app.domain import events, model
from app.store.decisions import decision_log, records
from app.verbs.questions import candidate_choice
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import Json, assert_problem
from tests.support.extender.questions import ask, manifest, post, scale


@pytest.fixture
def job(six: api_worlds.World) -> model.Pod:
    """A pod that no policy counts, which the six nodes were offered to."""
    made = msgspec.structs.replace(api_worlds.pod("j-1"), labels={"rl-job-group": "job"})
    six.append(events.PodSeen(pod=made))
    api_worlds.decide(six, made)
    return made


def kept(answer: Json) -> set[str]:
    return {one["node"] for one in answer["explanation"]["scores"] if one["kept"]}


def gone(name: str) -> events.AnyEvent:
    return events.NodeGone(name=name, uid=f"uid-{name}")


def test_a_node_that_is_gone_is_not_a_candidate(six: api_worlds.World, job: model.Pod) -> None:
    six.append(*map(gone, ("host-1", "host-2", "host-3", "member-1", "member-2")))
    for overrides in ([], [{"op": "labelNodes", "nodes": ["host-4"], "labels": {"x": "y"}}]):
        answer = ask(six, "simulate", pod=job.key, situation={"overrides": overrides})
        assert "offered in decision" in answer["limits"][0]
        assert kept(answer) == {"host-4"}
        assert answer["baseline"]["kept"] == 1


def test_a_node_that_was_not_offered_is_not_a_candidate_and_the_answer_names_the_limit(
    six: api_worlds.World,
) -> None:
    closed = api_worlds.node("closed", role="host").node
    six.append(events.NodeSeen(node=msgspec.structs.replace(closed, unschedulable=True)))
    api_worlds.decide(six, api_worlds.pod("a-5"), offered=["host-1"])
    opened = {"op": "uncordon", "nodes": ["closed"]}
    freed = {"op": "deletePods", "pods": ["shop/a-4"]}
    for override in (opened, freed):
        answer = ask(six, "simulate", pod="shop/a-5", situation={"overrides": [scale(host=9), override]})
        assert kept(answer) == {"host-1"}
        assert answer["limits"][1:] == [candidate_choice.NOT_OFFERED]
    for override in ({"op": "cordon", "nodes": ["host-2"]}, scale(host=8)):
        answer = ask(six, "simulate", pod="shop/a-5", situation={"overrides": [scale(host=9), override]})
        assert len(answer["limits"]) == 1


def test_a_pod_of_the_same_name_was_not_offered_the_nodes_of_its_predecessor(
    six: api_worlds.World, job: model.Pod
) -> None:
    six.append(
        events.PodGone(uid=job.uid, namespace=job.namespace, name=job.name),
        api_worlds.node("new", role="host"),
        events.PodSeen(pod=msgspec.structs.replace(job, uid="another")),
    )
    answer = ask(six, "simulate", pod=job.key)
    assert "candidates are all nodes" in answer["limits"][0]
    assert "new" in kept(answer)
    response = post(six, "simulate", {"pod": job.key, "candidates": "recorded"})
    assert_problem(response, 400, "BadRequest", "candidates: no decision about pod shop/j-1 is recorded: use")


def test_a_manifest_of_a_known_name_has_the_candidates_of_that_pod(
    six: api_worlds.World, job: model.Pod
) -> None:
    answer = ask(six, "simulate", pod=manifest("j-1", app="db"))
    assert "offered in decision" in answer["limits"][0]


def test_later_decisions_do_not_change_the_candidates_at_a_moment(
    six: api_worlds.World, job: model.Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query scans fewer records than there are behind the moment."""
    monkeypatch.setattr(decision_log, "_SCAN", 1)
    monkeypatch.setattr(records, "MAX_SCANNED", 3)
    monkeypatch.setattr(records, "LATE_MS", 1)
    moment = str(six.store.follower.catch_up().offset)
    asked: Json = {"pod": job.key, "candidates": "recorded", "situation": {"at": moment}}
    before = ask(six, "simulate", **asked)
    for number in range(5):
        other = api_worlds.pod(f"other-{number}")
        six.append(events.PodSeen(pod=other))
        api_worlds.decide(six, other)
    after = ask(six, "simulate", **asked)
    assert before["limits"] == after["limits"]


@pytest.mark.parametrize("question", ["simulate", "fit"])
def test_no_decision_is_searched_for_about_a_pod_that_does_not_exist(
    six: api_worlds.World, job: model.Pod, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setattr(decision_log, "_SCAN", 1)
    monkeypatch.setattr(records, "MAX_SCANNED", 1)
    api_worlds.decide(six, api_worlds.pod("a-5"))
    limits = ask(six, question, pod=manifest("new-1", app="db"))["limits"]
    assert [limit for limit in limits if "is recorded" in limit] == []
    asked = {"pod": manifest("new-1", app="db"), "candidates": "recorded"}
    text = "no decision about pod shop/new-1 is recorded: use all or roomy"
    assert_problem(post(six, question, asked), 400, "BadRequest", text)


def test_a_search_that_ends_before_a_record_is_named(
    six: api_worlds.World, job: model.Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_log, "_SCAN", 1)
    monkeypatch.setattr(records, "MAX_SCANNED", 1)
    api_worlds.decide(six, api_worlds.pod("a-5"))
    where = "is recorded in the 1 records before the moment"
    assert ask(six, "simulate", pod=job.key)["limits"][1] == f"no decision about the pod {where}"
    response = post(six, "simulate", {"pod": job.key, "candidates": "recorded"})
    assert_problem(response, 400, "BadRequest", f"no decision about pod shop/j-1 {where}: use all or roomy")
