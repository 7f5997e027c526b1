"""simulate and fit for gangs over HTTP: those that exist, and those that do not yet."""

from collections.abc import Iterator

import msgspec
import pytest

from app.domain import model
from app.domain.events import NodeSeen, PodSeen, placed
from app.framework import registry
from app.plugins.coscheduling import kinds
from app.plugins.coscheduling.membership import SIGS_LABEL
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.store.server import embedded
from tests.support.decisions import small_gangs
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import Json, assert_problem, body
from tests.support.extender.questions import ask, post

ZONE = "topology.kubernetes.io/zone"
TEMPLATE: Json = {
    "metadata": {"name": "worker", "namespace": "ml"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}

OF_TRAIN: Json = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "labels": {SIGS_LABEL: "train"}}}


def member(name: str, node: str = "", gang: str = "train", **changed: str) -> model.Pod:
    labels = {SIGS_LABEL: gang} if gang else {}
    return small_gangs.pod(name, 2, namespace="ml", node=node, labels=labels, **changed)


@pytest.fixture
def ml(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """Two nodes of four cores, one of them half used; a gang of four members of two cores waits."""
    chosen = registry.Registry([WorkloadPolicy(), Coscheduling()])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        made = api_worlds.world(start(), chosen)
        made.append(
            *(NodeSeen(node=small_gangs.node(name, 4)) for name in ("n1", "n2")),
            PodSeen(pod=member("other", "n1", gang="")),
            kinds.SIGS.observed(small_gangs.sigs("train", 4, namespace="ml")),
            *(PodSeen(pod=member(f"train-{at}")) for at in range(4)),
        )
        yield made


def nodes_of(answer: Json) -> dict[str, str]:
    return {one["pod"]: one["node"] for one in answer["placed"]}


def test_a_gang_that_has_too_little_capacity_is_refused_whole(ml: api_worlds.World) -> None:
    answer = ask(ml, "simulate", group="ml/train")
    assert (answer["fits"], answer["placedPods"], answer["pods"]) == (False, 0, 4)
    assert {one["reason"] for one in answer["refused"]} == {
        "0 of 0 nodes fit",
        "0 of 1 nodes fit: 1 gang sigs/ml/train: no capacity for 4 members together",
        "0 of 2 nodes fit: 2 gang sigs/ml/train: no capacity for 4 members together",
    } & {one["reason"] for one in answer["refused"]}
    assert answer["group"]["needed"] == 4
    assert "gang sigs/ml/train: 3 of 4 seats in the cluster; cpu 2 of 8 missing" in answer["group"]["remarks"]


def test_a_gang_is_placed_whole_by_the_plan_of_its_plugin(ml: api_worlds.World) -> None:
    added = {"overrides": [{"op": "addNodes", "like": "n2", "prefix": "new"}]}
    answer = ask(ml, "simulate", group="ml/train", situation=added)
    assert (answer["fits"], answer["placedPods"]) == (True, 4)
    assert answer["baseline"] == {"fits": False, "kept": 0, "summary": "0 of 4 pods are placed"}
    assert sorted(nodes_of(answer)) == [f"ml/train-{at}" for at in range(4)]
    assert any("plan in the cluster" in remark for remark in answer["group"]["remarks"])


def test_a_gang_that_does_not_exist_yet_is_placed_or_refused_whole(ml: api_worlds.World) -> None:
    three = ask(ml, "simulate", gang={"members": 3, "template": TEMPLATE})
    assert (three["fits"], three["placedPods"]) == (True, 3)
    assert sorted(nodes_of(three)) == ["ml/worker-1", "ml/worker-2", "ml/worker-3"]
    four = ask(ml, "simulate", gang={"members": 4, "template": TEMPLATE})
    assert (four["fits"], four["placedPods"], len(four["refused"])) == (False, 0, 4)


@pytest.mark.parametrize("question", ["simulate", "fit"])
def test_members_of_a_template_request_their_limits(ml: api_worlds.World, question: str) -> None:
    """The template is a manifest as people write it; its members lack what admission adds."""
    resources = {"limits": {"nvidia.com/gpu": 8}}
    spec = {"priorityClassName": "high", "containers": [{"name": "c", "resources": resources}]}
    answer = ask(ml, question, gang={"members": 2, "template": {**TEMPLATE, "spec": spec}})
    assert answer["fits"] is False
    assert any("LimitRange" in limit for limit in answer["limits"])
    assert any("priorityClassName high" in limit for limit in answer["limits"])


def test_a_gang_with_a_minimum_fits_if_as_many_are_placed(ml: api_worlds.World) -> None:
    gang = {"members": 4, "minimum": 2, "template": TEMPLATE}
    some = ask(ml, "simulate", gang=gang)
    assert (some["fits"], some["placedPods"], some["group"]["needed"]) == (True, 3, 2)
    assert some["baseline"] == {"fits": True, "kept": 3, "summary": "3 of 4 pods are placed"}
    added = {"overrides": [{"op": "addNodes", "like": "n2", "prefix": "new"}]}
    more = ask(ml, "simulate", gang=gang, situation=added)
    assert (more["placedPods"], more["baseline"]) == (4, some["baseline"])


def test_a_template_may_name_a_group_that_exists_in_the_situation_alone(ml: api_worlds.World) -> None:
    template = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "labels": {SIGS_LABEL: "later"}}}
    undefined = ask(ml, "simulate", gang={"members": 2, "template": template})
    assert undefined["fits"] is False
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "later", "namespace": "ml"},
        "spec": {"minMember": 2},
    }
    created = {"overrides": [{"op": "setObject", "manifest": group}]}
    defined = ask(ml, "simulate", gang={"members": 2, "template": template}, situation=created)
    assert (defined["fits"], defined["placedPods"]) == (True, 2)
    assert defined["baseline"]["fits"] is False


