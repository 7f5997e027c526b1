"""The verbs over real HTTP and mTLS, on two replicas, as kube-scheduler calls them."""

import re

import pytest

from tests.support import declared
from tests.support.extender import stages, verb_answers

LABEL = "priority.lixueduan.com"
EXTENDED = "i-scheduler-extender"


def test_an_extender_is_ready_after_the_first_lists_and_not_before(stage: stages.Stage) -> None:
    status, text = stage.unready
    assert status == 503
    assert f"not recorded yet: {', '.join(sorted(declared.SCHEMA.names))}" in text
    for one in stage.replicas:
        assert one.readiness()[0] == 200


@pytest.mark.scenario("LX-6", "LX-1", "LX-2", "LX-4", "LX-5")
def test_both_forms_of_nodes_give_the_same_answers(stage: stages.Stage, own: str) -> None:
    nodes = [stage.node(f"{own}-{number}") for number in (1, 2)]
    pod = stage.pod(own, "pod", schedulerName=EXTENDED)
    names = [node["metadata"]["name"] for node in nodes]
    one, other = names
    stage.seen()
    forms = [
        {"Pod": pod, "Nodes": None, "NodeNames": names},
        {"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None},
    ]

    def kept(verb: str) -> list[str]:
        found = []
        for replica in (0, 1):
            caller = stage.caller(replica=replica)
            found += [verb_answers.names_of(caller.post(f"/{verb}", form)) for form in forms]
        assert found == found[:1] * 4, found
        return found[0]

    reply = stage.caller().post("/filter", forms[1])
    assert verb_answers.names_of(reply) == []
    assert set(reply.json["FailedAndUnresolvableNodes"]) == set(names)
    assert all(LABEL in why for why in reply.json["FailedAndUnresolvableNodes"].values())
    assert kept("filter") == kept("filter_onlyone") == []
    stage.relabel(one, LABEL, "10")
    stage.seen()
    assert kept("filter") == kept("filter_onlyone") == [one]
    stage.relabel(other, LABEL, "20")
    stage.seen()
    assert sorted(kept("filter")) == names
    assert kept("filter_onlyone") == [other]
    stage.relabel(one, LABEL, "30")
    stage.seen()
    assert kept("filter_onlyone") == [one]
    scores = [
        {entry["Host"]: entry["Score"] for entry in stage.caller().post("/prioritize", form).items}
        for form in forms
    ]
    assert scores == [{one: 30, other: 20}] * 2


@pytest.mark.scenario("WP-19")
def test_quotas_hold_in_both_forms(stage: stages.Stage, own: str) -> None:
    nodes = [stage.node(f"{own}-{role}", role=role) for role in ("host", "member")]
    stage.policy(own, "spread", stages.spec(host=0, member=1))
    pod = stage.pod(own, "web-1", {"app": "web", stages.POLICY_LABEL: "spread"})
    stage.seen()
    names = [node["metadata"]["name"] for node in nodes]
    by_name = stage.caller().post("/filter", stages.request(pod, *names)).json
    by_node = stage.caller(replica=1).post("/filter", {"Pod": pod, "Nodes": {"items": nodes}}).json
    sentence = f"workload policy {own}/spread: no capacity on these nodes (host 0/0, member 0/1)"
    assert by_name["NodeNames"] == [names[1]]
    assert by_node["Nodes"]["items"] == [nodes[1]]
    assert (by_name["Nodes"], by_node["NodeNames"]) == (None, None)
    # The order of names is the scheduler's; the decision does not depend on it.
    assert stage.caller().post("/filter", stages.request(pod, *names[::-1])).json == by_name
    scored = [
        verb_answers.scores(stage.caller(replica=at).post("/prioritize", asked))
        for at, asked in enumerate((stages.request(pod, *names), {"Pod": pod, "Nodes": {"items": nodes}}))
    ]
    assert scored == [{names[0]: 0, names[1]: 10}] * 2
    assert (
        by_name["FailedAndUnresolvableNodes"] == by_node["FailedAndUnresolvableNodes"] == {names[0]: sentence}
    )


@pytest.mark.scenario("LX-7", "RL-13")
@pytest.mark.parametrize(
    "verbs", [("filter",), ("filter_onlyone",), ("prioritize", "priority"), ("preempt",)]
)
def test_each_path_of_a_verb_is_the_same_verb(stage: stages.Stage, own: str, verbs: tuple[str, ...]) -> None:
    stage.node(f"{own}-1", **{"priority.lixueduan.com": "10"})
    stage.node(f"{own}-2")
    pod = stage.pod(own, "pod", schedulerName=EXTENDED, priority=100)
    victims = {f"{own}-{n}": stage.pod(own, f"victim-{n}", nodeName=f"{own}-{n}") for n in (1, 2)}
    stage.seen()
    body = {
        **stages.request(pod, f"{own}-1", f"{own}-2"),
        "NodeNameToMetaVictims": {
            node: {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 1}
            for node, victim in victims.items()
        },
    }
    replies = [stage.caller().post(f"{prefix}/{verb}", body) for verb in verbs for prefix in ("", "/api")]
    assert {(reply.status, reply.raw) for reply in replies} == {(200, replies[0].raw)}
    assert replies[0].headers["Content-Type"] == "application/json"


@pytest.mark.scenario("LX-11")
def test_a_malformed_call_gets_a_clear_answer_and_does_no_harm(stage: stages.Stage, own: str) -> None:
    caller, pod = stage.caller(), stage.pod(own, "pod")
    for verb in stages.VERBS:
        got = caller.ask("GET", f"/{verb}")
        assert (got.status, got.headers["Allow"], got.json["reasonCode"]) == (
            405,
            "POST",
            "MethodNotAllowed",
        )
        for body in (b"", b"{", b"no json", b"[]", b"null"):
            reply = caller.post(f"/{verb}", body)
            assert (reply.status, reply.json["reasonCode"]) == (400, "BadRequest"), (verb, body)
            assert reply.json["message"]
    neither = {"Pod": pod, "Nodes": None, "NodeNames": None}
    assert "neither NodeNames nor Nodes" in caller.post("/filter", neither).json["Error"]
    assert caller.post("/prioritize", neither).items == []
    assert stage.replicas[0].process.running


@pytest.mark.scenario("RL-1", "RL-2", "RL-3", "RL-4")
def test_siblings_are_found_in_the_log_and_not_in_the_request(stage: stages.Stage, own: str) -> None:
    one, two = f"{own}-1", f"{own}-2"
    stage.node(one)
    stage.node(two)
    group = f"{own}-alpha"
    stage.pod(own, "other", nodeName=one)
    worker = stage.pod(own, "rl-worker-1", {"rl-job-group": group}, nodeName=two)
    late = stage.pod(own, "rl-worker-2", {"rl-job-group": group})
    stage.pod(own, "rl-worker-3", {"rl-job-group": f"{own}-beta"}, nodeName=one)
    without = stage.pod(own, "rl-worker-4", {"rl-job-group": f"{own}-gamma"})
    alone = stage.pod(own, "nginx")
    stage.seen()
    # The request claims that the sibling is elsewhere: it is not asked.
    liar = {
        "Pod": late,
        "Nodes": {
            "items": [{"metadata": {"name": one}, "pods": [worker]}, {"metadata": {"name": two}, "pods": []}]
        },
    }
    for replica in (0, 1):
        caller = stage.caller(replica=replica)
        assert verb_answers.scores(caller.post("/prioritize", stages.request(late, one, two))) == {
            one: 0,
            two: 10,
        }
        assert verb_answers.scores(caller.post("/prioritize", liar)) == {one: 0, two: 10}
        for pod in (without, alone):
            assert verb_answers.scores(caller.post("/prioritize", stages.request(pod, one, two))) == {
                one: 0,
                two: 0,
            }
        assert verb_answers.names_of(caller.post("/filter", stages.request(alone, one, two))) == [one, two]


@pytest.mark.scenario("RL-6")
def test_a_placement_attracts_the_next_sibling_at_once_on_the_other_replica(
    stage: stages.Stage, own: str
) -> None:
    one, two = f"{own}-1", f"{own}-2"
    stage.node(one)
    stage.node(two)
    first, second = (stage.pod(own, f"worker-{n}", {"rl-job-group": own}) for n in (1, 2))
    stage.seen()
    assert stage.caller().post("/bind", stages.bind(first, two)).json == {"Error": ""}
    reply = stage.caller(replica=1).post("/prioritize", stages.request(second, one, two))
    assert verb_answers.scores(reply) == {one: 0, two: 10}


@pytest.mark.scenario("LX-12")
def test_bind_answers_an_error_unless_the_pod_is_bound(stage: stages.Stage, own: str) -> None:
    stage.node(f"{own}-1")
    stage.node(f"{own}-2")
    pod = stage.pod(own, "pod")
    stage.seen()
    caller = stage.caller()
    ghost = {**stages.bind(pod, f"{own}-1"), "PodUID": "another"}
    assert "is gone" in caller.post("/bind", ghost).json["Error"]
    assert caller.post("/bind", stages.bind(pod, f"{own}-1")).json == {"Error": ""}
    assert caller.post("/bind", stages.bind(pod, f"{own}-1")).json == {"Error": ""}
    assert "already bound" in caller.post("/bind", stages.bind(pod, f"{own}-2")).json["Error"]
    assert stage.bound(pod) == f"{own}-1"


@pytest.mark.scenario("PR-1", "PR-4", "PR-25")
@pytest.mark.parametrize("case", [str, str.lower, str.upper])
def test_preempt_over_the_wire(stage: stages.Stage, own: str, case: object) -> None:
    assert callable(case)
    stage.node(f"{own}-1", role="host")
    stage.node(f"{own}-2", role="host")
    stage.policy(own, "spread", stages.spec(host=1))
    labels = {"app": "web", stages.POLICY_LABEL: "spread"}
    member = stage.pod(own, "web-1", labels, nodeName=f"{own}-1")
    unrelated = stage.pod(own, "other", {"app": "other"}, nodeName=f"{own}-2")
    preemptor = stage.pod(own, "web-2", labels, priority=100)
    stage.seen()
    full: dict[str, stages.Json] = {
        f"{own}-1": {"Pods": [member], "NumPDBViolations": 2},
        f"{own}-2": {"Pods": [unrelated]},
    }
    meta = {
        node: {
            case("Pods"): [{case("UID"): pod["metadata"]["uid"]} for pod in victims["Pods"]],
            case("NumPDBViolations"): victims.get("NumPDBViolations", 0),
        }
        for node, victims in full.items()
    }
    expected = {
        "NodeNameToMetaVictims": {
            f"{own}-1": {"Pods": [{"UID": member["metadata"]["uid"]}], "NumPDBViolations": 2}
        }
    }
    caller = stage.caller()
    asked = {case("Pod"): preemptor, case("NodeNameToMetaVictims"): meta, case("NodeNameToVictims"): None}
    assert caller.post("/preempt", asked).json == expected
    asked = {case("Pod"): preemptor, case("NodeNameToVictims"): full, case("NodeNameToMetaVictims"): None}
    assert caller.post("/preempt", asked).json == expected
    only = {
        "Pod": preemptor,
        "NodeNameToMetaVictims": {f"{own}-2": {"Pods": [{"UID": unrelated["metadata"]["uid"]}]}},
    }
    assert caller.post("/preempt", only).json == {"NodeNameToMetaVictims": {}}
    # kube-scheduler's next step: it evicts no pods, and the pod stays refused because of the quota.
    reply = caller.post("/filter", stages.request(preemptor, *full)).json
    sentence = f"workload policy {own}/spread: no capacity (host 1/1)"
    assert reply["FailedAndUnresolvableNodes"] == dict.fromkeys(full, sentence)
    assert (stage.bound(member), stage.bound(unrelated)) == tuple(full)
    assert stage.bound(preemptor) == ""


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        ("scheduler", "GET", "/apis/v1/nodes", 403),
        ("scheduler", "PUT", "/debug/flags/s", 403),
        ("viewer", "GET", "/apis/v1/nodes", 200),
        ("viewer", "PUT", "/debug/flags/s", 403),
        *((role, "POST", f"/{verb}", 403) for role in ("viewer", "operator") for verb in stages.VERBS),
        *((role, "POST", f"/api/{verb}", 403) for role in ("viewer", "operator") for verb in stages.VERBS),
        ("operator", "GET", "/apis/v1/nodes", 200),
        ("operator", "PUT", "/debug/flags/v", 200),
    ],
)
def test_roles(stage: stages.Stage, role: str, method: str, path: str, status: int) -> None:
    lied = {
        "X-SSL-Client-CN": "kube-scheduler",
        "X-Forwarded-Client-Cert": "URI=spiffe://topolog.io/role/scheduler",
    }
    head = stage.seen().offset  # what was bound before has been seen
    reply = stage.caller(role).ask(method, path, b"0" if method != "GET" else None, lied)
    assert reply.status == status
    assert stage.store.log.head().offset == head + (1 if (role, method) == ("operator", "PUT") else 0)


