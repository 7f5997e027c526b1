"""Both families of quotas: a pod has to fit in its Koordinator quota, and in the quota of its namespace.

Neither family reads the objects of the other, so each has the meaning that it has alone (decision 37).
"""

from collections.abc import Mapping, Sequence

from app.domain import model, schema, snapshots, verdicts
from app.framework import capabilities, cycles, views
from app.plugins.elastic_quota import admission, kinds, quota_counts, quota_model
from app.plugins.elastic_quota.sigs import admission as of_namespaces
from app.plugins.elastic_quota.sigs import namespace_counts, namespace_quota, reclaimable_pods
from app.plugins.elastic_quota.trees import membership, overuse, quota_preemption, usage

Pods = Sequence[model.Pod]
TERMS = views.Terms(words=quota_model.BUILT_IN)

_EXACT = 2**53
"""No count reaches this, so no ceiling at or above it has an effect."""


def counters() -> tuple[schema.Counter, ...]:
    """All counters of the plugin."""
    return quota_counts.COUNTER, namespace_counts.COUNTER


pod_class = membership.pod_class
veto = quota_preemption.veto
beside = reclaimable_pods.beside
exceeded = overuse.exceeded


def limited(snapshot: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules) -> bool:
    """Whether some quota may refuse the pod in this state."""
    return admission.limited(snapshot, pod, rules) or of_namespaces.limited(snapshot, pod, rules)


def names(snapshot: snapshots.Snapshot, pod: model.Pod) -> tuple[str, ...]:
    """The Koordinator quota of the pod, if there are any, and the quota of its namespace, if it has one."""
    found = [membership.of(pod, usage.forest(snapshot)).name] if snapshot.all(kinds.QUOTAS) else []
    own = namespace_quota.namespaces(snapshot.objects).quotas.get(pod.namespace)
    return tuple(found if own is None else [*found, own.key])


def soft(rules: admission.QuotaRules, pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
    """Whether no quota in this state may refuse the pod; not if quotas may exist that are not listed yet."""
    return bool(last_known.offset) and not last_known.unlisted and not limited(last_known, pod, rules)


def summed_by(_namespace: str, _snapshot: snapshots.Snapshot) -> tuple[str, ...]:
    """Quotas depend on no node."""
    return ()


def stays_refused(rules: admission.QuotaRules, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
    """Whether placements of pods like this one raise what its quotas use, and none of their limits.

    A limit may follow from what is used where that is guaranteed, and from the request of a pod that the
    state does not have.
    """
    return not rules.guarantee_usage and snapshot.pod(pod.uid) is not None


def admissions(
    snapshot: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules
) -> tuple[admission.Admission, ...]:
    """The tests of the pod, which must not be on a node in the snapshot, by each quota that limits it."""
    found = admission.admission(snapshot, pod, rules), of_namespaces.tests(snapshot, pod, rules)
    return tuple([one for one in found if one is not None])


def reason(found: tuple[admission.Admission, ...]) -> str:
    """Why the pod is refused; empty if all quotas admit it."""
    return "; ".join([one.reason for one in found if one.reason])


def refusal(cycle: cycles.Cycle, rules: admission.QuotaRules) -> verdicts.Refusal | None:
    """All candidates under one reason, or None: a quota does not depend on the node."""
    found = admissions(cycle.snapshot, cycle.pod, rules)
    why = reason(found)
    if not why:
        return None
    failed = (test for one in found for test in one.tests if not test.fits)
    return verdicts.Refusal(
        why, cycle.candidates, {admission.described(test): cycle.candidates for test in failed}
    )


def ceilings(cycle: cycles.Cycle, rules: admission.QuotaRules) -> Mapping[schema.CountKey, int]:
    """The highest value of each count that the pod raises, while a quota limits it."""
    return {
        test.key: test.limit
        for one in admissions(cycle.snapshot, cycle.pod, rules)
        for test in one.tests
        if test.request and test.limit < _EXACT
    }


def plan(rules: admission.QuotaRules, cycle: cycles.Cycle, _: model.NodeName) -> capabilities.Plan:
    """The pod on any node, as long as no count exceeds its ceiling."""
    return capabilities.Plan(ceilings=ceilings(cycle, rules))
