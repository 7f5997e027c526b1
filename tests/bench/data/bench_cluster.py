"""The cluster of the benchmark, as the events that the recorder would append.

The nodes are in 100 racks; ten pods of every rack belong to each of two policies. The policy `free` has
capacity in every rack; `half` is exhausted in every second rack, so it refuses half of the nodes.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from tests.support import declared

NAMESPACE = "bench"
RACK = "topology.example.com/rack"
RACKS = 100
MEMBERS = 10
"""Pods of each policy in each rack."""
POLICY_LABEL = "workload-policy/kosmos.io"
FREE, HALF = "free", "half"
POLICIES = (FREE, HALF)


def node_name(number: int) -> model.NodeName:
    """As long as a name of a cloud provider: 5,000 of them make a body of about 230 KB."""
    return f"ip-10-{16 + number // 65536}-{number // 256 % 256}-{number % 256}.eu-central-1.compute.internal"


def rack(number: int) -> str:
    """The rack of a node; racks alternate, so every range of nodes covers all racks evenly."""
    return f"rack-{number % RACKS:03}"


def labels(number: int) -> dict[str, str]:
    """The labels that kubelet and a cloud provider set on a node."""
    return {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node_name(number),
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.8xlarge",
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": f"eu-central-1{'abc'[number % RACKS % 3]}",
        RACK: rack(number),
    }


def listing(nodes: int) -> bytes:
    """The nodes in the form that the client reads."""
    return msgspec.json.encode([{"name": node_name(n), "labels": labels(n)} for n in range(nodes)])


def refused(policy: str, nodes: int) -> int:
    """How many of the first ``nodes`` the policy refuses."""
    return sum(number % RACKS % 2 == 0 for number in range(nodes)) if policy == HALF else 0


def facts(nodes: int, pods: int) -> Iterator[events.AnyEvent]:
    """All events of the log, in the order of a recorder's first lists."""
    yield from (events.NodeSeen(node=_node(number)) for number in range(nodes))
    yield _relisted("nodes")
    yield from (declared.observed(_policy(name)) for name in POLICIES)
    yield _relisted("workloadpolicies")
    yield from map(_relisted, sorted(declared.SCHEMA.names - {"nodes", "pods", "workloadpolicies"}))
    yield from (events.PodSeen(pod=_pod(number, nodes)) for number in range(pods))
    yield _relisted("pods")


def _relisted(kind: str) -> events.Relisted:
    return events.Relisted(kind=kind, since="", until="1000000", reason="first list")


def _node(number: int) -> model.Node:
    return model.Node(
        name=node_name(number),
        uid=uid("node", number),
        labels=labels(number),
        allocatable={"cpu": 31_850, "memory": 126_868_524 << 10, "pods": 234},
        ready=True,
        created="2026-11-02T08:30:00Z",
    )


def _policy(name: str) -> policy_model.WorkloadPolicy:
    full = {number for number in range(RACKS) if name == HALF and number % 2 == 0}
    quotas = [MEMBERS if number in full else MEMBERS * (2 + number % 3) for number in range(RACKS)]
    return policy_model.WorkloadPolicy(
        uid=uid(name, 0),
        namespace=NAMESPACE,
        name=name,
        topology_key=RACK,
        selector=model.Selector(labels={POLICY_LABEL: name}),
        allocations=tuple(
            policy_model.Allocation(rack(number), quota) for number, quota in enumerate(quotas)
        ),
        type="Required",
        method="Balance",
        created="2026-11-02T08:30:00Z",
    )


def _pod(number: int, nodes: int) -> model.Pod:
    """The first pods are members of the policies, equally many in every rack; the others belong to none."""
    policy = POLICIES[number // RACKS % len(POLICIES)] if number < RACKS * MEMBERS * len(POLICIES) else ""
    node = number % RACKS if policy else number % nodes
    name = f"{policy or 'service'}-6d5f4c8b7d-{number:06}"
    return model.Pod(
        uid=uid("pod", number),
        namespace=NAMESPACE if policy else f"team-{number % 20:02}",
        name=name,
        labels={
            "app.kubernetes.io/name": policy or f"service-{number % 500:03}",
            "pod-template-hash": "6d5f4c8b7d",
            **({POLICY_LABEL: policy} if policy else {}),
        },
        owners=(model.Owner("ReplicaSet", name[:-7], uid("set", number // 100), controller=True),),
        requests={"cpu": 250, "memory": 512 << 20},
        node=node_name(node),
        phase="Running",
        created="2026-11-02T08:30:00Z",
        started="2026-11-02T08:30:05Z",
    )


def uid(kind: str, number: int) -> model.Uid:
    """A UID that is the same in every run."""
    text = hashlib.blake2b(f"{kind} {number}".encode(), digest_size=16).hexdigest()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"
