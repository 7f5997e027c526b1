"""Bugs of elastic quotas: how they are divided, admitted to, and evicted for."""

from tests.support.simulation.bugs.planted_bugs import Bug

BUGS = (
    # Elastic quotas.
    Bug(
        "the max of the quotas above does not hold",
        "app.plugins.elastic_quota.admission:_tests",
        "grown.chains[name] if rules.check_parents else (name,)",
        "(name,)",
    ),
    Bug(
        "the quotas above that of a pod set no ceiling",
        "app.plugins.elastic_quota.families:ceilings",
        "if test.request",
        "if test.quota == one.quota and test.request",
    ),
    Bug(
        "non-preemptible pods may use what their quota borrows",
        "app.plugins.elastic_quota.admission:_tests",
        "if above == name and not membership.preemptible(pod):",
        "if False:",
    ),
    Bug(
        "placements do not expect the version of the quotas",
        "app.domain.schema:Schema.footprint",
        "*further)",
        "*(one for one in further if not one.startswith('quotas:')))",
    ),
    Bug(
        "a change of a quota is not a version",
        "app.plugins.elastic_quota.kinds:moves",
        "return (MOVED,)",
        "return ()",
    ),
    Bug(
        "a pod counts in its own quota alone",
        "app.plugins.elastic_quota.quota_counts:_both",
        "grown.chains.get(name, (name,))",
        "(name,)",
    ),
    Bug(
        "a terminating pod gives its share of the quota back",
        "app.plugins.elastic_quota.quota_counts:_selects",
        "not pod.finished",
        "pod.counted",
    ),
    # Quotas that are divided.
    Bug(
        "a division is kept although a member requests more",
        "app.plugins.elastic_quota.trees.runtimes:TreeResource._requested",
        "self._former.pop(at, None)",
        "pass",
    ),
    Bug(
        "what a member does not need is not divided again",
        "app.plugins.elastic_quota.trees.weighted_shares:divide",
        "left += reached - wanted",
        "pass",
    ),
    Bug(
        "pods without a quota do not reduce what is divided",
        "app.plugins.elastic_quota.trees.usage:_total",
        "(sum([counts.get(key, 0) for key in outside]) << bits)",
        "0",
    ),
    Bug(
        "what is used is not guaranteed",
        "app.plugins.elastic_quota.trees.runtimes:TreeResource._used",
        "self._guarantee(at)",
        "pass",
    ),
    Bug(
        "a quota may use more than its max if that is guaranteed",
        "app.plugins.elastic_quota.trees.runtimes:TreeResource.runtime",
        ".shares.runtimes[spot], most)",
        ".shares.runtimes[spot], 2**62)",
    ),
    # Evictions for quotas.
    Bug(
        "a pod that is not preemptible is evicted for its quota",
        "app.plugins.elastic_quota.trees.overuse:excess_pods",
        "(one for one in found if membership.evictable(one.pod))",
        "found",
    ),
    Bug(
        "pods are evicted for what is about to be free",
        "app.plugins.elastic_quota.evictions:without_terminating",
        "cycles.without_terminating(snapshot) if",
        "snapshot if",
    ),
    Bug(
        "pods are evicted for a pod that its quota has not refused",
        "app.plugins.elastic_quota.evictions:_refused",
        "admission.subject(name) in pod.unscheduled",
        "pod.unscheduled",
    ),
    Bug(
        "another pod is evicted before the state shows the former one",
        "workers.controller.evictions:Evictor._seen",
        "(EVERY if going else SEEN)",
        "EVERY",
    ),
    Bug(
        "a quota that uses its max counts as over it",
        "app.plugins.elastic_quota.trees.overuse:over",
        "- quota_counts.ceiling(resource, most)",
        "- quota_counts.ceiling(resource, most) + 1000",
    ),
    Bug(
        "a gang takes the capacity of nominated pods",
        "app.plugins.coscheduling.planner.nominations:of_others",
        "if not snapshot.nominated:",
        "if True:",
    ),
    Bug(
        "less important nominated pods hold their capacity",
        "app.plugins.coscheduling.planner.nominations:of_others",
        "snapshot.nominated_before(least)",
        "map(snapshot.pods.__getitem__, snapshot.nominated)",
    ),
)
