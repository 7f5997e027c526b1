"""Finds policies that cannot do what they describe, and pods that escape them."""

from collections.abc import Iterator, Sequence
from typing import Final

from app import plurals
from app.domain import model, selectors, snapshots
from app.framework import doctor_checks
from app.plugins.workload_policy import kinds, logic, policy_model, wakeups

_PAGE: Final = "how-to/find-out-what-is-wrong.md#check-policies"
_POLICY: Final = "kubectl -n NAMESPACE edit workloadpolicies.kosmos.io POLICY"

VALID = doctor_checks.Check(
    "P01",
    "Each policy is valid.",
    "the pods that name it are refused everywhere, unless missing_policy is ignore",
    f"{_POLICY}: correct the field that is named",
    _PAGE,
)
DOMAINS = doctor_checks.Check(
    "P02",
    "Each listed domain has nodes.",
    "its places cannot be used",
    "label its nodes KEY=VALUE (kubectl label node), or correct the name of the domain in the policy",
    _PAGE,
)
SCHEDULER = doctor_checks.Check(
    "P03",
    "Pods that name a policy are placed by a scheduler that calls the extender.",
    "they escape the quota: they are counted, and never limited",
    "set spec.schedulerName in the template of the workload, and no spec.nodeName",
    _PAGE,
)
TEMPLATE = doctor_checks.Check(
    "P04",
    "A workload that names a policy names it in its template, too.",
    "no policy applies to its pods",
    f"set the label {logic.LABEL} in spec.template.metadata.labels",
    _PAGE,
)
ROLLOUT = doctor_checks.Check(
    "P05",
    "A rolling update fits into the quotas.",
    "old and new pods share the quotas: the new ones wait for places that the old ones hold",
    "maxUnavailable: 1 in the strategy of the workload, or raise a quota during the update",
    _PAGE,
)
SELECTION = doctor_checks.Check(
    "P06",
    "Each policy selects pods.",
    "it counts nothing, so that its quotas are never used up",
    f"{_POLICY}: correct the labelSelector, or delete the policy",
    _PAGE,
)
NAMED = doctor_checks.Check(
    "P07",
    "Each policy that a pod names exists and selects the pod.",
    "the pod is refused everywhere",
    "correct the label of the pod's template, or the labelSelector of the policy",
    _PAGE,
)
CAPACITY = doctor_checks.Check(
    "P08",
    "The quotas of a Required policy have places for all pods that name it.",
    "the pods above the quotas wait until others end",
    f"{_POLICY}: raise replicas of a domain, or scale the workload down",
    _PAGE,
)

CHECKS: Final = (VALID, DOMAINS, SCHEDULER, TEMPLATE, ROLLOUT, SELECTION, NAMED, CAPACITY)


def declared() -> doctor_checks.Diagnosis:
    """The checks of this plugin."""
    return doctor_checks.Diagnosis(CHECKS, run)


def run(cluster: doctor_checks.Cluster) -> Iterator[doctor_checks.Result]:
    """All checks; one result for each fault, and one for all that is well of a check."""
    snapshot = cluster.snapshot
    policies = sorted(snapshot.all(kinds.POLICIES).values(), key=lambda one: one.key)
    found = [
        *_of_policies(snapshot, policies, cluster.workloads),
        *_of_pods(snapshot, cluster),
        *_of_workloads(snapshot, cluster),
    ]
    yield from found
    for check in CHECKS:
        if not any(one.id == check.id for one in found):
            yield check.ok("policies", f"{len(policies)} policies, {len(snapshot.pods)} pods")


# -- policies -----------------------------------------------------------------------------------


def _of_policies(
    snapshot: snapshots.Snapshot,
    policies: Sequence[policy_model.WorkloadPolicy],
    workloads: Sequence[doctor_checks.Workload],
) -> Iterator[doctor_checks.Result]:
    for policy in policies:
        subject = f"policy {policy.key}"
        if policy.errors:
            yield VALID.problem(subject, "; ".join(policy.errors), known=_known(policy))
            continue
        yield from _domains(snapshot, policy, subject)
        if not _selects(snapshot, policy, workloads):
            yield SELECTION.warning(
                subject, "its labelSelector selects no pod and no workload's template", known=_known(policy)
            )
        if policy.required:
            yield from _capacity(snapshot, policy, subject)


def _domains(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, subject: str
) -> Iterator[doctor_checks.Result]:
    column = snapshot.topology[policy.topology_key]
    wanted = [one.name for one in policy.allocations if one.replicas]
    empty = [name for name in wanted if not column[name]]
    known = {"KEY": policy.topology_key, "VALUE": empty[0]} if empty else {}
    verdict = DOMAINS.problem if policy.required else DOMAINS.warning
    if wanted and len(empty) == len(wanted) and not any(True for _ in column):
        yield verdict(subject, f"no node has the label {policy.topology_key}", known=known)
    elif empty:
        yield verdict(subject, f"no node has {policy.topology_key} = {plurals.listed(empty)}", known=known)


