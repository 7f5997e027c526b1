"""Runs the checks of a cluster on what the API server shows."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.doctor import api_reader, own_pods, scheduler_containers, times
from app.doctor.cluster import catalog, checks, network_policies, rights
from app.domain import declared_objects, schema
from app.framework import capabilities, doctor_checks
from app.kube.client import cluster_identity
from app.store.health import doctor
from app.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Expected:
    """What the installation consists of."""

    namespace: str
    kinds: tuple[declared_objects.Kind[Any], ...]
    statuses: frozenset[str]
    """Names of the kinds whose status is written."""
    leases: Mapping[str, str]
    """Process -> name of its Lease."""
    elections: tuple[str, ...]
    """Namespaces in which the Leases may be."""
    evicting: tuple[str, ...] | api_reader.Unseen = ()
    """Names of the plugins whose arguments request evictions."""
    cluster: str = ""
    """Name of the cluster in the store."""
    ownership: doctor.Ownership | api_reader.Unseen | None = None
    """Whose log the store holds; None: not asked."""


def expected(
    classes: Sequence[type[capabilities.Plugin]],
    declared: schema.Schema,
    *,
    namespace: str,
    leases: Mapping[str, str],
    elections: Sequence[str],
) -> Expected:
    """What plugins and settings require of a cluster."""
    made = [plugin() for plugin in classes]
    written = (name for one in made if isinstance(one, capabilities.Reconciles) for name in one.statuses)
    return Expected(namespace, tuple(declared.kinds), frozenset(written), leases, tuple(elections))


def examine(
    reader: api_reader.ApiReader, wanted: Expected, now: datetime.datetime
) -> Iterator[doctor_checks.Result]:
    """All checks; what cannot be read is unsure, check by check."""
    yield from each(
        (catalog.VERSION,), lambda: [checks.version(str(reader.get("/version").get("gitVersion", "")))]
    )
    yield from each((catalog.RIGHTS, catalog.EXCESS), lambda: _permissions(reader, wanted))
    yield from each((catalog.EVICTIONS,), lambda: _evictions(reader, wanted))
    yield from each((catalog.DEFINITIONS,), lambda: definitions(reader, wanted))
    yield from each((catalog.IDENTITY,), lambda: _identity(reader, wanted))
    pods = api_reader.seen(lambda: own_pods.of_installation(reader, wanted.namespace))
    if isinstance(pods, api_reader.Unseen):
        yield from pods.unsure((catalog.PODS, catalog.SPREAD))
    else:
        yield from _of_pods(reader, wanted.namespace, pods, now)
    own = pods if isinstance(pods, api_reader.Unseen) else [pod for pod in pods if own_pods.is_own(pod)]
    known = [] if isinstance(own, api_reader.Unseen) else own
    yield from each((catalog.LEASES,), lambda: _leases(reader, wanted, now, known))
    policies = f"/apis/networking.k8s.io/v1/namespaces/{wanted.namespace}/networkpolicies"
    yield from each((catalog.ADDRESSES,), lambda: list(network_policies.addresses(reader.items(policies))))
    yield from each((catalog.SCRAPES,), lambda: _scrapes(reader, policies, own))


def _of_pods(
    reader: api_reader.ApiReader, namespace: str, pods: Sequence[Mapping[str, Any]], now: datetime.datetime
) -> Iterator[doctor_checks.Result]:
    """C06 for each pod of the installation, and C07."""
    warnings = _warnings(reader, f"/api/v1/namespaces/{namespace}/events")
    yield from checks.pods(pods, warnings, now, revisions=_revisions(reader, namespace))
    own = [pod for pod in pods if own_pods.is_own(pod)]
    if not own:
        outside = "not applicable where Topolog runs outside the cluster (--skip C06 --skip C07)"
        none = api_reader.Unseen(
            f"namespace {namespace} has no pod of Topolog", f"{_other_namespaces(reader)}; {outside}"
        )
        yield from none.unsure((catalog.PODS, catalog.SPREAD))
        return
    extenders = [
        pod for pod in own if own_pods.component(pod) == metrics.EXTENDER and not own_pods.terminates(pod)
    ]
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    yield from each((catalog.SPREAD,), lambda: [checks.spread(extenders, reader.items(path))])


_OUTSIDE = "the user of the kubeconfig"


def _other_namespaces(reader: api_reader.ApiReader) -> str:
    """How an installation in another namespace is named; by its Deployments, which are fewer than pods."""
    every = api_reader.seen(lambda: reader.items("/apis/apps/v1/deployments"))
    found = set() if isinstance(every, api_reader.Unseen) else {*_namespaces(every)}
    if not found:
        return "name the namespace of Topolog's pods with --namespace"
    return " or ".join(f"--namespace {one}" for one in sorted(found))


def _namespaces(deployments: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (str(one["metadata"]["namespace"]) for one in deployments if own_pods.belongs(one))


@dataclass(frozen=True, slots=True)
class Account:
    """A service account of Topolog's namespace."""

    name: str
    user: str
    processes: tuple[str, ...]
    """Those that run as it."""
    scheduler: bool
    """A kube-scheduler runs as it, too."""