def test_all_that_wait_are_placed_with_the_seats_that_a_bind_would_commit(ml: api_worlds.World) -> None:
    """A pod that comes between the members of a gang does not take the capacity of one."""
    between = small_gangs.pod("between", 2, namespace="ml", created="2025-01-01T00:00:00Z")
    late = [member(f"train-{at}", created=f"202{4 + at}-01-01T00:00:00Z") for at in range(4)]
    ml.append(PodSeen(pod=between), *(PodSeen(pod=one) for one in late))
    added = {"overrides": [{"op": "addNodes", "like": "n2", "allocatable": {"cpu": "2"}}]}
    answer = ask(ml, "simulate", pending={}, situation=added)
    assert sorted(nodes_of(answer)) == [f"ml/train-{at}" for at in range(4)]
    assert [one["pod"] for one in answer["refused"]] == ["ml/between"]


@pytest.mark.scenario("WI-3")
@pytest.mark.parametrize("asked", [{"group": "ml/train"}, {"gang": {"members": 4, "template": TEMPLATE}}])
def test_each_advice_for_a_gang_makes_the_simulation_fit(ml: api_worlds.World, asked: Json) -> None:
    answer = ask(ml, "fit", **asked)
    assert answer["fits"] is False
    assert answer["summary"].startswith("0 of 4 members are placed")
    assert answer["changes"]
    for change in answer["changes"]:
        simulated = ask(ml, "simulate", **asked, situation={"overrides": change["overrides"]})
        assert (simulated["fits"], simulated["placedPods"]) == (True, change["kept"])


def test_the_changes_are_of_the_kinds_that_are_allowed(ml: api_worlds.World) -> None:
    spelled = {
        kind: [one["overrides"] for one in ask(ml, "fit", group="ml/train", allow=[kind])["changes"]]
        for kind in ("objects", "nodes", "pods", "labels")
    }
    assert spelled["objects"] == [
        [{"op": "patchObject", "kind": "sigspodgroups", "name": "ml/train", "patch": {"minimum": 3}}]
    ]
    assert spelled["nodes"] == [[{"op": "addNodes", "count": 1, "like": "n1"}]]
    assert spelled["pods"] == [[{"op": "deletePods", "pods": ["ml/other"]}]]
    assert spelled["labels"] == []


