"""simulate over HTTP: one pod, several in order, all that wait; the past; mistakes."""

from typing import Any

import msgspec
import pytest

from app.domain import events, model
from app.store.decisions import records
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, assert_stamped, body
from tests.support.extender.questions import ask, manifest, post, scale

MEMBERS, HOSTS = ["member-1", "member-2"], [f"host-{at}" for at in (1, 2, 3, 4)]


@pytest.mark.scenario("WI-2")
@pytest.mark.parametrize(
    ("overrides", "placed", "reason"),
    [
        ([], 0, "0 of 6 nodes fit: 6 workload policy shop/spread: no capacity (host 3/3, member 1/1)"),
        ([scale(host="+1")], 1, "0 of 6 nodes fit: 6 workload policy shop/spread: no capacity (host 4/4"),
        ([scale(host="+2")], 2, ""),
        ([scale(host="+2"), {"op": "cordon", "nodes": HOSTS}], 0, "0 of 2 nodes fit: 2 workload policy"),
        ([{"op": "addNodes", "count": 20, "like": "host-1"}], 0, "0 of 26 nodes fit: 26 workload policy"),
    ],
)
def test_pods_that_wait_are_placed_as_far_as_the_situation_admits(
    six: api_worlds.World, overrides: list[dict[str, Any]], placed: int, reason: str
) -> None:
    answer = ask(six, "simulate", pending={}, situation={"overrides": overrides})
    assert (answer["placedPods"], len(answer["refused"])) == (placed, 2 - placed)
    assert answer["fits"] == (placed == 2)
    assert all(one["reason"].startswith(reason) for one in answer["refused"])
    assert answer["baseline"]["kept"] == 0
    expected = [{"count": "shop/spread|role=host", "before": 3, "after": 3 + placed}] if placed else []
    assert answer["counts"] == expected
    assert answer["complete"] is True


def quota(host: int) -> list[events.AnyEvent]:
    return [api_worlds.policy(host=host, member=1)]


def cordoned(name: str) -> events.NodeSeen:
    node = api_worlds.node(name, role="host").node
    return events.NodeSeen(node=msgspec.structs.replace(node, unschedulable=True))


@pytest.mark.scenario("WI-2")
@pytest.mark.parametrize(
    ("overrides", "done", "offered"),
    [
        ([], [], [*MEMBERS, *HOSTS]),
        ([scale(host="+1")], quota(4), [*MEMBERS, *HOSTS]),
        ([scale(host="+2")], quota(5), [*MEMBERS, *HOSTS]),
        (
            [scale(host="+2"), {"op": "cordon", "nodes": HOSTS}],
            [*quota(5), *map(cordoned, HOSTS)],
            MEMBERS,  # kube-scheduler offers no cordoned node.
        ),
        (
            [{"op": "addNodes", "count": 20, "like": "host-1", "prefix": "more"}],
            [api_worlds.node(f"more-{at}", role="host") for at in range(1, 21)],
            [*MEMBERS, *HOSTS, *(f"more-{at}" for at in range(1, 21))],
        ),
    ],
    ids=["as it is", "one more", "two more", "cordoned", "more nodes"],
)
def test_what_is_supposed_is_what_the_verbs_answer_when_it_is_done(
    six: api_worlds.World, overrides: list[dict[str, Any]], done: list[events.AnyEvent], offered: list[str]
) -> None:
    supposed = ask(six, "simulate", pending={}, situation={"overrides": overrides})
    six.append(*done)
    placed = {one["pod"]: one["node"] for one in supposed["placed"]}
    refused = {one["pod"]: one["reason"] for one in supposed["refused"]}
    before = dict(six.store.follower.catch_up().counts)
    for name in ("a-5", "a-6"):
        api_worlds.decide(six, api_worlds.pod(name), offered=offered)
        answered = body(six.client.get(f"/apis/v1/pods/shop/{name}/explain"))
        assert (answered["source"], answered["fits"]) == ("decision", f"shop/{name}" in placed)
        if answered["fits"]:
            node = placed[f"shop/{name}"]
            (kept,) = [one for one in answered["scores"] if one["node"] == node]
            assert kept["total"] == max(one["total"] for one in answered["scores"])
            six.append(api_worlds.pod_seen(name, node))
        else:
            assert answered["summary"] == refused[f"shop/{name}"]
    after = six.store.follower.catch_up().counts
    assert {one["count"]: (one["before"], one["after"]) for one in supposed["counts"]} == {
        key: (before.get(key, 0), number) for key, number in after.items() if number != before.get(key, 0)
    }


