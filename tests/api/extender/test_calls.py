"""Requests of kube-scheduler: decoded in any case of their keys, or refused.

Out of scope: HTTP itself (tests/serving).
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.extender import calls, strict_json
from app.domain import node_sets

NAMES = st.lists(st.from_regex(r"[A-Za-z0-9][-A-Za-z0-9._:]{0,3}", fullmatch=True), max_size=12)
DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@given(names=NAMES, known=NAMES)
def test_only_all_nodes_each_once_are_all_nodes(names: list[str], known: list[str]) -> None:
    everywhere = node_sets.InternedNodes(known)
    offered = calls.names_of(json.dumps(names).encode(), everywhere)
    assert offered.nodes == set(names)
    assert offered.repeated == (len(set(names)) != len(names))
    assert (offered.nodes is everywhere) == (set(names) == set(known))


@pytest.mark.parametrize("known", [["a"], ["a", "b"]])
def test_more_names_than_a_cluster_has_nodes_are_refused_though_each_is_known(known: list[str]) -> None:
    names = json.dumps(["a"] * (calls.MAX_NODES + 1)).encode()
    with pytest.raises(
        strict_json.BadRequest, match=f"{calls.MAX_NODES + 1} nodes are offered; the limit is"
    ):
        calls.names_of(names, node_sets.InternedNodes(known))


def test_a_long_list_of_names_is_counted_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded, names of one letter take 14 times their bytes."""
    decoded: list[bytes] = []

    def decode(raw: bytes) -> list[str]:
        decoded.append(raw)
        return []

    monkeypatch.setattr(calls, "_decode_names", decode)
    names = json.dumps(["a"] * 70_000, separators=(",", ":")).encode()
    with pytest.raises(strict_json.BadRequest, match="70000 nodes are offered; the limit is"):
        calls.names_of(names)
    assert not decoded
    calls.names_of(names[:1000] + b"]")
    assert decoded


def test_whole_victims_may_have_more_values_than_other_json() -> None:
    more = {f"key-{number}": [1] for number in range(200)}
    pods = [{"metadata": {"uid": uid, "labels": {}}, "spec": more} for uid in ("a", "b", "c")]
    offer = {f"n{number}": {"Pods": pods, "NumPDBViolations": 2} for number in range(100)}
    offer["none"] = {"Pods": None, "NumPDBViolations": 0}
    body = {"Pod": {"a": 1}, "NodeNameToVictims": offer, "NodeNameToMetaVictims": None}
    spelled = json.dumps(body).encode()
    assert spelled.count(b",") + spelled.count(b"[") > strict_json.MAX_VALUES
    call = calls.preempt_call(spelled)
    assert call.whole
    assert call.victims == {node: ("a", "b", "c") if node != "none" else () for node in offer}
    assert call.violations == {node: 2 if node != "none" else 0 for node in offer}


def test_texts_of_pods_do_not_count_as_victims() -> None:
    """Those who create pods choose them, and must not keep kube-scheduler from preempting."""
    texts = {
        "args": ["metadata"] * 60_000 + ['\\u006detadata "metadata":{}'] * 20_000,
        "terms": [{"matchLabels": {"metadata": "a", "NumPDBViolations": "1"}}] * 20_000,
    }
    entry = {"Pods": [{"metadata": {"uid": "u"}, "spec": texts}], "NumPDBViolations": 0}
    body = {"Pod": {}, "NodeNameToVictims": {"n": entry}, "NodeNameToMetaVictims": None}
    assert calls.preempt_call(json.dumps(body, separators=(",", ":")).encode()).victims == {"n": ("u",)}


def test_victims_of_a_large_cluster_are_read_though_they_are_many_values() -> None:
    uids = [[f"{number:036}" for number in range(at, at + 10)] for at in range(0, 60_000, 10)]
    offer = {
        f"n{at}": {"Pods": [{"UID": uid} for uid in some], "NumPDBViolations": 1}
        for at, some in enumerate(uids)
    }
    spelled = json.dumps({"Pod": {}, "NodeNameToVictims": None, "NodeNameToMetaVictims": offer}).encode()
    call = calls.preempt_call(spelled)
    assert call.victims == {f"n{at}": tuple(some) for at, some in enumerate(uids)}
    assert (set(call.violations.values()), call.whole) == ({1}, False)


@pytest.mark.parametrize(
    "victims",
    [
        b'{"a":{"Pods":[{"UID":"u"}],"Pods":[{"UID":"v"}],"NumPDBViolations":0}}',
        b'{"a":{"Pods":[{"UID":"u","UID":"v"}],"NumPDBViolations":0}}',
        b'{"a":{"Pods":[],"NumPDBViolations":0},"a":{"Pods":[],"NumPDBViolations":0}}',
        b'{"a:":{"Pods":[{"UID":"u"}],"NumPDBViolations":0},"a\\u003a":{"Pods":[],"NumPDBViolations":0}}',
    ],
)
def test_a_victim_given_twice_is_refused(victims: bytes) -> None:
    with pytest.raises(strict_json.BadRequest, match="given twice"):
        calls.preempt_call(b'{"Pod":{},"NodeNameToMetaVictims":' + victims + b"}")


def test_more_candidates_than_nodes_are_refused_by_preempt() -> None:
    names = [f"n{number}" for number in range(calls.MAX_NODES + 1)]
    empty = {"Pods": None, "NumPDBViolations": 0}
    body = {"Pod": {}, "NodeNameToVictims": dict.fromkeys(names, empty), "NodeNameToMetaVictims": None}
    spelled = json.dumps(body).encode()
    with pytest.raises(strict_json.BadRequest, match=f"more than {calls.MAX_NODES} nodes are offered"):
        calls.preempt_call(spelled)
    assert len(calls.preempt_call(spelled, node_sets.InternedNodes(names)).victims) == len(names)


