"""filter, filter_onlyone and prioritize over a real store: what they remember, and what they do without it.

What the plugins decide is shown in tests/scenarios.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain import model, verdicts
from app.store import embedded
from app.verbs import candidates, contexts, errors, filtering, prioritizing
from tests.verbs import replicas

JOB = {"rl-job-group": "train"}


def offered(*names: str) -> candidates.Candidates:
    return candidates.Candidates(names)


def test_what_was_decided_is_reused_until_something_happens(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    remembered, names = replicas.recent(pod), offered("h1", "m1")
    one.context.recents.put(remembered)
    one.context.recents.hold(remembered, names)
    first = filtering.run(one.context, remembered.pod, names).trace
    assert filtering.run(one.context, remembered.pod, names).trace is first
    # Other names, the same names anew, another snapshot: decided anew.
    assert filtering.run(one.context, remembered.pod, offered("h1")).trace.candidates == {"h1"}
    assert filtering.run(one.context, remembered.pod, offered("h1", "m1")).trace is not first
    assert shop.replica().bind(shop.pod("web-2"), "h1") == ""
    after = filtering.run(one.context, remembered.pod, names).trace
    assert after.refused == {"h1"}
    assert after.position.offset == first.position.offset + 1


def test_pods_are_remembered_up_to_a_number_of_bytes() -> None:
    recents = contexts.Recents(size=10_000)

    def asked(uid: str, size: int) -> contexts.Recent:
        recent = contexts.Recent(
            spelled=uid.encode().ljust(size), pod=model.Pod(uid=uid, namespace="ns", name=uid)
        )
        recents.put(recent)
        return recent

    small = [asked(f"s{at}", 1_000) for at in range(5)]
    assert [recents.get(one.pod.uid) for one in small] == small
    assert recents.taken == 5_000
    large = asked("large", 7_000)
    assert [recents.get(one.pod.uid) for one in small] == [None, None, *small[2:]]
    assert [recents.spelled(one.spelled) for one in small] == [None, None, *small[2:]]
    assert recents.taken == 10_000
    # One that alone is larger is remembered until the next one comes: its own prioritize comes at once.
    alone = asked("alone", 20_000)
    assert (recents.get("alone"), recents.spelled(large.spelled), recents.taken) == (alone, None, 20_000)
    after = asked("after", 1_000)
    assert (recents.get("alone"), recents.get("after"), recents.taken) == (None, after, 1_000)
    # A pod that is sent again in another form is counted once.
    asked("after", 3_000)
    assert recents.taken == 3_000


class Forgotten(contexts.Recent):
    """One that is forgotten by another call as soon as somebody has read what was decided of it."""

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name == "trace" and found is not None:
            self.trace = None
        return found


def test_what_is_forgotten_while_it_is_read_is_decided_once_more(shop: replicas.Cluster) -> None:
    """Calls about other pods let it be forgotten at any moment."""
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    remembered, names = Forgotten(spelled=b"web-1", pod=pod), offered("h1", "m1")
    one.context.recents.put(remembered)
    one.context.recents.hold(remembered, names)
    first = filtering.run(one.context, pod, names).trace
    assert filtering.run(one.context, pod, names).trace is first
    assert filtering.run(one.context, pod, names).trace.kept == first.kept
    assert one.context.followed(pod.uid) is one.store.follower.snapshot
    assert one.context.followed(pod.uid) is None


def test_what_was_decided_about_other_names_is_not_reused(shop: replicas.Cluster) -> None:
    """Two calls about one pod at the same time: the slower one has decided about what is not asked now."""
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    remembered, names = replicas.recent(pod), offered("h1", "m1")
    one.context.recents.put(remembered)
    one.context.recents.hold(remembered, names)
    remembered.trace = filtering.run(one.context, pod, offered("h1")).trace
    assert filtering.run(one.context, pod, names).trace.candidates == {"h1", "m1"}


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
    one.context.recents.put(remembered)
    one.context.recents.hold(remembered, names)
    unasked = prioritizing.run(one.context, pod, names).trace.position
    assert unasked == one.snapshot().position  # nobody filtered: the head is asked for
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
def test_a_sibling_that_was_just_promised_a_node_draws_the_next_one(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    first, second = shop.pod("worker-1", JOB), shop.pod("worker-2", JOB)
    shop.see()
    assert one.bind(first, "h2") == ""
    trace = prioritizing.run(other.context, second, offered("h1", "h2", "m1")).trace
    assert {name: trace.score_of(name) for name in ("h1", "h2", "m1")} == {"h1": 0, "h2": 10, "m1": 0}


# -- the store is away -------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    made = embedded.Server(tmp_path, append_only=True)
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
    ids=["hard quota", "soft quota", "job", "job under a hard quota", "nobody's"],
)
def test_hard_rules_fail_and_soft_ones_pass(
    server: embedded.Server, cluster: str, kind: str, labels: dict[str, str], passes: bool
) -> None:
    with replicas.cluster(server.url, cluster) as shop:
        shop.node("h1", role="host")
        shop.policy({"host": 0}, kind=kind)
        one, pod = shop.replica(state=0.3), shop.pod("pod-1", labels)
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
        assert refused == (frozenset({"h1", "h2"}) if hard else verdicts.NONE)
