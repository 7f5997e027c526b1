"""What people see of gangs: the views, the table, and the remarks of ``topolog explain``."""

from typing import Any

import msgspec
import pytest

from app.cli.output import tables
from app.domain import model
from app.framework import pipeline, views
from app.plugins.coscheduling import admission, membership, options, samples
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support.decisions import call_counts, small_quotas
from tests.support.decisions.small_gangs import ZONE, Cluster, gang, node, pod

VIEWS = {endpoint.path: endpoint for endpoint in Coscheduling().shown().endpoints}


def shown(small: Cluster, name: str = "train") -> dict[str, Any]:
    found = VIEWS["gangs/<namespace>/<name>"].handle(small.snapshot, {"namespace": "x", "name": name})
    assert found == VIEWS["gang/<namespace>/<name>"].handle(small.snapshot, {"namespace": "x", "name": name})
    return found if isinstance(found, dict) else {}


def listed(small: Cluster) -> list[Any]:
    found = VIEWS["gangs"].handle(small.snapshot, {})
    assert isinstance(found, views.Listed)
    return [found.item(key) for key in found.keys]


def test_koordinators_fields_and_ours() -> None:
    members = gang("train", 3, 2, minimum=2, waiting_time="90s", match_policy="only-waiting")
    gated = msgspec.structs.replace(members[2], gated=True)
    small = Cluster(node("n1", 8, {ZONE: "a"}), *members[:2], gated)
    found = shown(small)
    assert found.keys() == samples.GANG.keys()
    expected = {
        "name": "x/train",
        "waitTime": 90,
        "mode": "Strict",
        "gangMatchPolicy": "only-waiting",
        "minRequiredNumber": 2,
        "totalChildrenNum": 2,
        "gangGroup": ["x/train"],
        "children": ["x/train0", "x/train1", "x/train2"],
        "pendingChildren": ["x/train0", "x/train1"],
        "waitingForBindChildren": [],
        "boundChildren": [],
        "onceResourceSatisfied": False,
        "gangFrom": "GangFromPodAnnotation",
        "hasGangInit": True,
        "definedBy": "pod x/train0",
        "state": "ready",
        "domain": "a",
    }
    assert {key: found[key] for key in expected} == expected
    assert found["plan"]["members"] == [{"pod": f"x/train{n}", "node": "n1"} for n in range(2)]
    assert found["domains"] == [
        {"path": [], "slots": 2, "existing": 0},
        {"path": ["a"], "slots": 2, "existing": 0},
    ]


def test_seats_are_placed_and_then_bound() -> None:
    members = gang("train", 2, 4)
    small = Cluster(node("n1"), *members)
    small.commit(members[1], "n1")
    assert shown(small)["state"] == "placed"
    assert shown(small)["waitingForBindChildren"] == ["x/train0", "x/train1"]
    small.run(members[0], "n1")
    assert shown(small)["seats"] == [
        {"pod": "x/train0", "node": "n1", "state": "bound", "at": ""},
        {"pod": "x/train1", "node": "n1", "state": "placed", "at": "now"},
    ]
    small.run(members[1], "n1")
    assert (shown(small)["state"], shown(small)["onceResourceSatisfied"]) == ("running", True)


def test_the_table_names_what_a_waiting_gang_lacks() -> None:
    small = Cluster(node("n1", 3), *gang("train", 4, 1), *gang("small", 2), *gang("alone", 2)[:1])
    lacking = "3 of 4 seats in the cluster; cpu 1 of 4 missing"
    (table,) = Coscheduling.tables
    rows = [[tables.pick(one, path) for path in table.columns.values()] for one in listed(small)]
    assert [[str(cell) for cell in row] for row in rows] == [
        ["koordinator/x/alone", "2", "1", "0", "", "waiting", ""],
        ["koordinator/x/small", "2", "2", "0", "", "ready", ""],
        ["koordinator/x/train", "4", "4", "0", "", "waiting", lacking],
    ]