def _selects(
    snapshot: snapshots.Snapshot,
    policy: policy_model.WorkloadPolicy,
    workloads: Sequence[doctor_checks.Workload],
) -> bool:
    pods = (pod.labels for pod in snapshot.pods.values() if pod.namespace == policy.namespace)
    templates = (one.template_labels for one in workloads if one.namespace == policy.namespace)
    return any(selectors.matches(policy.selector, labels) for each in (pods, templates) for labels in each)


def _capacity(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, subject: str
) -> Iterator[doctor_checks.Result]:
    quotas = logic.quotas(snapshot, policy)
    over = [f"{one.domain} {one.count}/{one.desired}" for one in quotas if one.count > one.desired]
    if over:
        yield CAPACITY.warning(
            subject,
            f"above the quota: {plurals.listed(over)}",
            why="no pod is evicted: the number falls as pods end",
            known=_known(policy),
        )
    waiting = sum(1 for _ in wakeups.naming(snapshot, policy.namespace, policy.name))
    free = logic.free(snapshot, policy)
    if waiting > free:
        pods = f"{plurals.counted(waiting, 'pod')} {'waits' if waiting == 1 else 'wait'}"
        yield CAPACITY.warning(
            subject, f"{pods} for {plurals.counted(free, 'free place')}", known=_known(policy)
        )


def _known(policy: policy_model.WorkloadPolicy) -> dict[str, str]:
    return {"NAMESPACE": policy.namespace, "POLICY": policy.name}


# -- pods ---------------------------------------------------------------------------------------


def _of_pods(snapshot: snapshots.Snapshot, cluster: doctor_checks.Cluster) -> Iterator[doctor_checks.Result]:
    naming = [pod for pod in snapshot.pods.values() if pod.counted and logic.concerned(pod)]
    naming.sort(key=lambda pod: pod.key)
    if cluster.schedulers is None:
        templates = [one for one in cluster.workloads if _in_template(one) is not None and not one.node]
        if naming or templates:
            names = sorted({pod.scheduler for pod in naming} | {one.scheduler for one in templates})
            options = " ".join(f"--scheduler-name {name}" for name in names)
            yield SCHEDULER.unsure(
                f"{plurals.counted(len(naming), 'pod')}, {plurals.counted(len(templates), 'template')}",
                "which schedulers call the extender was not seen",
                fix=f"topolog doctor policies {options}, with those that call the extender",
            )
    else:
        others: dict[str, list[model.Pod]] = {}
        for pod in naming:
            if pod.scheduler not in cluster.schedulers:
                others.setdefault(pod.scheduler, []).append(pod)
        for name, pods in sorted(others.items()):
            yield SCHEDULER.problem(f"scheduler {name}", plurals.listed([f"pod {pod.key}" for pod in pods]))
    refused: dict[str, list[model.Pod]] = {}
    for pod in naming:
        followed = logic.followed(snapshot, pod)
        # The mistakes of an invalid policy are listed once, with the policy.
        if isinstance(followed, logic.Objection) and not _invalid(snapshot, pod):
            refused.setdefault(followed.reason, []).append(pod)
    for reason, pods in sorted(refused.items()):
        yield NAMED.problem(plurals.listed([f"pod {pod.key}" for pod in pods]), reason)


def _invalid(snapshot: snapshots.Snapshot, pod: model.Pod) -> bool:
    policy = snapshot.get(kinds.POLICIES, f"{pod.namespace}/{logic.named(pod)}")
    return policy is not None and bool(policy.errors)


# -- workloads ----------------------------------------------------------------------------------


def _of_workloads(
    snapshot: snapshots.Snapshot, cluster: doctor_checks.Cluster
) -> Iterator[doctor_checks.Result]:
    for one in cluster.workloads:
        on_object = next((one.labels[label] for label in logic.indexed() if label in one.labels), None)
        in_template = _in_template(one)
        if in_template is None:
            if on_object is not None:
                yield TEMPLATE.problem(one.subject, f"the label names {on_object}; the template has no label")
            continue
        if one.node:
            yield SCHEDULER.problem(
                one.subject,
                f"its template has nodeName {one.node}, so that no scheduler places its pods",
                fix="remove spec.nodeName from the template of the workload; a nodeSelector keeps its pods"
                " on a node",
            )
        elif cluster.schedulers is not None and one.scheduler not in cluster.schedulers:
            yield SCHEDULER.problem(one.subject, f"its template has schedulerName {one.scheduler}")
        policy = snapshot.get(kinds.POLICIES, f"{one.namespace}/{in_template}")
        if policy is not None and policy.required and not policy.errors and one.surging:
            places = sum(quota.desired for quota in logic.quotas(snapshot, policy))
            if one.replicas >= places:
                seen = f"maxUnavailable {one.unavailable} of {one.replicas} replicas is 0"
                yield ROLLOUT.warning(one.subject, f"{seen}, {places} places in policy {policy.key}")


def _in_template(one: doctor_checks.Workload) -> str | None:
    """The policy that the pods of a workload name; None if they name none."""
    labels = one.template_labels
    return next((labels[label] for label in logic.indexed() if label in labels), None)
