"""The quotas above each quota, whatever parents the objects name. The time is linear in their number."""

from collections.abc import Mapping

from app.plugins.elastic_quota.quota_model import Quota

DEPTH = 32
"""Levels of a tree at most: a pod counts in its quota and all quotas above it."""


def chain_of(name: str, used: Mapping[str, Quota]) -> tuple[str, ...]:
    """The quota and those above it, up to an unknown one or a repetition; alone if these are more than DEPTH.

    No chain is cut: the count of a quota would lack some of what the quotas below it count.
    """
    found: list[str] = []
    at = name
    while at in used and at not in found:
        if len(found) == DEPTH:
            return (name,)
        found.append(at)
        at = used[at].above
    return tuple(found)


def cycle_sizes(used: Mapping[str, Quota]) -> Mapping[str, int]:
    """Name -> how many quotas are on its cycle; 0 for those that are below one. Others are left out."""
    found: dict[str, int] = {}
    ended: set[str] = set()
    for at in used:
        way: dict[str, None] = {}
        while at in used and at not in ended and at not in way:
            way[at] = None
            at = used[at].above
        ended.update(way)
        if at in way or at in found:
            found.update(dict.fromkeys(way, 0))
        if at in way:
            names = list(way)
            members = names[names.index(at) :]
            found.update(dict.fromkeys(members, len(members)))
    return found