def test_a_gang_is_followed_over_time(ml: api_worlds.World) -> None:
    (kind,) = body(ml.client.get("/apis/v1/cluster"))["workloads"]
    assert (kind["kind"], kind["path"]) == ("gang", "/apis/v1/plugins/Coscheduling/gangs")
    headings = [one["heading"] for one in kind["columns"]]
    assert headings == ["GANG", "MINIMUM", "MEMBERS", "PLACED", "DOMAIN", "STATE", "MISSING"]
    (item,) = body(ml.client.get(kind["path"]))["items"]
    assert {one["field"] for one in kind["columns"]} <= item.keys()
    seen = ml.append(*(PodSeen(pod=member(f"train-{at}", f"n{1 + at % 2}")) for at in range(3)))
    found = body(ml.client.get(f"/apis/v1/series?of=gang:{item[kind['name']]}"))["lines"]
    lines = {one["name"]: [(offset, value) for offset, _, value in one["points"]] for one in found}
    assert lines["minimum"][-1][1] == lines["members"][-1][1] == 4
    assert lines["with a seat"][-3:] == [(seen - 2, 1), (seen - 1, 2), (seen, 3)]
    assert lines["waiting"][-4:] == [(seen - 3, 4), (seen - 2, 3), (seen - 1, 2), (seen, 1)]
    ml.append(kinds.SIGS.observed(small_gangs.sigs("train", 3, namespace="ml")))
    ml.append(kinds.SIGS.observed(small_gangs.sigs("other", 3, namespace="ml")))
    gone = ml.append(kinds.SIGS.gone("ml", "train", small_gangs.sigs("train", 3, namespace="ml").uid))
    marks = body(ml.client.get(f"/apis/v1/series?of=gang:{item[kind['name']]}&from=0"))["marks"]
    assert [(offset, text) for offset, _, text in marks[1:]] == [
        (gone - 2, "PodGroup changed"),
        (gone, "PodGroup deleted"),
    ]
    assert marks[0][2] == "PodGroup created"
    later = body(ml.client.get(f"/apis/v1/series?of=gang:{item[kind['name']]}&from={gone - 1}"))["marks"]
    assert [offset for offset, _, _ in later] == [gone]
    ml.append(kinds.SIGS.observed(small_gangs.sigs("train", 3, namespace="ml")))
    beside = ml.append(kinds.KOORDINATOR.observed(small_gangs.koordinator("train", 3, namespace="ml")))
    ended = ml.append(kinds.SIGS.gone("ml", "train", small_gangs.sigs("train", 3, namespace="ml").uid))
    both = body(ml.client.get(f"/apis/v1/series?of=gang:{item[kind['name']]}&from={beside - 1}"))["marks"]
    assert [(offset, text) for offset, _, text in both] == [
        (beside, "PodGroup created"),
        (ended, "PodGroup deleted"),
    ]
    wrong = ml.client.get("/apis/v1/series?of=crew:ml/train")
    assert_problem(wrong, 400, "BadRequest", "there is no kind crew; known: quota, gang")


def test_the_nodes_of_a_gang_are_a_colour_of_the_map(ml: api_worlds.World) -> None:
    def drawn(color: str) -> dict[str, str]:
        """Node -> its class."""
        found = body(ml.client.get(f"/apis/v1/map?color={color}"))
        labels = {one["letter"]: one["label"] for one in found["classes"]}
        return {name: labels[letter] for name, letter in zip(found["nodes"], found["values"], strict=True)}

    def offered() -> list[str]:
        found: list[str] = body(ml.client.get("/apis/v1/cluster"))["colours"]
        return found

    assert offered() == []
    assert set(drawn("gang:ml/train").values()) == {"elsewhere"}
    ml.append(
        NodeSeen(node=small_gangs.node("y-0", 4, {ZONE: "y"})),
        *(NodeSeen(node=small_gangs.node(f"z-{at}", 4, {ZONE: "z"})) for at in range(4)),
        *(PodSeen(pod=member(f"train-{at}", f"z-{at // 2}")) for at in range(3)),
    )
    assert offered() == ["gang:ml/train"]
    found = drawn("gang:ml/train")
    assert found.pop("z-0") == "several members"
    assert found.pop("z-1") == "a member"
    assert (found.pop("z-2"), found.pop("z-3")) == ("in the domain of its members",) * 2
    assert set(found.values()) == {"elsewhere"}
    ml.append(placed(member("train-3"), "z-2"))
    assert drawn("gang:ml/train")["z-2"] == "a member that is placed and not bound"
    looks = [one["look"] for one in body(ml.client.get("/apis/v1/map?color=gang:ml/train"))["classes"]]
    assert looks == ["none", "low", "high", "full", "over"]
    assert set(drawn("gang:ml/none").values()) == {"elsewhere"}
    wrong = ml.client.get("/apis/v1/map?color=crew:ml/train")
    assert_problem(wrong, 400, "BadRequest", "color: no enabled plugin declares crew")


