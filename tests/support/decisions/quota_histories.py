"""Hypothesis strategies for events of quotas, their pods and nodes, in any order."""

from hypothesis import strategies as st

from app.domain import events, model
from app.plugins.elastic_quota import kinds
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota

names = st.sampled_from(["a", "b", "c", "blue", "koordinator-default-quota", "koordinator-root-quota"])
spaces = st.sampled_from(["blue", "green"])
amounts = st.sampled_from([0, 1, 1000, 1025, 2**31 - 7])
quotas = st.builds(
    Quota,
    uid=st.sampled_from(["1", "2"]),
    namespace=spaces,
    name=names,
    parent=st.sampled_from(["", "a", "b", "c", "absent"]),
    tree=st.sampled_from(["", "t"]),
    namespaces=st.sampled_from([(), ("blue",), ("blue", "green")]),
    max=st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 3), "memory": st.integers(0, 3)}),
    created=st.sampled_from(["1", "2"]),
)
own = st.builds(
    NamespaceQuota,
    uid=st.just("1"),
    namespace=spaces,
    name=st.sampled_from(["x", "y"]),
    max=st.just({"cpu": 1}),
)
"""Quotas of namespaces (scheduling.x-k8s.io)."""
labels = st.fixed_dictionaries(
    {},
    optional={
        "quota.scheduling.koordinator.sh/name": st.one_of(names, st.sampled_from(["", "absent"])),
        "quota.scheduling.koordinator.sh/preemptible": st.sampled_from(["true", "false"]),
    },
)
pods = st.builds(
    lambda number, space, labels, node, phase, terminating, requests: model.Pod(
        uid=f"{space}-{number}",
        namespace=space,
        name=str(number),
        labels=labels,
        node=node,
        phase=phase,
        terminating=terminating,
        requests=requests,
    ),
    st.integers(0, 3),
    spaces,
    labels,
    st.sampled_from(["", "n1", "n2"]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.booleans(),
    st.fixed_dictionaries({}, optional={"cpu": amounts, "memory": amounts, "gpu": amounts}),
)
happened = st.lists(
    st.one_of(
        st.builds(kinds.QUOTAS.observed, quotas),
        st.builds(lambda one: kinds.QUOTAS.gone(one.namespace, one.name, one.uid), quotas),
        st.builds(namespace_quota.KIND.observed, own),
        st.builds(lambda one: namespace_quota.KIND.gone(one.namespace, one.name, one.uid), own),
        st.builds(events.PodSeen, pod=pods),
        st.builds(lambda one: events.PodGone(uid=one.uid, namespace=one.namespace, name=one.name), pods),
        st.builds(events.placed, pods, st.sampled_from(["n1", "n2"])),
        st.builds(
            lambda name, labels: events.NodeSeen(node=model.Node(name=name, uid=name, labels=labels)),
            st.sampled_from(["n1", "n2"]),
            st.sampled_from([{}, {"zone": "x"}]),
        ),
        st.builds(lambda name: events.NodeGone(name=name, uid=name), st.sampled_from(["n1", "n2"])),
    ),
    max_size=30,
)
