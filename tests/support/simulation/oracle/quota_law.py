"""The law of elastic quotas, checked on a log: no placement exceeds the max of its quota or of a parent.

While no quota is edited, no state of the log is over a limit either: ``overspent``.
"""

from app.domain import events, model
from tests.support.simulation.oracle import plain_fold, plain_quotas

TREE = {"company": ("", 2, 4), "red": ("company", 1, 3), "blue": ("company", 1, 3)}
"""Quota -> parent, first min and first max, in cores."""
DEEP = {
    "company": ("", 2, 3),
    "division": ("company", 1, 2),
    "red": ("division", 1, 2),
    "blue": ("division", 1, 2),
}
"""A tree in which one team alone can use up the quota above it."""
GUARANTEED = {**DEEP, "red": ("division", 2, 2)}
"""The same where the mins of the teams exceed the max of the quota above them."""
TEAMS = ("red", "blue")


def problem(event: events.AnyEvent, fold: plain_fold.Fold) -> str:
    """How the event, which follows the fold, breaks the law; empty if it does not."""
    if not isinstance(event, events.PlacementsCommitted):
        return ""
    fresh = [one for one in event.placements if not fold.pods_and_nodes().get(one.pod.uid, (None, ""))[1]]
    quotas = plain_quotas.by_name(fold.quotas.values())
    for at, one in enumerate(fresh):
        name = one.pod.labels.get(plain_quotas.LABEL, "")
        if name in quotas:
            found = _overspent(one, [*fold.pods_and_nodes().values(), *_placed(fresh[:at])], fold, quotas)
            if found:
                return f"pod {one.pod.name} is placed, and {found}"
    return ""


def overspent(fold: plain_fold.Fold) -> list[str]:
    """The limits that the state exceeds: the max of any quota, and the sum of the mins of namespaces.

    A resource that max does not name is not limited by it, nor one that no quota of a namespace names by the
    sum. No namespace has two quotas, and limits of memory are multiples of 64 bytes.
    """
    limits = {
        f"quota||{quota['name']}|{resource}": plain_quotas.units(resource, most)
        for quota in fold.quotas.values()
        for resource, most in quota.get("max", {}).items()
    }
    for quota in fold.namespace_quotas.values():
        for resource, most in quota.get("max", {}).items():
            limits[f"sigsquota|{quota['namespace']}|{resource}"] = plain_quotas.units(resource, most)
            limits.setdefault(f"sigsquota||{resource}", 0)
        for resource, least in quota.get("min", {}).items():
            key = f"sigsquota||{resource}"
            limits[key] = limits.get(key, 0) + plain_quotas.units(resource, least)
    used = fold.counts()
    return [f"{key}: {used[key]} of {most}" for key, most in limits.items() if used.get(key, 0) > most]


def _placed(placements: list[model.Placement]) -> list[tuple[model.Pod, str]]:
    return [(one.pod, one.node) for one in placements]


def _overspent(
    one: model.Placement,
    located: list[tuple[model.Pod, str]],
    fold: plain_fold.Fold,
    quotas: dict[str, plain_quotas.Quota],
) -> str:
    """The quota whose limit the placement exceeds, as text; empty if none."""
    name = one.pod.labels[plain_quotas.LABEL]
    others = [(pod, node) for pod, node in located if node and pod.uid != one.pod.uid]
    used = plain_quotas.counts([*others, (one.pod, one.node)], quotas)
    for resource in plain_quotas.request(one.pod, name, quotas):
        for above in plain_quotas.upwards(name, quotas):
            most = quotas[above].get("max", {}).get(resource)
            taken = used[f"quota||{above}|{resource}"]
            if most is not None and taken > most:
                return f"quota {above} has {taken} of {most} {resource}"
        if plain_quotas.firm(one.pod):
            least = quotas[name].get("min", {}).get(resource, 0)
            taken = used[f"quota||{name}|np|{resource}"]
            if taken > least:
                return f"non-preemptible pods of quota {name} have {taken} of {least} {resource}"
    return ""
