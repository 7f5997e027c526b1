"""Transformers in the verbs: the pod as it is is bound and recorded, and a defect costs one pod its call."""

import dataclasses

import pytest
import structlog

from app.framework import capabilities, cycles, registry
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.store.server import embedded
from app.verbs import candidates, debug_flags, errors, filtering, prioritizing
from app.verbs.explain import explanations, tables
from tests.support.decisions import fake_plugins, fake_transformers
from tests.support.extender import replicas, small_shops

NODES = ("n0", "n1", "n2", "n3")


def transformed(shop: replicas.Cluster, *configured: capabilities.Plugin) -> replicas.Replica:
    """A replica with these plugins alone."""
    made = shop.replica()
    made.context = dataclasses.replace(made.context, plugins=registry.Registry(configured))
    return made


def fail(cycle: cycles.Cycle) -> cycles.Cycle:
    raise LookupError("no such thing")


@pytest.mark.scenario("TR-1")
@pytest.mark.parametrize("turned", [False, True])
def test_the_pod_that_is_bound_and_recorded_is_the_original(
    store_server: embedded.Server, cluster: str, *, turned: bool
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES, {"n3": {"x": "yes"}})
        small_shops.quota(shop, "q", 3)
        asking = small_shops.pod(shop, "p", "q", cpu=2)
        other = small_shops.pod(shop, "other", "q", cpu=1)
        shop.see()
        two: list[capabilities.Plugin] = [fake_transformers.Growing(), fake_transformers.Narrowing()]
        one = transformed(shop, *(two[::-1] if turned else two), ElasticQuota())
        answer = one.filter(asking)
        assert answer.trace.kept == {"n0", "n1", "n2"}
        assert one.bind(asking, "n3") == "topolog: transformer Narrowing leaves the node out"
        assert one.bind(asking, "n0") == ""
        placed = one.snapshot().placements[asking.uid]
        assert placed.pod.requests["cpu"] == asking.requests["cpu"] == 2000
        assert one.snapshot().counts["quota||q|cpu"] == 2000
        assert one.bind(other, "n1") == "topolog: elastic quota q: no capacity in cpu"
        assert shop.bound(other) == ""