@pytest.mark.parametrize(("size", "fit"), [(127, False), (128, True)])
def test_more_whole_nodes_than_an_api_server_stores_in_so_many_bytes_are_refused(
    size: int, fit: bool
) -> None:
    node = b'{"metadata":{"name":"a"},"x":"%b"},'
    piece = node % (b"x" * (size - len(node) + 2))
    body = b'{"Pod":{},"Nodes":{"items":[' + piece * 10_000 + piece[:-1] + b']},"NodeNames":null}'
    if fit:
        assert calls.call(body).nodes
    else:
        with pytest.raises(
            strict_json.BadRequest, match="more than 9923 nodes are offered, the limit for 1270174 bytes"
        ):
            calls.call(body)


def test_many_values_beside_whole_victims_are_refused() -> None:
    many = [1] * (strict_json.MAX_VALUES + 1)
    uids = {"n": {"Pods": [{"UID": "a", "more": many}], "NumPDBViolations": 0}}
    for body in (
        {"Pod": {}, "NodeNameToMetaVictims": uids, "NodeNameToVictims": None},
        {"Pod": {}, "NodeNameToVictims": uids, "NodeNameToMetaVictims": None},  # not a pod: no metadata
    ):
        with pytest.raises(strict_json.BadRequest, match="values"):
            calls.preempt_call(json.dumps(body).encode())


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_keys_of_victims_are_read_in_any_case(case: object) -> None:
    assert callable(case)
    for key, pod, whole in (
        ("NodeNameToVictims", {"metadata": {case("UID"): "u"}}, True),
        ("NodeNameToMetaVictims", {case("UID"): "u"}, False),
    ):
        entry = {case("Pods"): [pod], case("NumPDBViolations"): 1}
        call = calls.preempt_call(json.dumps({"Pod": {}, key: {"n": entry}}).encode())
        assert (call.victims, call.violations, call.whole) == ({"n": ("u",)}, {"n": 1}, whole)


@pytest.mark.parametrize(
    "entry",
    [
        {"Pods": [], "NumPDBViolations": 2**63},
        {"Pods": {"a": 1}, "NumPDBViolations": 0},
        {"Pods": [None], "NumPDBViolations": 0},
        {"Pods": [{"metadata": {}}], "NumPDBViolations": 0},
        {"Pods": [{"metadata": {"uid": "a b"}}], "NumPDBViolations": 0},
        {"Pods": [{"metadata": {"uid": 1}}], "NumPDBViolations": 0},
    ],
)
def test_whole_victims_without_a_uid_or_a_number_are_refused(entry: object) -> None:
    with pytest.raises(strict_json.BadRequest, match=r"victims of node n: Pods must|a victim's UID must"):
        calls.preempt_call(json.dumps({"Pod": {}, "NodeNameToVictims": {"n": entry}}).encode())


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_keys_are_read_in_any_case(case: object) -> None:
    assert callable(case)
    call = calls.call(
        json.dumps({case("Pod"): {"a": 1}, case("NodeNames"): ["n"], case("Nodes"): None}).encode()
    )
    assert (json.loads(call.pod), call.names, call.nodes) == ({"a": 1}, b'["n"]', None)

    bind = {
        case(key): value
        for key, value in (("PodName", "p"), ("PodNamespace", "n"), ("PodUID", "u"), ("Node", "x"))
    }
    assert calls.bind_call(json.dumps(bind).encode()) == calls.BindCall(
        name="p", namespace="n", uid="u", node="x"
    )


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
    with pytest.raises(strict_json.BadRequest):
        calls.call(body)


def test_a_key_in_two_cases_is_refused_by_every_verb() -> None:
    for read, body in (
        (calls.call, b'{"Pod":{},"pod":{},"NodeNames":[]}'),
        (calls.bind_call, b'{"PodName":"p","PodNamespace":"n","PodUID":"u","Node":"m","node":"o"}'),
        (calls.preempt_call, b'{"Pod":{},"NodeNameToMetaVictims":{},"nodenametometavictims":{}}'),
    ):
        with pytest.raises(strict_json.BadRequest, match="twice in different case"):
            read(body)


def test_depth_is_limited_everywhere_and_differs_from_truncated_json() -> None:
    fine, deep = (b"[" * depth + b"]" * depth for depth in (63, 64))
    names = b'"PodName":"p","PodNamespace":"n","PodUID":"u","Node":"m"'
    victims = b'"Pod":{},"NodeNameToMetaVictims":{}'
    reads = (
        (calls.call, b'"Pod":{},"NodeNames":[]'),
        (calls.bind_call, names),
        (calls.preempt_call, victims),
    )
    for read, fields in reads:
        read(b"{" + fields + b',"More":' + fine + b"}")
        with pytest.raises(strict_json.BadRequest, match="more than 64 deep"):
            read(b"{" + fields + b',"More":' + deep + b"}")
        with pytest.raises(strict_json.BadRequest) as cut:
            read(b"{" + fields + b',"More":[')
        assert "deep" not in str(cut.value)


@pytest.mark.parametrize(
    "names",
    [b'["a",1]', b'"a"', b"{}", b"[null]", b'["\\ud800"]', b'["\xff"]', b'[["a"]]'],
    ids=repr,
)
def test_names_that_are_not_a_list_of_strings_are_refused(names: bytes) -> None:
    with pytest.raises(strict_json.BadRequest):
        calls.names_of(names)