@pytest.mark.scenario("WI-2")
def test_the_sentences_are_those_of_the_verbs_when_the_same_is_really_done(six: api_worlds.World) -> None:
    supposed = ask(six, "simulate", pod="shop/a-5", situation={"overrides": [scale(host=2)]})["explanation"]
    six.append(api_worlds.policy(host=2, member=1))
    api_worlds.decide(six, api_worlds.pod("a-5"))
    done = body(six.client.get("/apis/v1/pods/shop/a-5/explain"))
    assert done["source"] == "decision"
    for field in ("refusals", "summary", "fits", "kept", "candidates", "change", "plugins"):
        assert supposed[field] == done[field], field


@pytest.mark.scenario("WI-1")
def test_at_the_position_of_a_recorded_filter_the_answer_is_its_explanation(world: api_worlds.World) -> None:
    names = [f"web-{at}" for at in range(3, 23)]
    for at, name in enumerate(names):
        api_worlds.decide(world, api_worlds.pod(name, **({"rl_job_group": "job"} if at % 2 else {})))
        world.append(
            api_worlds.pod_seen(name, "host-3" if at % 3 == 0 else ""),
            api_worlds.policy(host=2 + at % 5, member=1 + at % 2),
        )
    checked = 0
    filters = world.store.decisions.search(records.DecisionQuery(verb="filter"), limit=1000)
    for record in filters.records:
        key = record.pod.key
        explained = body(world.client.get(f"/apis/v1/pods/{key}/explain?decision={record.id}"))
        answer = ask(
            world,
            "simulate",
            pod=manifest(
                record.pod.name, **{k: v for k, v in record.pod.labels.items() if k == "rl-job-group"}
            ),
            situation={"at": str(record.position)},
            candidates=body(world.client.get(f"/apis/v1/decisions/{record.id}"))["nodes"],
            top=100,
        )["explanation"]
        for field in ("source", "decision", "attempt", "attempts", "attemptsComplete", "place"):
            explained.pop(field), answer.pop(field, None)
        explained["pod"].pop("uid"), answer["pod"].pop("uid")
        assert answer == explained
        checked += 1
    assert checked == len(names)


def test_recorded_candidates_are_those_of_the_latest_attempt(world: api_worlds.World) -> None:
    (identity,) = api_worlds.decide(world, api_worlds.pod("web-3"))
    world.append(api_worlds.node("host-9", role="host"))
    answer = ask(world, "simulate", pod="shop/web-3")
    assert answer["explanation"]["candidates"] == 6
    assert identity in answer["limits"][0]
    everywhere = ask(world, "simulate", pod="shop/web-3", candidates="all")
    assert everywhere["explanation"]["candidates"] == 7
    like = [{"op": "addNodes", "like": "host-1"}, {"op": "cordon", "nodes": ["host-2"]}]
    assert (
        ask(world, "simulate", pod="shop/web-3", situation={"overrides": like})["explanation"]["candidates"]
        == 6 + 1 - 1
    )


def test_a_manifest_is_asked_about_without_being_recorded(world: api_worlds.World) -> None:
    before = world.store.follower.catch_up().position
    answer = ask(world, "simulate", pod=manifest("new"), situation={"overrides": [scale(host=9)]})
    assert answer["fits"] is True
    assert answer["placed"] == [{"pod": "shop/new", "node": answer["placed"][0]["node"]}]
    assert answer["baseline"]["fits"] is False
    assert answer["situation"]["events"] == {"ObjectObserved": 1}
    assert answer["situation"]["at"] == str(before) == str(world.store.follower.catch_up().position)
    assert world.client.get("/apis/v1/pods/shop/new").status_code == 404