def test_the_minimum_of_a_gang_is_scaled_by_an_override_of_its_plugin(ml: api_worlds.World) -> None:
    for minimum in (3, "3", "-1"):
        scaled = {"overrides": [{"op": "scaleGang", "gang": "ml/train", "minimum": minimum}]}
        assert ask(ml, "simulate", group="ml/train", situation=scaled)["placedPods"] == 3
    wrong = {"overrides": [{"op": "scaleGang", "gang": "ml/none", "minimum": 3}]}
    response = post(ml, "simulate", {"group": "ml/train", "situation": wrong})
    assert_problem(response, 400, "BadRequest", "overrides[0].gang: there is no PodGroup ml/none at")


def test_an_invalid_gang_is_not_scaled(ml: api_worlds.World) -> None:
    group = small_gangs.sigs("train", 4, namespace="ml")
    ml.append(kinds.SIGS.observed(msgspec.structs.replace(group, errors=("spec is odd",))))
    scaled = {"overrides": [{"op": "scaleGang", "gang": "ml/train", "minimum": 2}]}
    response = post(ml, "simulate", {"pending": {}, "situation": scaled})
    assert_problem(response, 400, "BadRequest", "overrides[0].gang: ml/train is invalid: spec is odd")


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("question", "asked", "status", "words"),
    [
        (
            "simulate",
            {"pod": "ml/train-0", "group": "ml/train"},
            400,
            "exactly one of pod, pods, gang, group",
        ),
        ("fit", {}, 400, "exactly one of pod, gang and group"),
        ("fit", {"pod": "ml/train-0", "group": "ml/train"}, 400, "exactly one of pod, gang and group"),
        ("simulate", {"group": "ml/none"}, 404, "cannot find a group ml/none"),
        ("fit", {"group": "none"}, 404, "cannot find a group none"),
        (
            "simulate",
            {"gang": {"members": 0, "template": TEMPLATE}},
            400,
            "gang.members: expected `int` >= 1",
        ),
        ("simulate", {"gang": {"members": 1001, "template": TEMPLATE}}, 400, "expected `int` <= 1000"),
        ("simulate", {"gang": {"members": 2}}, 400, "missing required field `template`"),
        ("simulate", {"gang": {"members": 2, "template": {}}}, 400, "gang.template.metadata"),
        (
            "simulate",
            {"gang": {"members": 2, "minimum": 3, "template": TEMPLATE}},
            400,
            "gang.minimum: 3 is more than 2 members",
        ),
        (
            "simulate",
            {"gang": {"members": 2, "minimum": 2, "template": OF_TRAIN}},
            400,
            "gang.minimum: the template names the group ml/train, which has a minimum of its own",
        ),
        (
            "simulate",
            {"group": "ml/train", "candidates": "recorded"},
            400,
            "recorded candidates are those of",
        ),
    ],
)
def test_a_mistake_is_named(
    ml: api_worlds.World, question: str, asked: Json, status: int, words: str
) -> None:
    code = "NotFound" if status == 404 else "BadRequest"
    assert_problem(post(ml, question, asked), status, code, words)


def test_without_a_plugin_that_places_pods_together_there_is_no_gang(six: api_worlds.World) -> None:
    alone = {"configuration": {"enabled": ["WorkloadPolicy"]}}
    asked = {"gang": {"members": 2, "template": TEMPLATE}, "situation": alone}
    assert_problem(post(six, "simulate", asked), 400, "BadRequest", "no plugin that is enabled places pods")
