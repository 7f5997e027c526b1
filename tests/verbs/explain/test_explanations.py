"""Every recorded decision, computed again by explain, equals the answer that was given.

Out of scope: the HTTP forms (tests/api/test_explanations.py).
"""

import functools
import itertools
import random
from dataclasses import replace

import msgspec
import pytest

from app import plugins
from app.domain import events, model, projections, snapshots, verdicts
from app.framework import registry
from app.plugins.coscheduling import membership
from app.plugins.workload_policy import policy_model
from app.store import errors, stores
from app.store.decisions import records
from app.store.log import batches
from app.verbs import candidates, contexts, decision_reports, filtering, preempting, prioritizing
from app.verbs.explain import explanations, recorded_configurations, tables
from app.verbs.preemption import offers
from tests.support import declared
from tests.support.decisions import configured, no_cluster

POLICY = "workload-policy/kosmos.io"
NODES = [f"n{at}" for at in range(8)]


@pytest.mark.parametrize("verb", ["filter", "filter_onlyone", "prioritize", "bind", "preempt"])
def test_only_what_was_recorded_of_filter_counts_as_offered(verb: str) -> None:
    """Plugins may conclude from an offer what kube-scheduler supposes."""
    pod = model.Pod(uid="u", namespace="x", name="p")
    decision = records.Decision(
        position=model.Position("i", 1),
        verb=verb,
        pod=pod,
        configuration="",
        kept=1,
        outcome="",
        at="",
        milliseconds=0.0,
        node="n1",
        candidates=b"",
        count=1,
    )
    empty = snapshots.empty(schema=declared.SCHEMA)
    registered = registry.Registry([plugin() for plugin in plugins.USUAL])
    cycle = explanations.cycle_of(decision, frozenset(("n1",)), empty, registered)
    assert cycle.offered == verb.startswith("filter")


@pytest.mark.parametrize(
    ("labels", "concerned"),
    [
        ({}, ()),
        ({POLICY: "spread"}, ("WorkloadPolicy",)),
        ({"rl-job-group": "job"}, ("JobAffinity",)),
        ({membership.SIGS_LABEL: "gang"}, ("Coscheduling",)),
    ],
    ids=["none", "policy", "job", "gang"],
)
def test_an_explanation_names_the_plugins_that_the_pod_concerns_in_the_state(
    labels: dict[str, str], concerned: tuple[str, ...]
) -> None:
    every = registry.Registry([plugin() for plugin in plugins.IN_TREE])
    pod = model.Pod(uid="u", namespace="x", name="p", labels=labels)
    snapshot = snapshots.empty(schema=declared.SCHEMA)
    explanation = explanations.presently(pod, snapshot, every)
    assert explanation.concerned == concerned == every.concerned(pod, snapshot)
    assert tables.structure(explanation)["plugins"] == list(concerned)
    line = f"Plugins concerned: {', '.join(concerned) or 'none'}."
    assert line in tables.markdown(explanation).splitlines()


