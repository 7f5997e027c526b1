"""Scenarios of NodeLabelPriority: two nodes, one label, a dedicated scheduler."""

import random

import pytest

from tests.support.decisions import scheduling_driver, small_clusters

LABEL = "priority.lixueduan.com"
ONE, TWO = "scheduler-1", "scheduler-2"
POD = small_clusters.pod("test", scheduler="i-scheduler-extender")


def labelled(one: str | None, two: str | None) -> scheduling_driver.Cluster:
    values = {ONE: one, TWO: two}
    return scheduling_driver.Cluster(
        *(
            small_clusters.node(name, {} if value is None else {LABEL: value})
            for name, value in values.items()
        )
    )


@pytest.mark.scenario("LX-1")
def test_without_labels_the_pod_stays_pending_and_the_reason_names_the_label() -> None:
    cluster = labelled(None, None)
    assert cluster.why(POD) == f"node has no label {LABEL}"
    assert cluster.schedule(POD, random.Random(1)) is None


@pytest.mark.scenario("LX-2")
def test_the_labelled_node_takes_the_pod() -> None:
    cluster = labelled(None, None)
    cluster.see(small_clusters.node(ONE, {LABEL: "10"}))
    assert cluster.filter(POD).kept == {ONE}
    assert cluster.schedule(POD, random.Random(1)) == ONE


@pytest.mark.scenario("LX-3")
def test_both_pass_and_score_their_values() -> None:
    cluster = labelled("10", "20")
    assert cluster.filter(POD).kept == {ONE, TWO}
    assert cluster.score(POD) == {ONE: 10, TWO: 20}


@pytest.mark.scenario("LX-4")
def test_filter_onlyone_takes_the_highest() -> None:
    assert labelled("10", "20").only(POD) == TWO


@pytest.mark.scenario("LX-5")
def test_a_changed_label_counts_at_once() -> None:
    cluster = labelled("10", "20")
    assert cluster.only(POD) == TWO
    cluster.see(small_clusters.node(ONE, {LABEL: "30"}))
    assert cluster.only(POD) == ONE


@pytest.mark.scenario("LX-8")
@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("50", 50),
        ("0", 0),
        ("007", 7),
        ("9" * 63, 2**63 - 1),
        ("1_0", 0),
        (" 5 ", 0),
        ("٣", 0),
        ("+1", 0),
        ("5\n", 0),
    ],
)
@pytest.mark.parametrize("score_max", [1, 10, 100])
def test_the_value_is_the_score_whatever_the_scale(value: str, score: int, score_max: int) -> None:
    cluster = scheduling_driver.Cluster(small_clusters.node(ONE, {LABEL: value}), score_max=score_max)
    assert cluster.score(POD) == {ONE: score}


@pytest.mark.scenario("LX-9")
@pytest.mark.parametrize("invalid", ["abc", "", "-3"])
def test_an_invalid_value_passes_and_scores_zero(invalid: str) -> None:
    cluster = labelled(invalid, "1")
    assert cluster.filter(POD).kept == {ONE, TWO}
    assert cluster.score(POD)[ONE] == 0
    assert cluster.only(POD) == TWO
    assert labelled(invalid, invalid).only(POD) in {ONE, TWO}


@pytest.mark.scenario("LX-10")
def test_a_tie_is_broken_independently_of_the_order() -> None:
    names = [f"scheduler-{number}" for number in range(8)]
    cluster = scheduling_driver.Cluster(*(small_clusters.node(name, {LABEL: "20"}) for name in names))
    dice, answers = random.Random(1), set()
    for _ in range(20):
        dice.shuffle(names)
        answers.add(cluster.only(POD, names))
    assert len(answers) == 1
    chosen = {
        cluster.only(small_clusters.pod(f"pod-{n}", scheduler="i-scheduler-extender")) for n in range(40)
    }
    assert len(chosen) > 3, "another pod, another choice: one node must not get them all"


@pytest.mark.scenario("LX-14")
def test_pods_of_other_schedulers_do_not_concern_the_plugin() -> None:
    cluster = labelled(None, "20")
    other = small_clusters.pod("other", scheduler="default-scheduler")
    trace = cluster.filter(other)
    assert trace.interested == ()
    assert trace.kept == {ONE, TWO}
    assert set(cluster.score(other).values()) == {0}


@pytest.mark.scenario("LX-14")
def test_pods_of_other_schedulers_count_in_the_state() -> None:
    policy = small_clusters.policy({"host": 1}, required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    cluster.see(
        small_clusters.pod(
            "theirs", small_clusters.REPLICA, node=small_clusters.HOSTS[0], scheduler="someone-else"
        )
    )
    assert cluster.count(policy, "host") == 1
