"""Runs the checks of an installation on what its processes and the log show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from app.doctor import api_reader
from app.doctor.run import catalog, checks, process_facts
from app.framework import doctor_checks


class Ask(Protocol):
    """A request to the REST API; raises Unseen."""

    def __call__(self, path: str, **query: object) -> Mapping[str, Any]: ...


def examine(
    found: Sequence[process_facts.Process] | api_reader.Unseen, ask: Ask, now: float, *, leases: str
) -> Iterator[doctor_checks.Result]:
    """All checks. ``found``: the processes, or why they are not known; ``now``: seconds since 1970.

    ``leases``: the namespace of the Leases.
    """
    if isinstance(found, api_reader.Unseen):
        of_processes = (one for one in catalog.CHECKS if one not in (catalog.CALLED, catalog.ARCHIVE))
        yield from (one.unsure("processes", found.reason, fix=found.fix) for one in of_processes)
    else:
        yield from checks.of_processes(found, now, leases)
    try:
        newest = ask("/apis/v1/decisions", limit=1)["items"]
        waiting = ask("/apis/v1/pending", limit=100)["items"]
        yield checks.called(newest[0]["at"] if newest else "", waiting)
        yield checks.archive(ask("/apis/v1/settings")["settings"], found)
    except api_reader.Unseen as unseen:
        for check in (catalog.CALLED, catalog.ARCHIVE):
            yield check.unsure("extender", unseen.reason, fix=unseen.fix)