def test_several_pods_are_placed_in_their_order(six: api_worlds.World) -> None:
    asked = [manifest("z-1"), "shop/a-6", manifest("z-2")]
    situation = {"overrides": [scale(host="+2")]}
    answer = ask(six, "simulate", pods=asked, situation=situation)
    assert [one["pod"] for one in answer["placed"]] == ["shop/z-1", "shop/a-6"]
    assert [one["pod"] for one in answer["refused"]] == ["shop/z-2"]
    assert (answer["pods"], answer["placedPods"], answer["left"]) == (3, 2, 0)


def test_pods_that_wait_are_selected_and_come_by_priority_and_age(six: api_worlds.World) -> None:
    important = api_worlds.pod("vip")
    six.append(
        events.PodSeen(pod=msgspec.structs.replace(important, priority=7)),
        api_worlds.pod_seen("other", tier="x"),
    )
    answer = ask(six, "simulate", pending={}, situation={"overrides": [scale(host=99)]})
    assert [one["pod"] for one in answer["placed"]] == ["shop/vip", "shop/a-5", "shop/a-6", "shop/other"]
    some = ask(six, "simulate", pending={"selector": {"tier": "x"}}, situation={"overrides": [scale(host=9)]})
    assert [one["pod"] for one in some["placed"]] == ["shop/other"]
    assert ask(six, "simulate", pending={"namespace": "elsewhere"})["pods"] == 0
    assert ask(six, "simulate", pending={"most": 1})["pods"] == 1


def test_free_capacity_limits_roomy_candidates_and_is_used_up(six: api_worlds.World) -> None:
    """Each host has 8 cpu, of which host-4 has all free: sixteen pods of 500m fit there."""
    cordoned = [{"op": "cordon", "nodes": ["member-1", "member-2", *HOSTS[:3]]}, scale(host=99)]
    added = {"op": "addPods", "like": "shop/a-5", "count": 20}
    answer = ask(six, "simulate", pending={}, situation={"overrides": [*cordoned, added]}, top=50)
    assert answer["placedPods"] == 16
    assert {one["node"] for one in answer["placed"]} == {"host-4"}
    assert answer["refused"][0]["reason"] == (
        "0 of 6 nodes fit by kube-scheduler's own rules: 1 Insufficient cpu; 5 node(s) were unschedulable"
    )


def test_what_kube_scheduler_refuses_on_every_node_is_named(six: api_worlds.World) -> None:
    large = manifest("large")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    reason = "0 of 6 nodes fit by kube-scheduler's own rules: 6 Insufficient cpu"
    answer = ask(six, "simulate", pod=large, candidates="roomy")
    explanation = answer["explanation"]
    assert (explanation["summary"], explanation["change"]) == (reason, [])
    assert (answer["baseline"]["summary"], answer["refused"][0]["reason"]) == (reason, reason)
    several = ask(six, "simulate", pods=[large])
    assert [one["reason"] for one in several["refused"]] == [reason]
    assert ask(six, "fit", pod=large, candidates="roomy")["summary"] == reason


def test_candidates_that_the_situation_removes_are_no_rule_of_kube_scheduler(six: api_worlds.World) -> None:
    situation = {"overrides": [{"op": "removeNodes", "nodes": ["host-4"]}]}
    answer = ask(six, "simulate", pod="shop/a-5", candidates=["host-4"], situation=situation)
    expected = "5 of 5 nodes fit by kube-scheduler's own rules, and none of them is a candidate"
    assert answer["explanation"]["summary"] == expected


