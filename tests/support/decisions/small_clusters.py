"""Small clusters: nodes, pods and policies as the API server would return them."""

from app.domain import model
from app.plugins.workload_policy import policy_model

NAMESPACE = "workload-test"
POLICY = "workload-policy-test"
APP = "clusterlink-floater-mix"
KEY = "workload-test"
LABEL = "workload-policy/kosmos.io"
REPLICA = {"app": APP, LABEL: POLICY}
"""Labels of the pods of the Deployment under test."""

MEMBERS = ("kosmos-member-cluster", "kosmos-cluster1")
HOSTS = ("cnp-paas-ecsc-002", "cnp-paas-ecsc-006", "cnp-paas-ecsc-008", "cnp-paas-ecsc-009")


def node(name: str, labels: dict[str, str] | None = None) -> model.Node:
    return model.Node(name=name, uid=f"uid-{name}", labels=labels or {}, ready=True)


def f6() -> list[model.Node]:
    """Six nodes: two member, four host."""
    members = [node(name, {KEY: "member"}) for name in MEMBERS]
    return [*members, *(node(name, {KEY: "host"}) for name in HOSTS)]


def pod(
    name: str,
    labels: dict[str, str] | None = None,
    *,
    namespace: str = NAMESPACE,
    node: str = "",
    nominated: str = "",
    priority: int = 0,
    phase: str = "",
    terminating: bool = False,
    owner: str = "ReplicaSet",
    scheduler: str = "default-scheduler",
    created: str = "2026-01-01T00:00:00Z",
) -> model.Pod:
    """A pod, running if ``node`` is given."""
    return model.Pod(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        labels=labels or {},
        owners=(model.Owner(kind=owner, name="owner", uid="uid-owner", controller=True),),
        node=node,
        nominated=nominated,
        priority=priority,
        phase=phase or ("Running" if node else "Pending"),
        terminating=terminating,
        scheduler=scheduler,
        created=created,
    )


def policy(
    quotas: dict[str, int] | None = None,
    *,
    required: bool = False,
    method: str = "Balance",
    name: str = POLICY,
    namespace: str = NAMESPACE,
    key: str = KEY,
    selector: model.Selector | None = None,
    strict: bool = False,
    errors: tuple[str, ...] = (),
) -> policy_model.WorkloadPolicy:
    """A policy, by default of member 1 and host 3; other fields have their API defaults."""
    quotas = {"member": 1, "host": 3} if quotas is None else quotas
    return policy_model.WorkloadPolicy(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        topology_key=key,
        selector=model.Selector(labels={"app": APP}) if selector is None else selector,
        allocations=tuple(
            policy_model.Allocation(name=domain, replicas=count) for domain, count in quotas.items()
        ),
        type="Required" if required else "Preferred",
        method=method,
        strict_domains=strict,
        errors=errors,
    )
