"""Runs the checks of kube-scheduler on what was read: files, /configz, and the pods of a cluster."""

import base64
import binascii
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cryptography import x509

from app.doctor import api_reader, own_pods
from app.doctor.scheduler import (
    catalog,
    configurations,
    entry_checks,
    feature_gates,
    fleet_checks,
    known_schedulers,
    log_evidence,
    scheduler_pods,
    testimony,
)
from app.domain import model
from app.framework import doctor_checks
from app.kube import errors
from app.kube.objects import decoding
from app.serving.tls import certificate_checks

_SERVICE = "topolog-extender"
_SECRET = "topolog-tls"
_MOST_WAITING = 10
"""Pending pods that are compared with the log."""
_RESTART = "restart the kube-scheduler that reads it"


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """What the checks start from, besides the cluster."""

    expected: entry_checks.Expected
    written: tuple[configurations.SchedulerConfiguration, ...] = ()
    """Read from files."""
    live: tuple[configurations.SchedulerConfiguration, ...] = ()
    """Answers of /configz."""
    namespace: str = "topolog-system"
    interested: Callable[[model.Pod], bool] = lambda _: True
    """Whether a plugin is interested in a pod."""
    called: Callable[[str], bool] = lambda _: False
    """Whether the log has a call about the pod NAMESPACE/NAME; raises Unseen."""
    log: testimony.Source | None = None
    """An extender, whose log is compared with the configurations."""


def of_files(given: Given) -> list[doctor_checks.Result]:
    """The checks that configurations alone can answer, and those of an extender's log if one is named."""
    found = [*given.written, *given.live]
    log = _gathered(given, None, None)
    seen = known_schedulers.Seen(tuple((one, None) for one in found), given.expected, (), log)
    results = list(_of_configurations(seen)) if found else []
    results += [result for one in found for result in fleet_checks.default_lease(one, one.source)]
    if isinstance(log, api_reader.Unseen):
        results += log.unsure(log_evidence.SHOWN)
    if given.written:
        results += [fleet_checks.current(one, given.written, flags_seen=False) for one in given.live]
    return results


def without_cluster(given: Given, unseen: api_reader.Unseen) -> list[doctor_checks.Result]:
    """The checks that can be made although the cluster's schedulers are not seen."""
    found = [*given.written, *given.live]
    log = _gathered(given, None, None)
    seen = known_schedulers.Seen(tuple((one, None) for one in found), given.expected, (), log)
    return [
        *(_of_configurations(seen) if found or seen.nevertheless() else _silent(seen, unseen.reason)),
        *unseen.unsure((catalog.PRESENT, *catalog.NEED_THE_CLUSTER)),
    ]


def of_cluster(given: Given, reader: api_reader.ApiReader) -> list[doctor_checks.Result]:
    """All checks, on the kube-schedulers of a cluster and on the given configurations."""
    expected = _completed(given, reader)
    schedulers = api_reader.seen(lambda: scheduler_pods.schedulers(reader))
    if isinstance(schedulers, api_reader.Unseen):
        return without_cluster(given, schedulers)
    found = [
        *((one.configuration, one) for one in _distinct(schedulers)),
        *((one, None) for one in (*given.written, *given.live)),
    ]
    pairs = [(configuration, one) for configuration, one in found if configuration is not None]
    seen = known_schedulers.Seen(
        tuple(pairs), expected, tuple(schedulers), _gathered(given, reader, expected.nodes)
    )
    results = list(_of_configurations(seen))
    profiles = {profile.name for configuration, _ in seen.calling() for profile in configuration.profiles}
    profiles |= seen.nevertheless().keys()
    own = _own_pods(reader, given.namespace)
    unread = seen.unread({one.scheduler for one in own})
    results.append(fleet_checks.own_pods(own, profiles, unread))
    results += fleet_checks.leases(schedulers, given.live)
    version = api_reader.seen(lambda: str(reader.get("/version").get("gitVersion", "")))
    callers = [one for one in schedulers if _calls(one, expected) or one.configuration is None]
    if isinstance(version, api_reader.Unseen):
        results += version.unsure((catalog.SKEW,))
    else:
        results += fleet_checks.skew(callers, version)
    if given.live:
        written = [one.configuration for one in schedulers if one.configuration is not None]
        restarts = {
            one.configuration.source: one.restart for one in schedulers if one.configuration is not None
        }
        results += [fleet_checks.current(one, written, restarts) for one in given.live]
    results += _gangs(callers, given.live, version, reader)
    results += _waiting(given, reader, profiles, seen)
    return results


