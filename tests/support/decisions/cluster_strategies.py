"""Hypothesis strategies for small clusters with WorkloadPolicies and jobs, and plugins to judge them."""

from hypothesis import settings
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.framework import registry
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.workload_policy import limits, policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import small_clusters

DOMAINS = ("a", "b", "c", None)
GROUP = "rl-job-group"
OTHERS = ((), ("other",), ("another", "other"))
"""Policies besides the one that the pod under test names."""
SELECTORS = (None, model.Selector(), model.Selector(labels={"app": "elsewhere"}))
"""Of these policies: the pods of the one that is named, all, or others."""
unhurried = settings(max_examples=sizes.examples(50), deadline=None)
names = st.sampled_from([f"n{number}" for number in range(12)])


@st.composite
def nodes(draw: st.DrawFn) -> list[model.Node]:
    found = draw(st.lists(names, unique=True, max_size=12))
    domains = draw(st.lists(st.sampled_from(DOMAINS), min_size=len(found), max_size=len(found)))
    return [
        small_clusters.node(
            name, {} if domain is None else {small_clusters.KEY: domain, "rack": f"r-{domain}"}
        )
        for name, domain in zip(found, domains, strict=True)
    ]


@st.composite
def policies(draw: st.DrawFn, name: str = small_clusters.POLICY) -> policy_model.WorkloadPolicy:
    listed = draw(st.lists(st.sampled_from(["a", "b", "d"]), unique=True, min_size=1))
    return small_clusters.policy(
        {domain: draw(st.integers(0, 4)) for domain in listed},
        required=draw(st.booleans()),
        method=draw(st.sampled_from(["Fill", "Balance"])),
        strict=draw(st.booleans()),
        errors=draw(st.sampled_from([(), (), (), ("broken",)])),
        name=name,
        key=small_clusters.KEY
        if name == small_clusters.POLICY
        else draw(st.sampled_from([small_clusters.KEY, "rack"])),
        selector=None if name == small_clusters.POLICY else draw(st.sampled_from(SELECTORS)),
    )


@st.composite
def pods(draw: st.DrawFn) -> list[model.Pod]:
    count = draw(st.integers(0, 12))
    return [
        small_clusters.pod(
            f"p{number}",
            {
                **draw(st.sampled_from([small_clusters.REPLICA, {}])),
                GROUP: draw(st.sampled_from(["x", "y", ""])),
            },
            node=draw(st.one_of(st.just(""), names)),
            nominated=draw(st.one_of(st.just(""), names)),
            priority=draw(st.integers(0, 2)),
            terminating=draw(st.booleans()),
            namespace=draw(st.sampled_from([small_clusters.NAMESPACE, small_clusters.NAMESPACE, "other"])),
        )
        for number in range(count)
    ]


@st.composite
def worlds(draw: st.DrawFn) -> snapshots.Snapshot:
    facts: list[events.AnyEvent] = [events.NodeSeen(node=node) for node in draw(nodes())]
    if draw(st.integers(0, 5)):
        facts.append(declared.observed(draw(policies())))
    facts += [declared.observed(draw(policies(name))) for name in draw(st.sampled_from(OTHERS))]
    facts += [events.PodSeen(pod=pod) for pod in draw(pods())]
    return projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=PLUGINS[10].indexed()), facts
    )


def plugins(score_max: int, enforce: limits.Enforce = "named") -> registry.Registry:
    near = JobAffinity(grades=(("rack", 6), (small_clusters.KEY, 3)))
    return registry.Registry([near, WorkloadPolicy(enforce=enforce)], score_max=score_max)


PLUGINS = {score_max: plugins(score_max) for score_max in (1, 10, 100)}
SELECTED = {score_max: plugins(score_max, "selected") for score_max in PLUGINS}
ASKING = small_clusters.pod("asking", {**small_clusters.REPLICA, GROUP: "x"}, priority=1)
UNLABELLED = small_clusters.pod("asking", {"app": small_clusters.APP, GROUP: "x"}, priority=1)
DAEMON = small_clusters.pod("asking", small_clusters.REPLICA, owner="DaemonSet", priority=1)
pods_asking = st.sampled_from([ASKING, ASKING, UNLABELLED, DAEMON])
settings_of = st.sampled_from([PLUGINS, SELECTED])
"""By the highest score, under either value of ``enforce``."""
candidates = st.frozensets(names)