@pytest.mark.scenario("WI-13")
def test_roomy_candidates_follow_the_rules_of_kube_scheduler(six: api_worlds.World) -> None:
    tainted = msgspec.structs.replace(
        api_worlds.node("host-1", role="host").node, taints=(model.Taint("dedicated", "NoSchedule", "x"),)
    )
    six.append(events.NodeSeen(node=tainted), api_worlds.policy(host=99))

    def roomy(**spec: object) -> dict[str, Any]:
        made = manifest("new")
        made["spec"] |= spec
        answer: dict[str, Any] = ask(six, "simulate", pod=made, candidates="roomy")
        return answer

    def offered(answer: dict[str, Any]) -> set[str]:
        return {row["node"] for row in answer["explanation"]["scores"]}

    everywhere = {"member-1", "member-2", *HOSTS}
    plain = roomy()
    assert offered(plain) == everywhere - {"host-1"}
    assert (plain["notModelled"], len(plain["limits"])) == ([], 2)
    toleration = {"key": "dedicated", "operator": "Exists"}
    assert offered(roomy(tolerations=[toleration])) == everywhere
    assert offered(roomy(nodeSelector={"role": "member"})) == {"member-1", "member-2"}
    term = {"topologyKey": "zone", "labelSelector": {}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    named = roomy(affinity=apart, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    assert named["notModelled"] == ["podAntiAffinity", "volumes"]
    assert named["limits"][1] == "not modelled: podAntiAffinity, volumes; it may offer fewer nodes"


def test_an_added_node_has_no_taints_of_the_moment(six: api_worlds.World) -> None:
    cordoned = msgspec.structs.replace(
        api_worlds.node("host-1", role="host").node,
        unschedulable=True,
        taints=(
            model.Taint("node.kubernetes.io/unschedulable", "NoSchedule"),
            model.Taint("own", "NoSchedule"),
        ),
    )
    six.append(events.NodeSeen(node=cordoned), api_worlds.policy(host=99))
    tolerant = manifest("new")
    tolerant["spec"] |= {"tolerations": [{"key": "own", "operator": "Exists"}]}
    for override in (
        {"op": "addNodes", "like": "host-1", "prefix": "more"},
        {"op": "uncordon", "nodes": ["host-1"]},
    ):
        for pod, fits in ((tolerant, True), (manifest("new"), False)):
            asked = {"pod": pod, "candidates": "roomy", "situation": {"overrides": [override]}, "top": 50}
            rows = {row["node"] for row in ask(six, "simulate", **asked)["explanation"]["scores"]}
            assert (("more-1" if override["op"] == "addNodes" else "host-1") in rows) == fits


def test_the_past_is_asked_like_the_present(six: api_worlds.World) -> None:
    before = six.store.follower.catch_up().offset
    six.append(api_worlds.policy(host=9, member=1))
    assert ask(six, "simulate", pending={})["placedPods"] == 2
    response = post(six, "simulate", {"pending": {}, "situation": {"at": str(before)}})
    assert_stamped(response)
    assert body(response)["placedPods"] == 0
    assert body(response)["situation"]["at"].endswith(f"/{before}")


def test_another_configuration_decides(world: api_worlds.World) -> None:
    asked = {"pod": "shop/web-3", "candidates": "all"}
    without = ask(
        world, "simulate", **asked, situation={"configuration": {"enabled": ["JobAffinity"], "weights": {}}}
    )
    assert without["fits"] is True
    assert without["baseline"]["fits"] is False
    assert (
        without["situation"]["configuration"] != ask(world, "simulate", **asked)["situation"]["configuration"]
    )
    assert_problem(
        post(world, "simulate", {**asked, "situation": {"configuration": {"enabled": ["Nonsense"]}}}),
        400,
        "BadRequest",
        "situation.configuration",
        "Nonsense",
    )


def test_the_same_question_at_a_position_gives_the_same_bytes(six: api_worlds.World) -> None:
    at = str(six.store.follower.catch_up().position)
    asked = {"pending": {}, "situation": {"at": at, "overrides": [scale(host="+1")]}}
    one = post(six, "simulate", asked).get_json()
    six.append(api_worlds.policy(host=9, member=9), api_worlds.pod_seen("a-7"))
    other = post(six, "simulate", asked).get_json()
    one.pop("spentMs"), other.pop("spentMs")
    assert one == other


MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "BadRequest", "exactly one of pod, pods, gang, group and pending"),
    ({"pod": "shop/a-5", "pending": {}}, "BadRequest", "exactly one of"),
    ({"pood": "shop/a-5"}, "BadRequest", "there is no field 'pood'; did you mean pod?"),
    ({"p - at `$.x`": 5}, "BadRequest", "there is no field 'p - at '"),
    ({"pod": "a-5"}, "BadRequest", "pod: 'a-5' is not NAMESPACE/NAME"),
    ({"pod": 5}, "BadRequest", "pod: expected"),
    ({"pod": {"metadata": {}}}, "BadRequest", "pod.metadata: an object with a name is required"),
    ({"pods": ["shop/a-5", "shop/a-5"]}, "BadRequest", "pods: a pod is named twice"),
    ({"pods": []}, "BadRequest", "pods: expected `array` of length >= 1"),
    ({"pending": {"most": 0}}, "BadRequest", "pending.most: expected `int` >= 1"),
    ({"pending": {"most": -1}}, "BadRequest", "pending.most"),
    ({"pending": {}, "top": 10**30}, "BadRequest", "top"),
    ({"pending": {}, "budget": 1e9}, "BadRequest", "budget: expected `float` <= 20.0"),
    ({"pending": {}, "candidates": "recorded"}, "BadRequest", "candidates: recorded"),
    (
        {"pod": "shop/a-5", "candidates": "some"},
        "BadRequest",
        "candidates: must be one of recorded, all, roomy",
    ),
    ({"pod": "shop/a-5", "candidates": ["n9"]}, "BadRequest", "candidates[0]: there is no node n9 at"),
    ({"pending": {}, "situation": {"at": "never"}}, "BadRequest", "situation.at: must be an offset"),
    (
        {"pending": {}, "situation": {"at": "999999"}},
        "BadRequest",
        "situation.at: offset 999999 is beyond the head",
    ),
]


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(("asked", "code", "words"), MISTAKES)
def test_a_mistake_is_400_with_its_path(
    six: api_worlds.World, asked: dict[str, Any], code: str, words: str
) -> None:
    assert_problem(post(six, "simulate", asked), 400, code, words)


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("data", "content_type", "status", "code"),
    [
        (b"", "application/json", 400, "BadRequest"),
        (b"[]", "application/json", 400, "BadRequest"),
        (b'{"pending": {}, "pending": {}}', "application/json", 400, "BadRequest"),
        (b'{"pod": ' + b"[" * 200 + b"]" * 200 + b"}", "application/json", 400, "BadRequest"),
        (b"{}", "text/plain", 415, "UnsupportedMediaType"),
        (b"\xff\xfe", "application/json", 400, "BadRequest"),
    ],
)
def test_bodies_that_are_not_questions_are_refused(
    still: api_worlds.World, data: bytes, content_type: str, status: int, code: str
) -> None:
    response = still.client.post("/apis/v1/simulate", data=data, content_type=content_type)
    assert_problem(response, status, code)