@pytest.mark.scenario("TR-5")
def test_bind_refuses_a_pod_whose_transformed_request_exceeds_its_quota(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        small_shops.quota(shop, "q", 5)
        pods = [small_shops.pod(shop, name, "q", cpu=2) for name in ("first", "second")]
        shop.see()
        rules = ElasticQuota(runtime=False)
        each = [transformed(shop, fake_transformers.Growing(), rules) for _ in range(2)]
        each[1].context = replicas.with_state(each[1], replicas.Behind(each[1], looks=1))
        assert each[0].bind(pods[0], "n0") == ""
        # 2 of 5 are used: a pod of 2 has capacity, and one of 3 too, once.
        assert each[1].bind(pods[1], "n1") == ""
        third = small_shops.pod(shop, "third", "q", cpu=1)
        shop.see()
        assert each[0].bind(third, "n2") == "topolog: elastic quota q: no capacity in cpu"


@pytest.mark.scenario("TR-5")
@pytest.mark.parametrize("to", [1000, 0])
def test_bind_refuses_a_pod_that_exceeds_its_quota_as_it_is(
    store_server: embedded.Server, cluster: str, to: int
) -> None:
    """Counts hold the pod as it is, whatever transformers show: also if plugins do not see its request."""
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        small_shops.quota(shop, "q", 10)
        pods = [small_shops.pod(shop, f"p{cpu}", "q", cpu=cpu) for cpu in (9, 3, 1)]
        shop.see()
        one = transformed(shop, fake_transformers.Shrinking(to=to), ElasticQuota(runtime=False))
        assert one.bind(pods[0], "n0") == ""
        assert one.filter(pods[1]).trace.kept
        reason = "topolog: plugin ElasticQuota has no capacity for the pod as it is, before transformers"
        assert one.bind(pods[1], "n1") == reason
        assert shop.bound(pods[1]) == ""
        assert one.bind(pods[2], "n1") == ""
        assert one.snapshot().counts["quota||q|cpu"] == 10_000


@pytest.mark.scenario("TR-7")
def test_a_transformer_that_raises_fails_the_pods_under_hard_rules_alone(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        small_shops.quota(shop, "q", 5)
        limited, free = small_shops.pod(shop, "limited", "q"), small_shops.pod(shop, "free", "")
        other = small_shops.pod(shop, "healthy", "q")
        shop.see()
        failing = fake_transformers.Misbehaving(does=fail, pod="limited")
        one = transformed(shop, failing, ElasticQuota())
        text = "topolog: transformer Misbehaving failed: LookupError: no such thing; nothing was"
        with (
            structlog.testing.capture_logs() as lines,
            pytest.raises(errors.PluginFailed, match=f"{text} decided"),
        ):
            one.filter(limited)
        assert [line["verb"] for line in lines] == ["filter"]
        assert one.bind(limited, "n0") == f"{text} bound"
        assert not one.snapshot().placements
        assert one.bind(other, "n0") == ""
        everyone = transformed(shop, fake_transformers.Misbehaving(does=fail), ElasticQuota())
        with structlog.testing.capture_logs():
            assert everyone.filter(free).trace.kept == set(NODES)
        assert everyone.bind(free, "n0").startswith(text)


def test_scores_do_not_fail_with_a_transformer(store_server: embedded.Server, cluster: str) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        asking = small_shops.pod(shop, "p", "")
        shop.see()

        @dataclasses.dataclass(frozen=True, slots=True)
        class Failing(fake_plugins.TransformingScores):
            def transform_scores(self, cycle: cycles.Cycle) -> cycles.Cycle:
                return fail(cycle)

        one = transformed(shop, Failing(), fake_plugins.Filtering(refused=frozenset(("n0",))))
        one.store.follower.catch_up()
        with structlog.testing.capture_logs() as lines:
            answer = filtering.run_only_one(one.context, asking, candidates.Candidates(NODES))
        assert [line["verb"] for line in lines] == ["filter_onlyone"]
        assert (answer.only, answer.single) == ("n1", True)


@pytest.mark.scenario("TR-8")
def test_what_was_transformed_is_shown_at_the_moment_of_the_decision(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES, {"n3": {"x": "yes"}})
        asking = small_shops.pod(shop, "p", "")
        shop.see()
        plugins = (
            fake_transformers.Growing(),
            fake_transformers.Narrowing(),
            fake_plugins.Scoring(given={3: frozenset(NODES)}),
        )
        one = transformed(shop, *plugins)
        first = one.filter(asking)
        past = first.snapshot
        small_shops.nodes(shop, ("n4",), {"n4": {"x": "yes"}})
        shop.see()
        assert len(one.filter(asking).trace.refused) == 2
        cycle = cycles.cycle(asking, frozenset(NODES), past)
        again = explanations.of_cycle(cycle, one.context.plugins)
        assert again.trace.transformed == first.trace.transformed
        shown = tables.structure(again)
        assert shown["transformed"] == [
            {"plugin": "Growing", "phase": "filter", "changed": ["pod.requests.cpu"]},
            {"plugin": "Narrowing", "phase": "filter", "changed": ["candidates -1"]},
        ]
        line = "Growing (pod.requests.cpu); Narrowing (candidates -1)"
        assert f"Transformed by: {line}." in tables.markdown(again)
        assert f"transformed by: {line}" in tables.scores(again.trace, 5)
        flags = {"s": "5", "f": "true"}
        rules, now = one.context.plugins, "2026-07-01T10:00:00Z"
        logged = list(debug_flags.lines(again.trace, past, rules, started=flags, now=now))
        assert [event for event, _ in logged] == ["debug scores", "debug filter failure"]
        assert [fields["transformed_by"] for _, fields in logged] == [line, line]
        scored = prioritizing.run(one.context, asking, candidates.Candidates(NODES))
        assert scored.trace.totals == {3: frozenset(("n0", "n1", "n2"))}
