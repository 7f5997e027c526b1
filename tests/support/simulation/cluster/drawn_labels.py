"""Labels of the pods that users create: the policy, set, gang, quota, rank and budget of each are drawn."""

import random
from collections.abc import Mapping

from tests.support.decisions import pod_sets
from tests.support.simulation import seed_traits
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import eviction_law, gang_law, plain_quotas, quota_law

BUDGETS = {"db": {"tier": "db"}, "cache": {"tier": "cache"}}
"""PodDisruptionBudget -> the labels that it selects."""


class Labels:
    """Draws the labels of the pods of one simulation."""

    def __init__(self, rng: random.Random, traits: seed_traits.Traits) -> None:
        self._rng = rng
        self._traits = traits

    def drawn(self) -> dict[str, str]:
        """Labels of a pod that a user creates."""
        if self._traits.preempting:
            return self._of_a_rank()
        if self._traits.sharing and (self._traits.deep or self._rng.random() < 0.85):
            return self.of_a_quota()
        return self._of_the_policy()

    def of_a_quota(self) -> dict[str, str]:
        """Labels of a pod of a team's quota; some also name the policy or a gang."""
        labels = {plain_quotas.LABEL: self._rng.choice(quota_law.TEAMS)}
        if self._traits.deep:
            if self._rng.random() < 0.8:
                labels[plain_quotas.LABEL] = quota_law.TEAMS[0]
            return labels
        # Fewer where the controller evicts: these it must not evict.
        if self._rng.random() < (0.25 if self._traits.evicting else 0.5):
            labels[plain_quotas.FIRM] = "false"
        if self._traits.evicting:
            tier = self._rng.choice(("db", "cache", "web", "web"))
            return {**labels, cluster_objects.PRIORITY: str(self._rng.randrange(4)), "tier": tier}
        if self._traits.gathering and self._rng.random() < 0.6:
            return {**labels, gang_law.LABEL: self._rng.choice(sorted(gang_law.GROUPS))}
        return {**cluster_objects.WEB, **labels} if self._rng.random() < 0.2 else labels

    def changed(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Other labels of a pod: those of its policy or of its quota differ, and the others are kept."""
        kept = {key: value for key, value in labels.items() if key not in cluster_objects.WEB}
        if self._traits.sharing and self._rng.random() < 0.5:
            kept[plain_quotas.LABEL] = self._rng.choice((*quota_law.TEAMS, ""))
        overlapping = {**cluster_objects.WEB, "workload-policy/kosmos.io": cluster_objects.OVERLAPPING}
        drawn = [cluster_objects.WEB, cluster_objects.WEB, {"app": "other"}]
        # Beside a member that counts without a limit, a gang may be refused that would fit without others.
        drawn += [] if self._traits.gathering else [cluster_objects.COUNTED]
        drawn += [overlapping] if self._traits.selected else []
        return {**kept, **self._rng.choice(drawn)}

    def _of_a_rank(self) -> dict[str, str]:
        """Labels of a pod of the group that preempts, of another gang, or of a less important pod."""
        fate = self._rng.random()
        high, middle = str(eviction_law.HIGH), str(eviction_law.MIDDLE)
        if fate < 0.4:
            found = {cluster_objects.GROUP: eviction_law.PREEMPTING, cluster_objects.PRIORITY: high}
        elif fate < 0.6:
            gang = self._rng.choice(sorted(gang_law.GROUPS))
            found = {gang_law.LABEL: gang, cluster_objects.PRIORITY: middle}
        elif fate < 0.7:
            return {cluster_objects.PRIORITY: middle}
        elif fate < 0.76:
            return {cluster_objects.PRIORITY: str(eviction_law.TOP)}
        else:
            return self.less_important()
        if self._traits.sharing and self._rng.random() < 0.3:
            found[plain_quotas.LABEL] = self._rng.choice(quota_law.TEAMS)
        return found

    def less_important(self) -> dict[str, str]:
        """Labels of a pod that may have to go: some are protected by a budget, some by their gang."""
        rank = {cluster_objects.PRIORITY: str(self._rng.choice((-1, 0, 0, 1)))}
        fate = self._rng.random()
        if fate < 0.2:
            rank = {cluster_objects.GROUP: "bronze", cluster_objects.PRIORITY: "2"}
        elif fate < 0.45:
            rank = {cluster_objects.GROUP: eviction_law.WHOLE, cluster_objects.PRIORITY: "1"}
        return {**rank, **self._rng.choice(({}, *BUDGETS.values()))}

    def _of_the_policy(self) -> dict[str, str]:
        """Labels of a pod that the policy counts; some name a set of pods or a gang, too."""
        if self._traits.planning and self._rng.random() < 0.8:
            seat = self._rng.choice(sorted(cluster_objects.NODES))
            pod_set = self._rng.choice(("red", "blue"))
            return {**cluster_objects.WEB, pod_sets.POD_SET: pod_set, pod_sets.SEAT: seat}
        if self._traits.gathering and self._rng.random() < 0.8:
            gang = {gang_law.LABEL: self._rng.choice(sorted(gang_law.GROUPS))}
            return gang if self._rng.random() < 0.6 else {**cluster_objects.WEB, **gang}
        if not self._traits.selected:
            return cluster_objects.WEB
        overlapping = {**cluster_objects.WEB, "workload-policy/kosmos.io": cluster_objects.OVERLAPPING}
        return self._rng.choice((cluster_objects.WEB, cluster_objects.COUNTED, overlapping))
