"""Checks of the kube-schedulers of a cluster beside one another: S11 to S15."""

import types
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from app import plurals
from app.doctor import api_reader
from app.doctor.scheduler import catalog, configurations, scheduler_pods
from app.framework import doctor_checks

_RESTART = "restart the kube-scheduler that was asked"
_ELECTION = "leaderElection"


@dataclass(frozen=True, slots=True)
class OwnPod:
    """A pod of Topolog."""

    key: str
    scheduler: str


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pending pod that a plugin is interested in."""

    key: str
    scheduler: str
    called: bool
    """The log has a call about it."""


def own_pods(
    pods: Sequence[OwnPod], profiles: Collection[str], unread: api_reader.Unseen | None = None
) -> doctor_checks.Result:
    """S11; ``profiles``: the names by which pods select a scheduler that calls the extender.

    ``unread``: why it is not known whether the schedulers of these pods are among them; None if it is.
    """
    if not pods:
        return catalog.OWN_PODS.unsure(
            "Topolog's pods",
            "none was found",
            fix="name the namespace of Topolog with --namespace; not applicable where it runs outside the"
            " cluster (--skip S11)",
        )
    wrong = [one for one in pods if one.scheduler in profiles]
    if wrong:
        return catalog.OWN_PODS.problem(
            "Topolog's pods",
            f"placed by {wrong[0].scheduler}: {plurals.listed([one.key for one in wrong])}",
        )
    if unread is not None:
        return catalog.OWN_PODS.unsure("Topolog's pods", unread.reason, fix=unread.fix)
    return catalog.OWN_PODS.ok(
        "Topolog's pods",
        f"{len(pods)}, placed by {plurals.listed(sorted({one.scheduler for one in pods}))}",
    )


def leases(
    schedulers: Sequence[scheduler_pods.Scheduler],
    live: Sequence[configurations.SchedulerConfiguration] = (),
) -> Iterator[doctor_checks.Result]:
    """S12 for each name of a scheduler, for each scheduler whose names are not known, and for each Lease that
    schedulers with different names have.

    ``live``: running configurations.
    """
    schedulers = _with_live(schedulers, live)
    unread = [one for one in schedulers if one.configuration is None]
    if unread and len(schedulers) == 1:
        yield catalog.LEASE.ok("schedulers", f"one: {unread[0].pod}")
        return
    for one in unread:
        yield catalog.LEASE.unsure(
            f"pod {one.pod}",
            f"{one.unseen}: whether it has the name or the Lease of another one is not known",
            fix=one.fix
            or f"compare schedulerName and leaderElection in {one.file} of pod {one.pod} with those of the"
            f" other schedulers; or {scheduler_pods.forward(one)}",
        )
    by_name: dict[str, dict[str, str]] = defaultdict(dict)
    for one in schedulers:
        found = one.configuration
        if found is not None:
            for profile in found.profiles:
                by_name[profile.name][one.pod] = found.lease if found.elected else ""
    for name, held in sorted(by_name.items()):
        subject = f"schedulers named {name}"
        distinct = set(held.values())
        if len(held) == 1:
            yield catalog.LEASE.ok(subject, f"one: {next(iter(held))}")
        elif distinct == {""}:
            yield catalog.LEASE.problem(
                subject, f"{len(held)} without leader election: {plurals.listed(sorted(held))}"
            )
        elif len(distinct) > 1:
            spelled = plurals.listed([f"{pod} ({lease or 'none'})" for pod, lease in sorted(held.items())])
            yield catalog.LEASE.problem(subject, f"different Leases: {spelled}")
        else:
            yield catalog.LEASE.ok(subject, f"{len(held)} share the Lease {distinct.pop()}")
    yield from _shared(schedulers)
    if configurations.DEFAULT_PROFILE not in by_name:
        for one in schedulers:
            if one.configuration is not None:
                yield from default_lease(one.configuration, f"pod {one.pod}")


def _shared(schedulers: Sequence[scheduler_pods.Scheduler]) -> Iterator[doctor_checks.Result]:
    """S12 for each Lease that schedulers with different names have."""
    by_lease: dict[str, dict[frozenset[str], str]] = defaultdict(dict)
    for one in schedulers:
        found = one.configuration
        if found is not None and found.elected:
            by_lease[found.lease].setdefault(_names(found), one.pod)
    for lease, pods in sorted(by_lease.items()):
        if len(pods) > 1:
            spelled = [f"{pod} ({', '.join(sorted(names))})" for names, pod in pods.items()]
            overlap = sum(map(len, pods)) > len(frozenset().union(*pods))
            yield catalog.LEASE.problem(
                f"Lease {lease}",
                f"shared by different schedulers: {plurals.listed(spelled)}",
                # With a name in common, they would place the same pods if each had its own Lease.
                fix="the same profiles in all of them" if overlap else "",
            )


def default_lease(
    configuration: configurations.SchedulerConfiguration, subject: str
) -> Iterator[doctor_checks.Result]:
    """S12 for a scheduler of another name that has the Lease of default-scheduler, which is not seen.

    A managed control plane does not show its kube-scheduler.
    """
    names, lease = _names(configuration), configuration.lease
    usual = configurations.DEFAULT_PROFILE
    if configuration.elected and lease == configurations.DEFAULT_LEASE and usual not in names:
        yield catalog.LEASE.warning(
            subject, f"{', '.join(sorted(names))} has the Lease {lease}, by default that of {usual}"
        )


def _with_live(
    schedulers: Sequence[scheduler_pods.Scheduler],
    live: Sequence[configurations.SchedulerConfiguration],
) -> Sequence[scheduler_pods.Scheduler]:
    """The schedulers, with the running configuration for those whose own was not read.

    Only if these read the same path with the same flags of leader election, which a running configuration
    has in it, and none whose configuration was read has a name of the running one.
    """
    read = [one.configuration for one in schedulers if one.configuration is not None]
    names = {name for one in read for name in _names(one)}
    others = [one for one in live if not names & _names(one)]
    starts = {(one.file, one.election) for one in schedulers if one.configuration is None}
    if len(others) != 1 or len(starts) != 1:
        return schedulers
    return [replace(one, configuration=one.configuration or others[0]) for one in schedulers]


def _names(one: configurations.SchedulerConfiguration) -> frozenset[str]:
    return frozenset(profile.name for profile in one.profiles)


def skew(schedulers: Sequence[scheduler_pods.Scheduler], server: str) -> Iterator[doctor_checks.Result]:
    """S13 for each scheduler; ``server``: the API server's version."""
    api = scheduler_pods.minor_version(server)
    for one in schedulers:
        subject = f"pod {one.pod}"
        if api is None or one.version is None:
            yield catalog.SKEW.unsure(
                subject,
                f"image {one.image}, API server {server or '?'}",
                fix="compare kube-scheduler --version with kubectl version",
            )
            continue
        seen = f"{_spelled(one.version)}, API server {_spelled(api)}"
        behind = api[1] - one.version[1]
        if api[0] != one.version[0] or not 0 <= behind <= 1:
            tag = scheduler_pods.release(server)
            yield catalog.SKEW.problem(subject, seen, fix=f"the image kube-scheduler:{tag}")
        else:
            yield catalog.SKEW.ok(subject, seen)


