"""Replies to kube-scheduler that can do no harm: nothing missing, nothing twice, nothing invented.

Out of scope: HTTP itself (tests/serving) and what the verbs decide (tests/scenarios).
"""

import gc
import json
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.extender import calls, json_cache, replies
from app.domain import model, node_sets, verdicts
from app.verbs import candidates
from app.verbs.preemption import offers

NAME = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(NAME | st.from_regex(r"[A-Za-z0-9][-A-Za-z0-9._:]{0,3}", fullmatch=True), max_size=12)


def trace_of(offered: candidates.Candidates, refused: frozenset[str]) -> verdicts.Trace:
    refusals = (verdicts.Refusal(reason='no "capacity"\n', nodes=refused, plugin="P"),) if refused else ()
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
    asked = calls.Call(
        pod=b"{}", names=spelled if form == "names" else None, nodes=nodes if form == "nodes" else None
    )
    offered = calls.names_of(spelled) if form == "names" else calls.nodes_of(nodes)
    refused = frozenset(name for at, name in enumerate(names) if at in chosen)

    reply = json.loads(replies.filter_reply(asked, offered, trace_of(offered, refused), None))

    kept = (
        reply["NodeNames"]
        if form == "names"
        else [item["metadata"]["name"] for item in reply["Nodes"]["items"]]
    )
    failed = reply["FailedAndUnresolvableNodes"]
    assert len(kept) == len(set(kept))
    assert set(kept) | set(failed) == set(names)
    assert not set(kept) & set(failed)
    assert set(failed.values()) <= {'no "capacity"\n'}
    assert reply["FailedNodes"] == {}
    assert reply["Error"] == ""


@given(names=NAMES.map(lambda names: list(dict.fromkeys(names))), chosen=st.sets(st.integers(0, 11)))
def test_the_reply_for_all_nodes_is_that_for_any_names(names: list[str], chosen: set[int]) -> None:
    everywhere = node_sets.InternedNodes(names)
    offered = calls.names_of(json.dumps(names[::-1]).encode(), everywhere)
    assert offered.nodes is everywhere
    refused = node_sets.InternedNodes(name for at, name in enumerate(names) if at in chosen)
    trace = trace_of(offered, refused)
    asked = calls.Call(pod=b"{}", names=offered.spelled, nodes=None)

    kept = replies.kept_names(offered, trace)
    reply = json.loads(replies.filter_reply(asked, offered, trace, None, kept))

    assert sorted(reply["NodeNames"]) == sorted(set(names) - refused)
    assert json.loads(kept.spelled) == reply["NodeNames"]
    assert kept.nodes == set(reply["NodeNames"])
    assert reply["FailedAndUnresolvableNodes"] == dict.fromkeys(refused, 'no "capacity"\n')
    scores = json.loads(replies.priority_reply(kept, {7: node_sets.common(kept.nodes, everywhere)}))
    assert {entry["Host"]: entry["Score"] for entry in scores} == dict.fromkeys(kept.nodes, 7)


@given(
    names=NAMES.map(lambda names: list(dict.fromkeys(names))),
    offers=st.sets(st.integers(0, 11)),
    chosen=st.sets(st.integers(0, 11)),
)
def test_the_kept_nodes_share_the_memoised_results_of_the_cluster(
    names: list[str], offers: set[int], chosen: set[int]
) -> None:
    everywhere = node_sets.InternedNodes(names)
    some = [name for at, name in enumerate(names) if at in offers]
    offered = calls.names_of(json.dumps(some).encode(), everywhere)
    refused = frozenset(some) & {name for at, name in enumerate(names) if at in chosen}

    kept = replies.kept_names(offered, trace_of(offered, refused))

    assert list(kept.names) == [name for name in offered.names if name not in refused]
    assert kept.nodes == set(some) - refused
    if kept.nodes and not isinstance(kept.nodes, node_sets.InternedNodes):
        assert isinstance(kept.nodes, node_sets.Subset)
        assert kept.nodes.of is everywhere


@given(names=NAMES, chosen=st.dictionaries(st.integers(0, 11), st.integers(-5, 5).filter(bool)))
def test_a_priority_reply_scores_every_candidate_exactly_once_with_integers(
    names: list[str], chosen: dict[int, int]
) -> None:
    offered = calls.names_of(json.dumps(names).encode())
    scores = {name: chosen[at] for at, name in enumerate(names) if at in chosen}
    totals = {s: frozenset(n for n, v in scores.items() if v == s) for s in set(scores.values())}

    reply = json.loads(replies.priority_reply(offered, totals))

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
    asked = calls.preempt_call(json.dumps(body).encode())
    kept = data.draw(st.lists(st.sampled_from(sorted(offer)), unique=True)) if offer else []

    untouched = {node: offers.Kept(asked.victims[node]) for node in kept}
    reply = json.loads(replies.preempt_reply(asked, untouched))

    victims = body["NodeNameToMetaVictims"]
    assert victims is not None
    assert reply == {"NodeNameToMetaVictims": {node: victims[node] for node in kept}}


def test_the_json_of_a_set_is_encoded_once_and_ends_with_the_set() -> None:
    nodes = node_sets.InternedNodes(["a", "b"])
    refused = [json_cache.refused(nodes, "full", plain=True) for _ in range(2)]
    scored = [json_cache.scored(nodes, 3, plain=True) for _ in range(2)]
    assert refused[0] is refused[1]
    assert scored[0] is scored[1]
    assert json.loads(json_cache.named(nodes, "u")) in (["a", "b"], ["b", "a"])
    left = weakref.ref(nodes)
    del nodes
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("text", ["", "no", 'it "failed"'])
def test_a_bind_reply_always_has_error(text: str) -> None:
    assert json.loads(replies.bind_reply(text)) == {"Error": text}


@pytest.mark.scenario("PR-1")
def test_full_victims_are_answered_in_the_meta_form() -> None:
    body = {
        "Pod": {},
        "NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"uid": "b"}}, {"metadata": {"uid": "a"}}]}},
        "NodeNameToMetaVictims": None,
    }
    asked = calls.preempt_call(json.dumps(body).encode())
    assert json.loads(replies.preempt_reply(asked, {"n1": offers.Kept(("b", "a"))})) == {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "b"}, {"UID": "a"}], "NumPDBViolations": 0}}
    }


@pytest.mark.scenario("PR-34")
@pytest.mark.parametrize(("offered", "counted", "answered"), [(0, 1, 1), (1, 0, 1), (2, 1, 2), (3, None, 3)])
def test_added_victims_raise_the_violations_and_never_lower_them(
    offered: int, counted: int | None, answered: int
) -> None:
    pods = [{"UID": "db"}]
    body = {"Pod": {}, "NodeNameToMetaVictims": {"n1": {"Pods": pods, "NumPDBViolations": offered}}}
    asked = calls.preempt_call(json.dumps(body).encode())
    kept = {"n1": offers.Kept(("server", "db"), violations=counted)}
    assert json.loads(replies.preempt_reply(asked, kept)) == {
        "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "server"}, *pods], "NumPDBViolations": answered}}
    }
