"""kube-scheduler's JSON: what is read, what is refused, and replies that can do no harm.

Out of scope: HTTP itself (tests/serving) and what the verbs decide (tests/scenarios).
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api import wire
from app.domain import lasting, model, verdicts
from app.verbs import candidates

NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(NAME | st.from_regex(r"[A-Za-z0-9][-A-Za-z0-9._:]{0,3}", fullmatch=True), max_size=12)


def trace_of(offered: candidates.Candidates, refused: frozenset[str]) -> verdicts.Trace:
    refusals = (verdicts.Refusal(reason='no "room"\n', nodes=refused, plugin="P"),) if refused else ()
    return verdicts.Trace(
        position=model.Position("i", 1),
        pod=model.Pod(uid="u", namespace="n", name="p"),
        candidates=offered.nodes,
        interested=("P",),
        refusals=refusals,
    )


@given(names=NAMES, chosen=st.sets(st.integers(0, 11)))
@pytest.mark.parametrize("form", ["names", "nodes"])
def test_a_filter_reply_lists_every_candidate_exactly_once(
    form: str, names: list[str], chosen: set[int]
) -> None:
    spelled = json.dumps(names).encode()
    nodes = json.dumps({"items": [{"metadata": {"name": name}} for name in names]}).encode()
    asked = wire.Call(
        pod=b"{}", names=spelled if form == "names" else None, nodes=nodes if form == "nodes" else None
    )
    offered = wire.names_of(spelled) if form == "names" else wire.nodes_of(nodes)
    refused = frozenset(name for at, name in enumerate(names) if at in chosen)

    reply = json.loads(wire.filter_reply(asked, offered, trace_of(offered, refused), None))

    kept = (
        reply["NodeNames"]
        if form == "names"
        else [item["metadata"]["name"] for item in reply["Nodes"]["items"]]
    )
    failed = reply["FailedAndUnresolvableNodes"]
    assert len(kept) == len(set(kept))
    assert set(kept) | set(failed) == set(names)
    assert not set(kept) & set(failed)
    assert set(failed.values()) <= {'no "room"\n'}
    assert reply["FailedNodes"] == {}
    assert reply["Error"] == ""


@given(names=NAMES.map(lambda names: list(dict.fromkeys(names))), chosen=st.sets(st.integers(0, 11)))
def test_where_every_node_is_offered_the_reply_and_what_it_tells_are_those_of_any_names(
    names: list[str], chosen: set[int]
) -> None:
    everywhere = lasting.Lasting(names)
    offered = wire.names_of(json.dumps(names[::-1]).encode(), everywhere)
    assert offered.nodes is everywhere
    refused = lasting.Lasting(name for at, name in enumerate(names) if at in chosen)
    trace = trace_of(offered, refused)
    asked = wire.Call(pod=b"{}", names=offered.spelled, nodes=None)

    told = wire.told(offered, trace)
    reply = json.loads(wire.filter_reply(asked, offered, trace, None, told))

    assert sorted(reply["NodeNames"]) == sorted(set(names) - refused)
    assert json.loads(told.spelled) == reply["NodeNames"]
    assert told.nodes == set(reply["NodeNames"])
    assert reply["FailedAndUnresolvableNodes"] == dict.fromkeys(refused, 'no "room"\n')
    scores = json.loads(wire.priority_reply(told, {7: lasting.common(told.nodes, everywhere)}))
    assert {entry["Host"]: entry["Score"] for entry in scores} == dict.fromkeys(told.nodes, 7)


@given(names=NAMES, known=NAMES)
def test_only_all_nodes_each_once_are_all_nodes(names: list[str], known: list[str]) -> None:
    everywhere = lasting.Lasting(known)
    offered = wire.names_of(json.dumps(names).encode(), everywhere)
    assert offered.nodes == set(names)
    assert offered.repeated == (len(set(names)) != len(names))
    assert (offered.nodes is everywhere) == (set(names) == set(known))


@given(names=NAMES, chosen=st.dictionaries(st.integers(0, 11), st.integers(-5, 5).filter(bool)))
def test_a_priority_reply_scores_every_candidate_exactly_once_with_integers(
    names: list[str], chosen: dict[int, int]
) -> None:
    offered = wire.names_of(json.dumps(names).encode())
    scores = {name: chosen[at] for at, name in enumerate(names) if at in chosen}
    totals = {s: frozenset(n for n, v in scores.items() if v == s) for s in set(scores.values())}

    reply = json.loads(wire.priority_reply(offered, totals))

    assert {entry["Host"]: entry["Score"] for entry in reply} == {name: scores.get(name, 0) for name in names}
    assert len(reply) == len(set(names))
    assert all(type(entry["Score"]) is int for entry in reply)


@given(
    offer=st.dictionaries(NAME, st.lists(NAME, max_size=3), max_size=4),
    data=st.data(),
)
def test_a_preempt_reply_holds_no_null_and_invents_nothing(
    offer: dict[str, list[str]], data: st.DataObject
) -> None:
    body = {
        "Pod": {},
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}
            for node, uids in offer.items()
        },
    }
    asked = wire.preempt_call(json.dumps(body).encode())
    kept = data.draw(st.lists(st.sampled_from(sorted(offer)), unique=True)) if offer else []

    reply = json.loads(wire.preempt_reply(asked, kept))

    victims = body["NodeNameToMetaVictims"]
    assert victims is not None
    assert reply == {"NodeNameToMetaVictims": {node: victims[node] for node in kept}}


@pytest.mark.parametrize("text", ["", "no", 'it "failed"'])
def test_a_bind_reply_always_has_error(text: str) -> None:
    assert json.loads(wire.bind_reply(text)) == {"Error": text}


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_keys_are_read_in_any_case(case: object) -> None:
    assert callable(case)
    call = wire.call(
        json.dumps({case("Pod"): {"a": 1}, case("NodeNames"): ["n"], case("Nodes"): None}).encode()
    )
    assert (json.loads(call.pod), call.names, call.nodes) == ({"a": 1}, b'["n"]', None)

    bind = {
        case(key): value
        for key, value in (("PodName", "p"), ("PodNamespace", "n"), ("PodUID", "u"), ("Node", "x"))
    }
    assert wire.bind_call(json.dumps(bind).encode()) == wire.BindCall(
        name="p", namespace="n", uid="u", node="x"
    )


@pytest.mark.scenario("PR-1")
def test_full_victims_are_answered_in_the_meta_form() -> None:
    body = {
        "Pod": {},
        "NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"uid": "b"}}, {"metadata": {"uid": "a"}}]}},
        "NodeNameToMetaVictims": None,
    }
    asked = wire.preempt_call(json.dumps(body).encode())
    assert json.loads(wire.preempt_reply(asked, ["n1"])) == {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "b"}, {"UID": "a"}], "NumPDBViolations": 0}}
    }


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"Pod":{},"Nodes":null,"NodeNames":[]',
        b'{"Pod":NaN,"Nodes":null,"NodeNames":[]}',
        b'{"Pod":{},"Pod":{},"Nodes":null,"NodeNames":[]}',
        b'{"Pod":{},"pod":{},"NodeNames":[]}',
        '{"Pod":{},"Nodes":null,"NodeNames":[]}'.encode("utf-16"),
        DEEP,
        b'{"Pod":{},"NodeNames":[],"More":' + b"[" * 64 + b"]" * 64 + b"}",
        b'{"Pod":{},"Nodes":null,"NodeNames":[],"More":' + b"[" * 64 + b"]" * 64 + b"}",
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_not_the_expected_json_is_refused(body: bytes) -> None:
    with pytest.raises(wire.BadRequest):
        wire.call(body)


def test_depth_is_limited_wherever_it_is_and_told_from_what_is_cut_off() -> None:
    fine, deep = (b"[" * depth + b"]" * depth for depth in (63, 64))
    names = b'"PodName":"p","PodNamespace":"n","PodUID":"u","Node":"m"'
    victims = b'"Pod":{},"NodeNameToMetaVictims":{}'
    reads = ((wire.call, b'"Pod":{},"NodeNames":[]'), (wire.bind_call, names), (wire.preempt_call, victims))
    for read, fields in reads:
        read(b"{" + fields + b',"More":' + fine + b"}")
        with pytest.raises(wire.BadRequest, match="more than 64 deep"):
            read(b"{" + fields + b',"More":' + deep + b"}")
        with pytest.raises(wire.BadRequest) as cut:
            read(b"{" + fields + b',"More":[')
        assert "deep" not in str(cut.value)


@pytest.mark.parametrize(
    "names",
    [b'["a",1]', b'"a"', b"{}", b"[null]", b'["\\ud800"]', b'["\xff"]', b'[["a"]]'],
    ids=repr,
)
def test_names_that_are_not_a_list_of_strings_are_refused(names: bytes) -> None:
    with pytest.raises(wire.BadRequest):
        wire.names_of(names)


@pytest.mark.parametrize(
    "pod",
    [b'{"a":1,"a":2}', b'{"m":{"labels":{"x":"1","x":"2"}}}', DEEP, b'{"a":[' * 40 + b"]}" * 40],
    ids=lambda body: repr(body[:24]),
)
def test_a_pod_that_go_would_read_differently_is_refused(pod: bytes) -> None:
    with pytest.raises(wire.BadRequest):
        wire.check_object(pod)


@given(
    st.recursive(
        st.none() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=40,
    )
)
def test_what_is_not_too_deep_passes(value: object) -> None:
    wire.check_object(json.dumps({"a": value}).encode())