def test_one_line_and_one_observation_for_each_call(stage: stages.Stage, own: str) -> None:
    for number in (1, 2, 3):
        stage.node(f"{own}-{number}", role="host" if number < 3 else "member")
    stage.policy(own, "spread", stages.spec(host=0, member=1))
    pod = stage.pod(own, "web-1", {"app": "web", stages.POLICY_LABEL: "spread"})
    offset = stage.seen().offset
    caller, names = stage.caller(), [f"{own}-{number}" for number in (1, 2, 3)]
    replies = [
        caller.post("/filter", stages.request(pod, *names)),
        caller.post("/prioritize", stages.request(pod, *names)),
        caller.post("/preempt", {"Pod": pod, "NodeNameToMetaVictims": {}}),
        caller.post("/bind", stages.bind(pod, names[0])),
        caller.post("/bind", stages.bind(pod, names[2])),
    ]
    one, key = stage.replicas[0], f"{own}/web-1"
    one.line(pod=key, verb="bind", outcome="bound")
    lines = one.lines(pod=key)
    assert [line["verb"] for line in lines] == ["filter", "prioritize", "preempt", "bind", "bind"]
    asked, scored, _, refused, bound = lines
    reason = f"workload policy {own}/spread: no capacity on these nodes (host 0/0, member 0/1)"
    assert (asked["candidates"], asked["kept"], asked["reasons"]) == (3, 1, {reason: 2})
    assert (scored["candidates"], scored["outcome"]) == (3, "scored")
    assert refused["reasons"] == {reason: 1}
    assert (refused["outcome"], refused["node"], bound["node"]) == ("refused", names[0], names[2])
    for line, reply in zip(lines, replies, strict=True):
        assert line["milliseconds"] > 0
        assert line["position"].split("/")[1].isdigit()
        assert reply.headers["X-Topolog-Position"] == line["position"]
        assert 0 <= float(reply.headers["X-Topolog-Age"]) < 60
    assert int(asked["position"].split("/")[1]) >= offset
    text = one.metrics()
    for verb, outcome in (
        ("filter", "kept"),
        ("prioritize", "scored"),
        ("bind", "bound"),
        ("bind", "refused"),
    ):
        series = re.escape(f'topolog_verb_duration_seconds_count{{outcome="{outcome}",verb="{verb}"}}')
        assert re.search(rf"^{series} [1-9]", text, re.MULTILINE)
    assert re.search(r'^topolog_refused_nodes_total\{plugin="WorkloadPolicy"\} [1-9]', text, re.MULTILINE)