def forward(reader: api_reader.ApiReader) -> str:
    """How a workstation asks the cluster's kube-scheduler for its configuration; empty if none is seen."""
    found = api_reader.seen(lambda: scheduler_pods.schedulers(reader))
    return "" if isinstance(found, api_reader.Unseen) or not found else scheduler_pods.forward(found[0])


def calling(reader: api_reader.ApiReader, namespace: str) -> frozenset[str] | None:
    """The names by which pods select a scheduler that calls the extender; None if that cannot be seen."""
    schedulers = api_reader.seen(lambda: scheduler_pods.schedulers(reader))
    if isinstance(schedulers, api_reader.Unseen):
        return None
    hosts = _hosts(namespace)
    found = [one.configuration for one in schedulers if one.configuration is not None]
    names = frozenset(
        profile.name for one in found if entry_checks.ours(one, hosts) for profile in one.profiles
    )
    return names or None


# -- the cluster --------------------------------------------------------------------------------


def _completed(given: Given, reader: api_reader.ApiReader) -> entry_checks.Expected:
    """What is expected, with what the cluster shows of nodes, Service and certificate."""
    expected = given.expected
    nodes = api_reader.seen(lambda: len(reader.items("/api/v1/nodes")))
    prefix = f"/api/v1/namespaces/{given.namespace}"
    service = api_reader.seen(lambda: reader.get(f"{prefix}/services/{_SERVICE}"))
    hosts = [*expected.hosts, *_hosts(given.namespace)]
    if not isinstance(service, api_reader.Unseen):
        hosts += [str(address) for address in service.get("spec", {}).get("clusterIPs") or ()]
    names, unseen = expected.names, expected.unseen
    if names is None:
        secret = api_reader.seen(lambda: reader.get(f"{prefix}/secrets/{_SECRET}"))
        if isinstance(secret, api_reader.Unseen):
            unseen = secret.reason
        else:
            names = _names(str(secret.get("data", {}).get("tls.crt", "")))
    return dataclasses.replace(
        expected,
        hosts=tuple(hosts),
        nodes=None if isinstance(nodes, api_reader.Unseen) else nodes,
        names=names,
        unseen=unseen,
    )


def _hosts(namespace: str) -> tuple[str, ...]:
    return tuple(f"{_SERVICE}.{namespace}{end}" for end in ("", ".svc", ".svc.cluster.local"))


def _names(encoded: str) -> tuple[str, ...] | None:
    try:
        return certificate_checks.hosts(x509.load_pem_x509_certificate(base64.b64decode(encoded)))
    except (ValueError, binascii.Error):
        return None


def _own_pods(reader: api_reader.ApiReader, namespace: str) -> list[fleet_checks.OwnPod]:
    return [
        fleet_checks.OwnPod(
            f"{namespace}/{pod['metadata']['name']}",
            str(pod["spec"].get("schedulerName", "default-scheduler")),
        )
        for pod in reader.items("/api/v1/pods")
        if pod["metadata"].get("namespace") == namespace and own_pods.is_own(pod)
    ]


def _gangs(
    schedulers: Sequence[scheduler_pods.Scheduler],
    live: Sequence[configurations.SchedulerConfiguration],
    server: str | api_reader.Unseen,
    reader: api_reader.ApiReader,
) -> Iterator[doctor_checks.Result]:
    """S19; a kube-scheduler whose version is not seen is taken for one of the API server's."""
    usual = None if isinstance(server, api_reader.Unseen) else scheduler_pods.minor_version(server)
    found = [(f"pod {one.pod}", one.gangs, one.version or usual) for one in schedulers]
    for subject, gate, version in (*found, *((one.source, one.gangs, usual) for one in live)):
        result = feature_gates.agreement(subject, gate, version, reader)
        if result is not None:
            yield result


def _waiting(
    given: Given, reader: api_reader.ApiReader, profiles: set[str], seen: known_schedulers.Seen
) -> Iterator[doctor_checks.Result]:
    pending = [
        found
        for item in reader.items("/api/v1/pods")
        if not (item["spec"].get("nodeName") or _refused(item))
        if (found := _decoded(item)) is not None and found.pending and given.interested(found)
    ]
    pods = sorted((one for one in pending if one.scheduler in profiles), key=lambda pod: pod.created)
    if not pods:
        unread = seen.unread({one.scheduler for one in pending})
        if unread is None:
            yield catalog.CALLS.ok("pending pods", "none waits for a call of a scheduler")
        else:
            yield catalog.CALLS.unsure("pending pods", unread.reason, fix=unread.fix)
        return
    try:
        waiting = [
            fleet_checks.WaitingPod(pod.key, pod.scheduler, given.called(pod.key))
            for pod in pods[:_MOST_WAITING]
        ]
    except api_reader.Unseen as unseen:
        yield catalog.CALLS.unsure("pending pods", unseen.reason, fix=unseen.fix)
        return
    yield fleet_checks.calls(waiting, profiles)