def _permissions(reader: api_reader.ApiReader, wanted: Expected) -> list[doctor_checks.Result]:
    """For each service account of the processes; without any, for the user of the kubeconfig."""
    needed = rights.needed(wanted.kinds, wanted.statuses, namespace=wanted.elections[0], leases=wanted.leases)
    found: list[doctor_checks.Result] = []
    for one in _accounts(reader, wanted.namespace):
        own = dict.fromkeys(right for process in one.processes for right in needed[process])
        lacking = [right for right in own if not reader.allowed(right.attributes(), one.user)]
        harmful = [right for right in rights.EXCESS if not (one.scheduler and right in rights.SCHEDULER)]
        # The widest that is granted: one of every namespace includes the narrower one.
        widest = (
            next((each for each in asked if reader.allowed(each.attributes(), one.user)), None)
            for asked in (rights.within(right, wanted.namespace) for right in harmful)
        )
        excess = [right for right in widest if right is not None]
        found += checks.permissions(
            f"service account {one.name}", lacking, excess, account=one.name, scheduler=one.scheduler
        )
    if not found:
        every = list(dict.fromkeys(one for own in needed.values() for one in own))
        lacking = [one for one in every if not reader.allowed(one.attributes())]
        found = [next(checks.permissions(_OUTSIDE, lacking, ()))]
    return found


def _evictions(reader: api_reader.ApiReader, wanted: Expected) -> list[doctor_checks.Result]:
    """C10, for the users that `_permissions` asks about. Raises Unseen."""
    if isinstance(wanted.evicting, api_reader.Unseen):
        raise wanted.evicting
    found = [
        checks.evictions(
            f"service account {one.name}",
            wanted.evicting,
            allowed=reader.allowed(rights.EVICT.attributes(), one.user),
        )
        for one in _accounts(reader, wanted.namespace)
        if metrics.CONTROLLER in one.processes
    ]
    if not found:
        # The rights of a person are not in excess because the controller does not use them.
        allowed = bool(wanted.evicting) and reader.allowed(rights.EVICT.attributes())
        found = [checks.evictions(_OUTSIDE, wanted.evicting, allowed=allowed)]
    return found


def _accounts(reader: api_reader.ApiReader, namespace: str) -> list[Account]:
    """The service accounts of the pods of each process; of a process without pods, that of deploy/rbac.

    Without a pod and an account, a process runs outside the cluster. Raises Unseen.
    """
    accounts = reader.items(f"/api/v1/namespaces/{namespace}/serviceaccounts")
    there = {str(one["metadata"]["name"]) for one in accounts}
    pods = own_pods.of_namespace(reader, namespace)
    processes: dict[str, list[str]] = {}
    for process in metrics.PROCESSES:
        used = dict.fromkeys(own_pods.account(pod) for pod in pods if own_pods.component(pod) == process)
        for name in used or {f"topolog-{process}"} & there:
            processes.setdefault(name, []).append(process)
    scheduling = {own_pods.account(pod) for pod in pods if scheduler_containers.runs_in(pod)}
    return [
        Account(name, f"system:serviceaccount:{namespace}:{name}", tuple(found), name in scheduling)
        for name, found in processes.items()
    ]