class Recorded:
    """A store with random events and decisions, and the answers that were given."""

    def __init__(self, store: stores.Store, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.plugins = registry.Registry([plugin() for plugin in plugins.USUAL], weights={"JobAffinity": 3})
        self.context = contexts.Context(
            plugins=self.plugins,
            state=store.follower,
            log=store.log,
            decisions=store.decisions,
            binder=no_cluster.NoCluster(),
            now=lambda: "2026-07-01T10:00:00Z",
            monotonic=functools.partial(next, itertools.count(step=0.05)),
            digest=self.plugins.digest,
            sleep=lambda _: None,
        )
        self.answers: list[filtering.Answer | offers.PreemptAnswer] = []
        self.append(*(events.Relisted(kind, "", "1", "first list") for kind in sorted(declared.SCHEMA.names)))

    def append(self, *happened: events.AnyEvent) -> None:
        projection = projections.Projection(self.store.follower.catch_up())
        for event in happened:
            projection.apply(event)
        self.store.log.append(batches.Batch(events=happened, increments=projection.increments))

    def pod(self) -> model.Pod:
        at = self.chance.randrange(12)
        labels = {"app": "web"} | self.chance.choice(
            [{POLICY: "p"}, {POLICY: "absent"}, {"rl-job-group": "g"}, {}, {POLICY: "p", "rl-job-group": "g"}]
        )
        return model.Pod(
            uid=f"u{at}",
            namespace="ns",
            name=f"p{at}",
            labels=labels,
            priority=at % 3,
            nominated=self.chance.choice(["", "", *NODES]),
            scheduler=self.chance.choice(["default-scheduler", "i-scheduler-extender"]),
        )

    def happen(self) -> None:
        chance, pod = self.chance, self.pod()
        host = chance.choice(NODES)
        labels = {
            "role": chance.choice(["host", "member"]),
            "priority.lixueduan.com": str(chance.randrange(30)),
        }
        kept = {key: value for key, value in labels.items() if chance.random() < 0.8}
        allocations = tuple(policy_model.Allocation(name, chance.randrange(4)) for name in ("host", "member"))
        policy = policy_model.WorkloadPolicy(
            uid="p",
            namespace="ns",
            name="p",
            topology_key="role",
            selector=model.Selector(labels={"app": "web"}),
            allocations=allocations,
            type=chance.choice(["Required", "Preferred"]),
            method=chance.choice(["Balance", "Fill"]),
            errors=("bad",) if chance.random() < 0.1 else (),
        )
        possible: list[events.AnyEvent] = [
            events.NodeSeen(node=model.Node(name=host, uid=host, labels=kept)),
            events.PodSeen(pod=msgspec.structs.replace(pod, node=chance.choice(["", host]))),
            events.placed(pod, host),
            declared.observed(policy),
            events.PodGone(uid=pod.uid, namespace="ns", name=pod.name),
        ]
        self.append(chance.choice(possible))

    def decide(self) -> None:
        pod = self.pod()
        offered = candidates.Candidates(self.chance.sample([*NODES, "unknown"], self.chance.randrange(10)))
        verb = self.chance.choice(["filter", "filter_onlyone", "prioritize", "preempt"])
        if verb == "preempt":
            offer = {name: tuple(self.chance.sample(["u0", "u1", "u2"], 2)) for name in offered.names}
            vetoed = preempting.run(self.context, pod, offer)
            self.answers.append(vetoed)
            decided = decision_reports.preempted(pod, vetoed, offer)
        else:
            run = {
                "filter": filtering.run,
                "filter_onlyone": filtering.run_only_one,
                "prioritize": prioritizing.run,
            }[verb]
            answer = run(self.context, pod, offered)
            self.answers.append(answer)
            report = decision_reports.scored if verb == "prioritize" else decision_reports.filtered
            decided = report(answer, offered)
        decision_reports.report(self.context, verb, decided, 0.001)

    def records(self) -> list[records.Decision]:
        """All records, oldest first, once the thread has written them."""
        self.store.decisions.start()
        self.store.decisions.stop()
        return self.store.decisions.latest(limit=10_000)[::-1]


def essence(trace: verdicts.Trace) -> tuple[object, ...]:
    return trace.position, trace.pod, trace.candidates, trace.refusals, trace.assumed


@pytest.mark.parametrize("seed", range(3))
def test_every_recorded_decision_is_explained_as_it_was_answered(store: stores.Store, seed: int) -> None:
    recorded = Recorded(store, seed)
    for _ in range(120):
        recorded.happen()
        if recorded.chance.random() < 0.7:
            recorded.decide()
    found = recorded.records()
    assert len(found) == len(recorded.answers) > 50
    seen: dict[str, int] = {}

    for decision, answer in zip(found, recorded.answers, strict=True):
        explanation = explanations.explain(
            decision, store.decisions, store.histories, configured.by(recorded.plugins, store)
        )
        trace = explanation.trace
        seen[decision.verb] = seen.get(decision.verb, 0) + bool(trace.refusals or trace.ratings)
        if isinstance(answer, offers.PreemptAnswer):
            assert trace.kept == frozenset(answer.kept)
            assert trace.reasons() == answer.dropped
        elif decision.verb == "prioritize":
            assert (trace.ratings, trace.totals) == (answer.trace.ratings, answer.trace.totals)
        else:
            assert essence(trace) == essence(answer.trace)
            assert explanation.chosen == (answer.only or "")
        assert explanation.difference == ""
        if explanation.changes:
            assert not explanation.fits
    # A test in which nothing was refused or scored would show nothing.
    assert all(seen[verb] > 3 for verb in ("filter", "filter_onlyone", "prioritize", "preempt"))
    assert any(preempting.OUTDATED in decision.reasons for decision in found)


def test_another_configuration_is_shown_as_a_difference(store: stores.Store) -> None:
    recorded = Recorded(store, 1)
    recorded.happen()
    recorded.decide()
    (decision,) = recorded.records()
    other = registry.Registry([plugins.USUAL[1](), plugins.USUAL[2]()])
    explanation = explanations.explain(
        decision, store.decisions, store.histories, configured.by(other, store)
    )
    assert recorded.plugins.digest in explanation.difference
    assert other.digest in explanation.difference


def test_a_decision_of_a_recorded_configuration_is_explained_by_it(store: stores.Store) -> None:
    recorded = Recorded(store, 1)
    for _ in range(60):
        recorded.happen()
        recorded.decide()
    other = configured.by(registry.Registry([plugin() for plugin in plugins.IN_TREE]), store)
    recorded.append(events.ConfigurationApplied(recorded.plugins.configuration()))
    store.follower.catch_up()
    scored = [one for one in recorded.records() if one.verb == "prioritize"]
    assert len(scored) > 3
    for decision in scored:
        own = configured.by(recorded.plugins, store)
        expected = explanations.explain(decision, store.decisions, store.histories, own)
        assert explanations.explain(decision, store.decisions, store.histories, other) == expected
        assert expected.difference == ""


def _given(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    return snapshot


def test_a_configuration_that_this_version_cannot_repeat_is_not_used(store: stores.Store) -> None:
    recorded = Recorded(store, 1)
    recorded.happen()
    recorded.decide()
    (decision,) = recorded.records()
    other = registry.Registry([plugins.IN_TREE[1](), plugins.IN_TREE[2]()])
    applied = recorded.plugins.configuration()
    for change in (
        {"args": {"WorkloadPolicy": {"removed": 1}}},
        {"enabled": ("Removed",), "weights": {}},
        {"score_max": 99},
        {"args": {"WorkloadPolicy": {"enforce": "otherwise"}}},
    ):
        changed = msgspec.structs.replace(applied, **change)
        snapshot = replace(store.follower.snapshot, configurations=(changed,))
        held = recorded_configurations.RecordedConfigurations(
            other, plugins.IN_TREE, functools.partial(_given, snapshot)
        )
        assert held.find(decision.configuration) is None


def test_an_answer_without_the_state_differs_from_that_of_the_log(store: stores.Store) -> None:
    recorded = Recorded(store, 4)
    recorded.append(events.NodeSeen(node=model.Node(name="n0", uid="n0")))
    pod = model.Pod(uid="u", namespace="ns", name="p", labels={POLICY: "absent"})
    offered = candidates.Candidates(["n0"])
    answer = filtering.run(recorded.context, pod, offered)
    blind = replace(answer, trace=replace(answer.trace, refusals=()))
    decision_reports.report(recorded.context, "filter", decision_reports.filtered(blind, offered), 0.001)
    (decision,) = recorded.records()
    explanation = explanations.explain(
        decision, store.decisions, store.histories, configured.by(recorded.plugins, store)
    )
    assert "1 of 1 nodes were kept, and 0 by the state in the log" in explanation.difference
    assert not explanation.fits


HEAVY = {f"label-{at}": "x" * 60 for at in range(150)}


def asked(recorded: Recorded, pod: model.Pod) -> filtering.Answer:
    offered = candidates.Candidates(["n0", "n1"])
    answer = filtering.run(recorded.context, pod, offered)
    decision_reports.report(recorded.context, "filter", decision_reports.filtered(answer, offered), 0.001)
    return answer


def stored(store: stores.Store) -> int:
    """The size of the records in bytes."""
    return int(store.client.memory_usage(store.keys.decisions) or 0)


def test_a_large_pod_is_on_record_by_its_digest_and_is_explained_from_the_log(store: stores.Store) -> None:
    recorded = Recorded(store, 5)
    pod = model.Pod(uid="u", namespace="ns", name="p", labels=HEAVY | {POLICY: "absent"})
    recorded.append(events.NodeSeen(node=model.Node(name="n0", uid="n0")), events.PodSeen(pod=pod))
    # Later changes of the pod do not matter.
    answer = asked(recorded, msgspec.structs.replace(pod, unscheduled="0/2 nodes are available"))
    (decision,) = recorded.records()
    assert (decision.shortened, store.decisions.shortened) == (("pod",), 1)
    assert stored(store) < 6_000
    explanation = explanations.explain(
        decision, store.decisions, store.histories, configured.by(recorded.plugins, store)
    )
    assert explanation.trace.refusals == answer.trace.refusals != ()
    assert explanation.difference == ""


def test_a_shortened_record_that_the_log_cannot_complete_is_not_computed_again(store: stores.Store) -> None:
    recorded = Recorded(store, 6)
    pod = model.Pod(uid="u", namespace="ns", name="p", labels=HEAVY | {POLICY: "absent"})
    recorded.append(events.NodeSeen(node=model.Node(name="n0", uid="n0")))
    asked(recorded, pod)
    recorded.append(events.PodSeen(pod=msgspec.structs.replace(pod, labels=HEAVY)))
    asked(recorded, pod)
    found = recorded.records()
    assert [decision.shortened for decision in found] == [("pod",)] * 2
    for decision in found:
        with pytest.raises(errors.Shortened, match=f"{decision.id} cannot be .* another version of it at"):
            explanations.explain(
                decision, store.decisions, store.histories, configured.by(recorded.plugins, store)
            )


def test_a_record_is_bounded_whatever_the_call(store: stores.Store) -> None:
    recorded = Recorded(store, 7)
    victims = {f"node-{at}": tuple(f"uid-{at}-{number}" * 3 for number in range(20)) for at in range(1_000)}
    pod = model.Pod(uid="u", namespace="ns", name="p", labels=HEAVY)
    recorded.append(events.PodSeen(pod=pod))
    vetoed = preempting.run(recorded.context, pod, victims)
    decision_reports.report(
        recorded.context, "preempt", decision_reports.preempted(pod, vetoed, victims), 0.001
    )
    (decision,) = recorded.records()
    assert decision.shortened == ("pod", "candidates", "victims", "reasons")
    assert (decision.count, decision.kept) == (1_000, len(vetoed.kept))
    assert stored(store) < 2 * records.LONGEST
    with pytest.raises(errors.Shortened, match="too many for a record"):
        explanations.explain(
            decision, store.decisions, store.histories, configured.by(recorded.plugins, store)
        )


def test_an_ordinary_record_holds_everything(store: stores.Store) -> None:
    recorded = Recorded(store, 8)
    recorded.append(*(events.NodeSeen(node=model.Node(name=f"n{at}", uid=f"n{at}")) for at in range(8)))
    for _ in range(20):
        recorded.decide()
    assert {decision.shortened for decision in recorded.records()} == {()}
    assert store.decisions.shortened == 0
