"""filter, filter_onlyone and prioritize over a real store: the memo, and answers while the store is away.

What the plugins decide is shown in tests/scenarios.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain import model, node_sets, verdicts
from app.store.server import embedded
from app.verbs import candidates, errors, filtering, prioritizing
from app.verbs.memory import pod_memo
from tests.support.extender import replicas
from tests.support.store import crash_safe_server

JOB = {"rl-job-group": "train"}


def offered(*names: str) -> candidates.Candidates:
    return candidates.Candidates(names)


def test_a_decision_is_reused_until_the_log_grows(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    remembered, names = replicas.recent(pod), offered("h1", "m1")
    one.context.memo.put(remembered)
    one.context.memo.hold(remembered, names)
    first = filtering.run(one.context, remembered.pod, names).trace
    assert filtering.run(one.context, remembered.pod, names).trace is first
    # Other names, the same names sent again, another snapshot: decided again.
    assert filtering.run(one.context, remembered.pod, offered("h1")).trace.candidates == {"h1"}
    assert filtering.run(one.context, remembered.pod, offered("h1", "m1")).trace is not first
    assert shop.replica().bind(shop.pod("web-2"), "h1") == ""
    after = filtering.run(one.context, remembered.pod, names).trace
    assert after.refused == {"h1"}
    assert after.position.offset == first.position.offset + 1


def test_pods_are_remembered_up_to_a_number_of_bytes() -> None:
    memo = pod_memo.PodMemo(size=10_000)

    def asked(uid: str, size: int) -> pod_memo.RecentPod:
        recent = pod_memo.RecentPod(
            spelled=uid.encode().ljust(size), pod=model.Pod(uid=uid, namespace="ns", name=uid)
        )
        memo.put(recent)
        return recent

    small = [asked(f"s{at}", 1_000) for at in range(5)]
    assert [memo.get(one.pod.uid) for one in small] == small
    assert memo.taken == 5_000
    large = asked("large", 7_000)
    assert [memo.get(one.pod.uid) for one in small] == [None, None, *small[2:]]
    assert [memo.spelled(one.spelled) for one in small] == [None, None, *small[2:]]
    assert memo.taken == 10_000
    # A pod that alone exceeds the limit is remembered until the next one: its own prioritize follows at once.
    alone = asked("alone", 20_000)
    assert (memo.get("alone"), memo.spelled(large.spelled), memo.taken) == (alone, None, 20_000)
    after = asked("after", 1_000)
    assert (memo.get("alone"), memo.get("after"), memo.taken) == (None, after, 1_000)
    # A pod that is sent again in another form is counted once.
    asked("after", 3_000)
    assert memo.taken == 3_000


class Dropped(pod_memo.RecentPod):
    """A pod whose filter decision another thread drops right after each read of it."""

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name == "filtered" and found is not None and found.trace is not None:
            self.filtered = found._replace(trace=None)
        return found


def test_a_decision_that_is_dropped_while_it_is_read_is_computed_again(shop: replicas.Cluster) -> None:
    """Calls about other pods may drop it at any moment."""
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    remembered, names = Dropped(spelled=b"web-1", pod=pod), offered("h1", "m1")
    one.context.memo.put(remembered)
    one.context.memo.hold(remembered, names)
    first = filtering.run(one.context, pod, names).trace
    assert filtering.run(one.context, pod, names).trace is first
    assert filtering.run(one.context, pod, names).trace.kept == first.kept
    assert one.context.followed(pod.uid) is one.store.follower.snapshot
    assert one.context.followed(pod.uid) is None


def traced(*names: str) -> verdicts.Trace:
    pod = model.Pod(uid="web-1", namespace="ns", name="web-1")
    return verdicts.Trace(model.Position("i", 1), pod, frozenset(names), interested=())


def test_a_decision_about_other_names_is_not_reused() -> None:
    """Two calls about one pod at the same time: the slower one decided about names of a former request."""
    memo, former, latter = pod_memo.PodMemo(), offered("h1"), offered("h1", "m1")
    recent = replicas.recent(model.Pod(uid="web-1", namespace="ns", name="web-1"))
    memo.put(recent)
    memo.hold(recent, former)

    def slow() -> verdicts.Trace:
        memo.hold(recent, latter)
        return traced("h1")

    at = model.Position("i", 1)
    assert memo.trace_for(recent.pod, former, at, slow).candidates == {"h1"}
    memo.keep(recent.pod, former, former)
    assert memo.trace_for(recent.pod, latter, at, lambda: traced("h1", "m1")).candidates == {"h1", "m1"}
    assert memo.trace_for(recent.pod, latter, at, slow).candidates == {"h1", "m1"}


def test_a_decision_is_reused_for_the_same_pod_names_and_position_only() -> None:
    memo, names, at = pod_memo.PodMemo(), offered("h1"), model.Position("i", 1)
    recent = replicas.recent(model.Pod(uid="web-1", namespace="ns", name="web-1"))
    memo.put(recent)
    memo.hold(recent, names)
    assert memo.filtered_at("web-1") is None
    first = memo.trace_for(recent.pod, names, at, lambda: traced("h1"))
    assert memo.filtered_at("web-1") == at
    assert memo.trace_for(recent.pod, names, at, lambda: traced()) is first
    # Another version of the pod, other candidates, another position: each is computed.
    other = model.Pod(uid="web-1", namespace="ns", name="web-1", labels={"a": "b"})
    for question in (
        (other, names, at),
        (recent.pod, offered("h1"), at),
        (recent.pod, names, model.Position("j", 1)),
    ):
        assert memo.trace_for(*question, lambda: traced("h1")) is not first


def test_candidates_are_those_of_the_same_json() -> None:
    memo, first = pod_memo.PodMemo(holding=1), offered("h1")
    names = candidates.Candidates(("h1", "m1"), b'["h1","m1"]')
    kept = candidates.Candidates(("m1",), b'["m1"]')
    one, other = (replicas.recent(model.Pod(uid=uid, namespace="ns", name=uid)) for uid in ("web-1", "web-2"))
    for recent in (one, other):
        memo.put(recent)
    assert memo.candidates_for(one, names.spelled, lambda: names) is names
    memo.keep(one.pod, names, kept)
    assert memo.candidates_for(one, b'["m1"]', lambda: first) is kept
    assert memo.candidates_for(one, b'["h1","m1"]', lambda: first) is names
    # One call is held: a call about another pod drops it.
    assert memo.candidates_for(other, names.spelled, lambda: names) is names
    assert memo.candidates_for(one, b'["m1"]', lambda: first) is first


def test_filter_writes_nothing(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    head = shop.see()
    for _ in range(3):
        one.filter(pod)
        filtering.run_only_one(one.context, pod, offered("h1", "h2", "m1"))
        prioritizing.run(one.context, pod, offered("h1", "h2", "m1"))
    assert one.snapshot().offset == head


def test_scores_are_those_of_the_state_that_was_filtered_on(shop: replicas.Cluster) -> None:
    one, other, pod = shop.replica(), shop.replica(), shop.pod("web-1")
    shop.see()
    remembered, names = replicas.recent(pod), offered("h1", "m1")
    one.context.memo.put(remembered)
    one.context.memo.hold(remembered, names)
    unasked = prioritizing.run(one.context, pod, names).trace.position
    assert unasked == one.snapshot().position  # no filter before it: the head is asked for
    had = filtering.run(one.context, remembered.pod, names).trace.position
    assert other.bind(shop.pod("web-2"), "h1") == ""
    assert prioritizing.run(one.context, pod, names).trace.position == had
    ahead = one.snapshot().position
    assert prioritizing.run(one.context, pod, names).trace.position == ahead
    assert ahead.offset > had.offset


def test_only_one_is_the_same_one_whatever_the_order(shop: replicas.Cluster) -> None:
    one, other, pod = shop.replica(), shop.replica(), shop.pod("web-1")
    shop.see()
    chosen = {
        filtering.run_only_one(replica.context, pod, offered(*names)).only
        for replica in (one, other)
        for names in (("h1", "h2", "m1", "m2"), ("m2", "m1", "h2", "h1"))
    }
    assert len(chosen) == 1
    assert chosen < {"h1", "h2", "m1", "m2"}


def test_only_one_of_none_is_none(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1", {**replicas.WEB, "app": "other"})
    shop.see()
    answer = filtering.run_only_one(one.context, pod, offered("h1", "m1"))
    assert (answer.only, answer.single) == (None, True)
    assert answer.trace.refused == {"h1", "m1"}


@pytest.mark.scenario("RL-6")
def test_a_sibling_that_was_just_placed_attracts_the_next_one(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    first, second = shop.pod("worker-1", JOB), shop.pod("worker-2", JOB)
    shop.see()
    assert one.bind(first, "h2") == ""
    trace = prioritizing.run(other.context, second, offered("h1", "h2", "m1")).trace
    assert {name: trace.score_of(name) for name in ("h1", "h2", "m1")} == {"h1": 0, "h2": 10, "m1": 0}


# -- the store is away -------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    made = crash_safe_server.CrashSafeServer(tmp_path, append_only=True)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("kind", "labels", "passes"),
    [
        ("Required", replicas.WEB, False),
        ("Preferred", replicas.WEB, True),
        ("Required", JOB, True),
        ("Required", {**replicas.WEB, **JOB}, False),
        ("Required", {}, True),
    ],
    ids=["hard quota", "soft quota", "job", "job under a hard quota", "no plugin"],
)
def test_hard_rules_fail_and_soft_ones_pass(
    server: embedded.Server, cluster: str, kind: str, labels: dict[str, str], passes: bool
) -> None:
    with replicas.cluster(server.url, cluster) as shop:
        shop.node("h1", role="host")
        shop.policy({"host": 0}, kind=kind)
        one, pod = shop.replica(state=1.0), shop.pod("pod-1", labels)
        shop.see()
        one.snapshot()
        server.kill()
        names = offered("h1", "h2")
        if passes:
            assert filtering.run(one.context, pod, names).trace.kept == {"h1", "h2"}
        else:
            with pytest.raises(
                errors.StateAway, match=r"the store is away .* pods of .*WorkloadPolicy.* wait"
            ):
                filtering.run(one.context, pod, names)
        scored = prioritizing.run(one.context, pod, names).trace
        assert scored.totals == {}
        server.start()
        refused = filtering.run(one.context, pod, names).trace.refused
        hard = kind == "Required" and replicas.LABEL in labels
        assert refused == (frozenset({"h1", "h2"}) if hard else node_sets.NONE)