def test_flags_change_the_logs_of_both_replicas_and_no_answer(stage: stages.Stage, own: str) -> None:
    stage.node(f"{own}-1", role="host")
    stage.node(f"{own}-2", role="member")
    stage.policy(own, "spread", stages.spec(host=0, member=1))
    pod = stage.pod(own, "web-1", {"app": "web", stages.POLICY_LABEL: "spread"})
    stage.seen()
    asked, names = stages.request(pod, f"{own}-1", f"{own}-2"), {f"{own}-1", f"{own}-2"}

    def answers() -> list[bytes]:
        callers = [stage.caller(replica=replica) for replica in (0, 1)]
        return [caller.post(path, asked).raw for caller in callers for path in ("/filter", "/prioritize")]

    plain = answers()
    operator = stage.caller("operator", replica=1)
    for letter, value in (("s", "5"), ("f", "true"), ("v", "5"), ("d", "true")):
        reply = operator.ask("PUT", f"/debug/flags/{letter}", value.encode())
        assert (reply.status, reply.raw[:16]) == (200, b"successfully set")
    try:
        assert answers() == plain
        for one in stage.replicas:
            shown = one.line(event="debug filter failure", pod=f"{own}/web-1")
            assert (shown["names"], shown["plugin"]) == ([f"{own}-1"], "WorkloadPolicy")
            assert own in one.line(event="debug scores", pod=f"{own}/web-1")["table"]
            assert set(one.line(event="debug candidates", pod=f"{own}/web-1")["names"]) == names
    finally:
        for letter, value in (("s", "0"), ("f", "false"), ("v", "0"), ("d", "false")):
            assert operator.ask("PUT", f"/debug/flags/{letter}", value.encode()).status == 200
    assert answers() == plain