def test_the_plan_of_a_view_asks_the_other_plugins() -> None:
    named = [
        msgspec.structs.replace(one, labels={"quota.scheduling.koordinator.sh/name": "q"})
        for one in gang("train", 4)
    ]
    small = Cluster(node("n1"), small_quotas.quota("q", 0, 3), *named, beside=(ElasticQuota(),))
    peers = pipeline.peers(small.plugins, Coscheduling.name)
    for path in ("gangs/<namespace>/<name>", "gang/<namespace>/<name>"):
        beside = VIEWS[path].beside
        assert beside is not None
        found = beside(peers)(small.snapshot, {"namespace": "x", "name": "train"})
        assert isinstance(found, dict)
        assert (found["state"], found["missing"], found["plan"]["members"]) == ("waiting", "", [])
        assert found["reason"] == "gang koordinator/x/train: elastic quota q: no capacity in cpu"


@pytest.mark.parametrize("case", ["fits", "nominated", "no capacity", "too few", "too many"])
def test_the_plan_of_a_view_is_that_of_a_call_of_filter(case: str) -> None:
    count = {"too few": 3, "too many": 1_001}.get(case, 4)
    members = gang("train", count, minimum=2_000 if case == "too many" else 4)
    if case == "nominated":
        members[3] = msgspec.structs.replace(members[3], nominated="n1", priority=1)
    small = Cluster(node("n1", 2), node("n2", 1 if case == "no capacity" else 2), *members)
    answers = {one.key: small.planned(one) for one in members[:4]}
    peers = pipeline.peers(small.plugins, Coscheduling.name)
    beside = VIEWS["gangs/<namespace>/<name>"].beside
    assert beside is not None
    with call_counts.counted(admission, "_decided") as decided:
        found = beside(peers)(small.snapshot, {"namespace": "x", "name": "train"})
    assert isinstance(found, dict)
    planned = {one["pod"]: one["node"] for one in found["plan"]["members"]}
    assert planned == {key: name for key, name in answers.items() if name}
    assert found["reason"] == ("" if planned else small.why(members[0]))
    assert decided.call_count == 0


def test_an_unknown_gang_is_not_found() -> None:
    assert shown(Cluster(node("n1"), *gang("train", 2)), "other") == {}


def remarks(small: Cluster, one: model.Pod) -> list[str]:
    cycle = pipeline.with_peers(small.plugins, small._cycle(one, None), "Coscheduling")
    return list(Coscheduling().shown().remarks(cycle))


def test_explain_of_a_member_shows_the_plan_of_its_gang() -> None:
    members = gang("train", 2, 4)
    small = Cluster(node("n1"), *members)
    assert remarks(small, members[0]) == [
        "gang koordinator/x/train: minimum 2, 0 on nodes, 2 waiting; defined by pod x/train0",
        "gang koordinator/x/train: plan in the cluster: x/train0 on n1, x/train1 on n1",
    ]
    small.commit(members[0], "n1")
    assert remarks(small, members[1]) == ["gang koordinator/x/train: the pod has a seat on node n1"]
    assert remarks(small, pod("plain")) == []


def test_explain_of_a_waiting_member_shows_what_is_missing_and_the_reason_of_others() -> None:
    members = gang("train", 4, 3)
    assert remarks(Cluster(node("n1"), *members), members[0])[1:] == [
        "gang koordinator/x/train: no capacity for 4 members together",
        "gang koordinator/x/train: 2 of 4 seats in the cluster; cpu 4 of 12 missing",
    ]
    named = [
        msgspec.structs.replace(one, labels={"quota.scheduling.koordinator.sh/name": "q"}) for one in members
    ]
    small = Cluster(node("n1", 100), small_quotas.quota("q", 0, 9), *named, beside=(ElasticQuota(),))
    assert remarks(small, named[0])[1:] == ["gang koordinator/x/train: elastic quota q: no capacity in cpu"]


def test_a_gang_is_listed_beside_another_one_of_the_same_name() -> None:
    """Pods with the marks of both are members of Koordinator's alone; pods of a mark are in no order."""
    sigs, koordinator = {membership.SIGS_LABEL: "g"}, {options.LABEL: "g"}
    several = [pod(f"several{number}", labels=sigs | koordinator, group="g") for number in range(30)]
    small = Cluster(node("n1"), *several, pod("outer", labels=sigs), pod("inner", group="g"))
    families = ["koordinator", "native", "sigs"]
    assert sorted((one["family"], one["name"]) for one in listed(small)) == [(one, "x/g") for one in families]