def _refused(item: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler has tried the pod and found no node.

    If its own plugins refuse every node, it does not call the extender, and no call is missing. An extender
    that it cannot reach is another reason: SchedulerError.
    """
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(
        one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions
    )


def _decoded(item: object) -> model.Pod | None:
    try:
        return decoding.pod(json.dumps(item).encode())
    except errors.Undecodable:
        return None


# -- configurations -----------------------------------------------------------------------------


def _gathered(
    given: Given, reader: api_reader.ApiReader | None, nodes: int | None
) -> log_evidence.LogEvidence | api_reader.Unseen | None:
    """What the log shows of the schedulers of a cluster."""
    source = given.log
    if source is None:
        return None
    pods = api_reader.seen(lambda: reader.items("/api/v1/pods")) if reader is not None else []
    return api_reader.seen(
        lambda: testimony.gather(
            source,
            nodes=nodes,
            pods=[] if isinstance(pods, api_reader.Unseen) else pods,
            interested=lambda item: (found := _decoded(item)) is not None and given.interested(found),
        )
    )


def _of_configurations(seen: known_schedulers.Seen) -> Iterator[doctor_checks.Result]:
    calling, others, hosts = seen.calling(), seen.nevertheless(), seen.expected.hosts
    for configuration, _ in seen.pairs:
        result = entry_checks.present(configuration, hosts)
        calls = [others[one.name] for one in configuration.profiles if one.name in others]
        if calls:
            yield log_evidence.called_nevertheless(result, calls[0])
        elif not (calling or others):
            yield result
    if not (calling or others):
        yield from _unsure(seen)
    for configuration, scheduler in calling:
        yield entry_checks.present(configuration, hosts)
        entry = entry_checks.ours(configuration, hosts)
        if entry is not None:
            unresolving = scheduler.unresolving if scheduler else None
            known = dataclasses.replace(seen.expected, host_network=unresolving)
            results = list(entry_checks.of_entry(configuration, entry, known))
            log = seen.concerning(configuration)
            yield from log_evidence.confronted(
                results,
                log.of_sent() if entry.managed else log,
                restart=scheduler.restart if scheduler else _RESTART,
            )
    for name, log in others.items():
        yield from log_evidence.alone(log, name, fix=seen.reading())


def _unsure(seen: known_schedulers.Seen) -> Iterator[doctor_checks.Result]:
    """What neither a configuration nor the log shows."""
    unread = [one for one in seen.schedulers if one.configuration is None]
    for one in unread:
        yield catalog.PRESENT.unsure(f"pod {one.pod}", one.unseen, fix=known_schedulers.reading(one))
    if not seen.pairs and not seen.schedulers:
        yield catalog.PRESENT.unsure("kube-scheduler", known_schedulers.ABSENT, fix=known_schedulers.NAMED)
    if unread or not seen.pairs:
        yield from _silent(seen, unread[0].unseen if unread else known_schedulers.ABSENT)


def _silent(seen: known_schedulers.Seen, reason: str) -> Iterator[doctor_checks.Result]:
    """S02, S03, S04 and S07 if no configuration was read, for this reason, and the log has no call."""
    fix, why = seen.reading(), "the log has no call"
    if isinstance(seen.log, api_reader.Unseen):
        fix, why = f"{fix}; or {seen.log.fix}", seen.log.reason
    if seen.log is not None:
        for check in log_evidence.SHOWN:
            yield check.unsure("kube-scheduler", f"{reason}; {why}", fix=fix)


def _distinct(schedulers: Sequence[scheduler_pods.Scheduler]) -> list[scheduler_pods.Scheduler]:
    """One scheduler for each source of a configuration: the replicas of one Deployment share it."""
    found: dict[tuple[str, bool], scheduler_pods.Scheduler] = {}
    for one in schedulers:
        if one.configuration is not None:
            found.setdefault((one.configuration.source, one.unresolving), one)
    return list(found.values())


def _calls(scheduler: scheduler_pods.Scheduler, expected: entry_checks.Expected) -> bool:
    found = scheduler.configuration
    return found is not None and entry_checks.ours(found, expected.hosts) is not None