def test_a_pod_that_does_not_exist_is_404(six: api_worlds.World) -> None:
    assert_problem(post(six, "simulate", {"pod": "shop/none"}), 404, "NotFound", "cannot find pod shop/none")
    gone = {"overrides": [{"op": "deletePods", "pods": ["shop/a-5"]}]}
    assert_problem(post(six, "simulate", {"pod": "shop/a-5", "situation": gone}), 404, "NotFound")


def test_another_incarnation_is_410(six: api_worlds.World) -> None:
    response = post(six, "simulate", {"pending": {}, "situation": {"at": "other/3"}})
    assert_problem(response, 410, "PositionGone")


def test_a_pod_that_is_not_scheduled_as_it_is_is_named(six: api_worlds.World) -> None:
    for name, changed in (("gated", {"gated": True}), ("ending", {"terminating": True})):
        six.append(events.PodSeen(pod=msgspec.structs.replace(api_worlds.pod(name), **changed)))
    for name, text in (
        ("gated", "pod shop/gated has a scheduling gate"),
        ("ending", "pod shop/ending is terminating"),
        ("a-2", "pod shop/a-2 is on node host-1"),
    ):
        sentence = f"{text}: kube-scheduler does not schedule it as it is"
        for question in ("simulate", "fit"):
            assert sentence in ask(six, question, pod=f"shop/{name}")["limits"], question
        assert sentence in ask(six, "simulate", pods=[f"shop/{name}", "shop/a-5"])["limits"]
    other = msgspec.structs.replace(api_worlds.pod("other"), scheduler="volcano")
    assert len(ask(six, "simulate", pending={})["limits"]) == 1
    six.append(events.PodSeen(pod=other))
    assert "(default-scheduler, volcano)" in ask(six, "simulate", pending={})["limits"][1]