def definitions(reader: api_reader.ApiReader, wanted: Expected) -> list[doctor_checks.Result]:
    """C04. Raises Unseen."""
    found = []
    for kind in wanted.kinds:
        if "." not in kind.group or kind.group.endswith(".k8s.io"):
            continue  # Kubernetes has it.
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.resource}.{kind.group}"
        found.append(checks.definition(kind, _or_none(reader, path), wanted.statuses))
    return found


def _identity(reader: api_reader.ApiReader, wanted: Expected) -> list[doctor_checks.Result]:
    stored = wanted.ownership
    if isinstance(stored, api_reader.Unseen):
        raise stored
    if stored is None:
        return []
    here = str(reader.get(cluster_identity.PATH)["metadata"].get("uid", ""))
    return [checks.identity(wanted.cluster, stored.kubernetes, here)]


def _scrapes(
    reader: api_reader.ApiReader, policies: str, own: Sequence[Mapping[str, Any]] | api_reader.Unseen
) -> list[doctor_checks.Result]:
    """C11, where there are pods. Raises Unseen."""
    if isinstance(own, api_reader.Unseen):
        raise own
    if not own:
        return []
    found = reader.items(policies)
    # Without a policy, nothing selects a namespace.
    namespaces = reader.items("/api/v1/namespaces") if found else []
    return [network_policies.scrapes(found, own, namespaces)]


def _warnings(reader: api_reader.ApiReader, path: str) -> dict[str, str]:
    """Name of a pod -> its latest warning; empty if Events may not be read."""
    try:
        found = reader.items(path)
    except api_reader.Unseen:
        return {}
    warnings = [one for one in found if one.get("type") == "Warning" and one.get("involvedObject")]
    warnings.sort(key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
    return {
        str(one["involvedObject"].get("name", "")): f"{one.get('reason', '')}: {one.get('message', '')}"
        for one in warnings
    }


def _revisions(reader: api_reader.ApiReader, namespace: str) -> dict[str, str]:
    """Name of a StatefulSet -> the revision of its template; empty if StatefulSets may not be read."""
    found = api_reader.seen(lambda: reader.items(f"/apis/apps/v1/namespaces/{namespace}/statefulsets"))
    if isinstance(found, api_reader.Unseen):
        return {}
    statuses = ((str(one["metadata"]["name"]), one.get("status") or {}) for one in found)
    return {name: str(status["updateRevision"]) for name, status in statuses if "updateRevision" in status}


def _leases(
    reader: api_reader.ApiReader,
    wanted: Expected,
    now: datetime.datetime,
    own: Sequence[Mapping[str, Any]],
) -> list[doctor_checks.Result]:
    group = "/apis/coordination.k8s.io/v1/namespaces"
    found = []
    stored = wanted.ownership
    epoch = stored.epoch if isinstance(stored, doctor.Ownership) else ""
    for process, name in wanted.leases.items():
        there = (_or_none(reader, f"{group}/{each}/leases/{name}") for each in wanted.elections)
        found.append(
            checks.lease(
                name,
                next((one for one in there if one is not None), None),
                now,
                process=process,
                namespace=wanted.namespace,
                age=_age(own, process, now),
                epoch=epoch if process == metrics.RECORDER else "",
            )
        )
    return found


def _age(pods: Sequence[Mapping[str, Any]], process: str, now: datetime.datetime) -> float | None:
    """Seconds since the oldest pod of a process was started; None if it has no started pod."""
    starts = [
        start
        for pod in pods
        if own_pods.component(pod) == process
        and (start := times.seconds(str((pod.get("status") or {}).get("startTime", ""))))
    ]
    return now.timestamp() - min(starts) if starts else None


def _or_none(reader: api_reader.ApiReader, path: str) -> Mapping[str, Any] | None:
    try:
        return reader.get(path)
    except api_reader.Missing:
        return None


def each(
    found: Sequence[doctor_checks.Check], run: Callable[[], list[doctor_checks.Result]]
) -> Iterator[doctor_checks.Result]:
    """The results, or all of these checks as unsure."""
    results = api_reader.seen(run)
    if isinstance(results, api_reader.Unseen):
        yield from results.unsure(found)
    else:
        yield from results