def current(
    live: configurations.SchedulerConfiguration,
    written: Sequence[configurations.SchedulerConfiguration],
    restarts: Mapping[str, str] = types.MappingProxyType({}),
    *,
    flags_seen: bool = True,
) -> doctor_checks.Result:
    """S14: whether a running configuration equals one of the written ones.

    ``restarts``: source of a written one -> how the kube-scheduler that reads it is restarted.
    ``flags_seen``: the written ones have the flags of leader election of those that read them.
    """
    subject = live.source
    if not written:
        return catalog.CURRENT.unsure(
            subject,
            "there is no file or ConfigMap to compare with",
            fix="add --file with the configuration that it was started with",
        )
    # One source may have several forms, by the flags of those that read it.
    found = [(one.source, differences(live, one)) for one in written]
    replaceable = () if flags_seen else (_ELECTION,)
    source, different = min(found, key=lambda one: (len(set(one[1]).difference(replaceable)), len(one[1])))
    if not different:
        return catalog.CURRENT.ok(subject, f"equal to {source}")
    if different == [_ELECTION] and not flags_seen:
        return catalog.CURRENT.unsure(
            subject,
            f"differs from {source} in {_ELECTION}, which flags replace",
            fix=f"compare {_ELECTION} of {subject} with --leader-elect, --leader-elect-resource-namespace and"
            f" --leader-elect-resource-name of that kube-scheduler; if it has none of them: {_RESTART}",
        )
    return catalog.CURRENT.problem(
        subject,
        f"differs from {source} in {plurals.listed(different)}",
        fix=restarts.get(source, _RESTART),
    )


def differences(
    live: configurations.SchedulerConfiguration, written: configurations.SchedulerConfiguration
) -> list[str]:
    """What differs between a running configuration and a written one, as names of fields."""
    found: list[str] = []
    if [one.name for one in live.profiles] != [one.name for one in written.profiles]:
        found.append("profiles")
    if (live.percentage or 0) != (written.percentage or 0):
        found.append("percentageOfNodesToScore")
    if [one.percentage or 0 for one in live.profiles] != [one.percentage or 0 for one in written.profiles]:
        found.append("percentageOfNodesToScore of profiles")
    if (live.elected, live.lease) != (written.elected, written.lease):
        found.append(_ELECTION)
    if len(live.entries) != len(written.entries):
        return [*found, "extenders"]
    for one, other in zip(live.entries, written.entries, strict=True):
        names = [
            field.name
            for field in fields(configurations.ExtenderEntry)
            if field.name not in ("where", "mistakes")
        ]
        found += [f"{one.where}: {name}" for name in names if getattr(one, name) != getattr(other, name)]
    return found


def calls(waiting: Sequence[WaitingPod], profiles: Collection[str]) -> doctor_checks.Result:
    """S15."""
    subject = "pending pods"
    sent = [one for one in waiting if one.scheduler in profiles]
    silent = [one.key for one in sent if not one.called]
    if not silent:
        return catalog.CALLS.ok(subject, f"{len(sent)} wait, and the log has a call about each")
    return catalog.CALLS.problem(
        subject,
        f"the log has no call about {plurals.listed(silent)}",
        known=dict(zip(("NAMESPACE", "POD"), silent[0].split("/"), strict=True)),
    )


def _spelled(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
