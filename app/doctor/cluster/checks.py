"""Checks of a cluster: pure functions of objects of the API server."""

import datetime
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from app import plurals
from app.doctor import own_pods, times
from app.doctor.cluster import catalog, rights
from app.domain import declared_objects, selectors
from app.framework import doctor_checks
from app.store.log import incarnations

Object = Mapping[str, Any]

OLDEST: Final = (1, 34)
NEWEST: Final = (1, 37)
"""Minor versions of Kubernetes: the oldest supported one, and the newest that was tested."""
UNDEFINED: Final = "is not defined"
_UNPROVEN = "whether a kind exists stays unknown where it does not, and extenders are not ready"
_BIND = (
    "bind the ClusterRoles and Roles of deploy/rbac to this user (kubectl create clusterrolebinding, kubectl"
    " create rolebinding)"
)
_BIND_SCHEDULER = (
    "kubectl apply -f deploy/components/sidecar/rbac.yaml, or helm upgrade: ClusterRoleBinding and"
    " RoleBinding {0} grant it"
)
_OUTDATED = "its StatefulSet replaces no pod that is not ready, so that a corrected template has no effect"
_REPLACE = "kubectl -n NAMESPACE delete pod POD"
_RESTARTS = 5
_SECONDS_BEYOND = 30.0
"""How long a Lease or the end of a pod may be overdue: either takes a moment, and clocks differ."""


def version(text: str) -> doctor_checks.Result:
    """C01."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    if found is None:
        return catalog.VERSION.unsure("API server", f"version {text or '?'}", fix="kubectl version")
    number = (int(found[1]), int(found[2]))
    spelled = " to ".join(f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    if not OLDEST <= number <= NEWEST:
        return catalog.VERSION.warning("API server", f"{text}; tested are {spelled}")
    return catalog.VERSION.ok("API server", text)


def permissions(
    subject: str,
    lacking: Sequence[rights.Right],
    excess: Sequence[rights.Right],
    *,
    account: str = "",
    scheduler: bool = False,
) -> Iterator[doctor_checks.Result]:
    """C02 and C03 for one service account; for the user of the kubeconfig, ``account`` is empty.

    ``scheduler``: a kube-scheduler has the account, too.
    """
    bound = _BIND_SCHEDULER.format(account) if scheduler else ""
    if lacking:
        yield catalog.RIGHTS.problem(
            subject,
            f"may not {plurals.listed(list(map(str, lacking)))}",
            why=_UNPROVEN if set(lacking) <= {*rights.DISCOVERY} else "",
            fix=bound if account else _BIND,
            known={"PROCESS": account},
        )
    else:
        yield catalog.RIGHTS.ok(subject, "has all permissions that it uses")
    if excess:
        yield catalog.EXCESS.warning(subject, f"may {plurals.listed(list(map(str, excess)))}")
    else:
        yield catalog.EXCESS.ok(subject, "has none of the permissions that do harm")


def evictions(subject: str, requesting: Sequence[str], *, allowed: bool) -> doctor_checks.Result:
    """C10; ``requesting``: names of the plugins whose arguments request evictions."""
    names = ", ".join(requesting)
    if requesting and not allowed:
        return catalog.EVICTIONS.problem(subject, f"may not {rights.EVICT}, which {names} requests")
    if allowed and not requesting:
        return catalog.EVICTIONS.warning(
            subject,
            f"may {rights.EVICT}, and these settings request no eviction",
            why="a right that is not used can only do harm",
            fix="remove deploy/components/evictions, or check with the settings of the controller",
        )
    return catalog.EVICTIONS.ok(subject, f"evicts for {names}" if names else "these settings request none")


def definition(
    kind: declared_objects.Kind[Any], found: Object | None, written: Collection[str]
) -> doctor_checks.Result:
    """C04; ``found``: None if there is no definition; ``written``: kinds whose status is written."""
    subject = f"{kind.resource}.{kind.group}"
    if found is None:
        if kind.optional:
            return catalog.DEFINITIONS.ok(subject, "is not installed, and counts as empty")
        return catalog.DEFINITIONS.problem(subject, UNDEFINED)
    served = {one["name"]: one for one in found["spec"]["versions"] if one.get("served")}
    chosen = next((name for name in kind.versions if name in served), None)
    if chosen is None:
        return catalog.DEFINITIONS.problem(
            subject, f"serves {', '.join(sorted(served)) or 'no version'}, not {' or '.join(kind.versions)}"
        )
    if kind.name in written and "status" not in (served[chosen].get("subresources") or {}):
        return catalog.DEFINITIONS.warning(
            subject,
            f"{chosen} has no status subresource",
            why="kubectl get and kubectl wait show nothing of its state",
        )
    return catalog.DEFINITIONS.ok(subject, chosen)


def identity(name: str, stored: str, here: str) -> doctor_checks.Result:
    """C05. ``stored``, ``here``: UIDs of kube-system, of the cluster of the log and of this one."""
    subject = f"store, cluster {name}"
    if not stored:
        return catalog.IDENTITY.ok(subject, "no recorder has claimed it yet")
    if stored != here:
        return catalog.IDENTITY.problem(subject, f"the log is that of cluster {stored}; this one is {here}")
    return catalog.IDENTITY.ok(subject, f"kube-system has UID {here}")


def pods(
    found: Sequence[Object],
    events: Mapping[str, str],
    now: datetime.datetime,
    *,
    revisions: Mapping[str, str],
) -> Iterator[doctor_checks.Result]:
    """C06 for each pod of the installation.

    ``events``: name of a pod -> its latest warning. ``revisions``: name of a StatefulSet -> that of its
    current template.
    """
    for pod in found:
        subject = f"pod {pod['metadata']['name']}"
        known = {"NAMESPACE": str(pod["metadata"]["namespace"]), "POD": str(pod["metadata"]["name"])}
        status = pod.get("status") or {}
        if own_pods.terminates(pod):
            yield _terminating(pod, subject, known, now)
            continue
        statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        waiting = [
            ": ".join(filter(None, (one.get("name"), reason.get("reason"), reason.get("message"))))
            for one in statuses
            if (reason := (one.get("state") or {}).get("waiting"))
            and reason.get("reason") not in ("PodInitializing", "ContainerCreating")
        ]
        unplaced = [
            str(one.get("message", ""))
            for one in status.get("conditions") or ()
            if one.get("type") == "PodScheduled" and one.get("status") == "False"
        ]
        ready = any(
            one.get("type") == "Ready" and one.get("status") == "True"
            for one in status.get("conditions") or ()
        )
        restarts = sum(int(one.get("restartCount", 0)) for one in statuses)
        if waiting or unplaced or not ready:
            # A volume whose Secret is missing is shown by an Event only.
            last = events.get(pod["metadata"]["name"], "")
            unready = f"{status.get('phase', 'Pending')}, not ready{f': {last}' if last else ''}"
            seen = "; ".join([*waiting, *unplaced]) or unready
            outdated = own_pods.outdated(pod, revisions)
            yield catalog.PODS.problem(
                subject,
                seen[:300],
                why=_OUTDATED if outdated else "",
                fix=_REPLACE if outdated else "",
                known=known,
            )
        elif restarts > _RESTARTS:
            yield catalog.PODS.warning(
                subject, f"ready, {restarts} restarts", why="it ends again and again", known=known
            )
        else:
            yield catalog.PODS.ok(subject, f"ready, {restarts} restarts")


def _terminating(
    pod: Object, subject: str, known: Mapping[str, str], now: datetime.datetime
) -> doctor_checks.Result:
    """C06 of a deleted pod. Its deletionTimestamp is the end of its grace period."""
    text = str(pod["metadata"]["deletionTimestamp"])
    until = times.seconds(text)
    if not until:
        return catalog.PODS.unsure(
            subject, f"terminates; {text[:80]!r} is not a time", fix="repeat the check once it has ended"
        )
    overdue = now.timestamp() - until
    if overdue > _SECONDS_BEYOND:
        return catalog.PODS.warning(
            subject,
            f"terminates, and should have ended {overdue:.0f} s ago",
            why="the kubelet of its node has not confirmed its end, and a StatefulSet waits for that",
            known=known,
        )
    return catalog.PODS.ok(subject, "terminates")


def spread(extenders: Sequence[Object], budgets: Sequence[Object]) -> doctor_checks.Result:
    """C07; ``budgets``: the PodDisruptionBudgets of the namespace."""
    nodes = {str(pod["spec"].get("nodeName", "")) for pod in extenders} - {""}
    wrong = []
    if len(extenders) < 2:
        wrong.append(plurals.counted(len(extenders), "extender"))
    elif len(nodes) < 2:
        wrong.append(f"{len(extenders)} extenders on {', '.join(nodes) or 'no node'}")
    if extenders and not any(_covers(budget, pod) for budget in budgets for pod in extenders):
        wrong.append("no PodDisruptionBudget")
    if any(not pod["spec"].get("priorityClassName") for pod in extenders):
        wrong.append("no priorityClassName")
    if wrong:
        return catalog.SPREAD.warning("extenders", ", ".join(wrong))
    return catalog.SPREAD.ok("extenders", f"{len(extenders)} on {len(nodes)} nodes")


def lease(
    name: str,
    found: Object | None,
    now: datetime.datetime,
    *,
    process: str,
    namespace: str,
    age: float | None = None,
    epoch: str = "",
) -> doctor_checks.Result:
    """C08 for one Lease; ``found``: None if it does not exist.

    ``process``, ``namespace``: which renews it, and where its pods run. ``age``: seconds since the oldest of
    these pods was started; None if there is none. ``epoch``: that of the store, if the Lease is the one that
    its epochs come from.
    """
    subject = f"Lease {name}"
    known = {"NAMESPACE": namespace, "PROCESS": process}
    spec = (found or {}).get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), times.seconds(str(spec.get("renewTime") or ""))
    patience = float(spec.get("leaseDurationSeconds", 15)) + _SECONDS_BEYOND
    overdue = now.timestamp() - renewed if holder and renewed else None
    if (overdue is None or overdue > patience) and age is not None and age < patience:
        # A process that was installed once more finds the Lease of its predecessor, which released nothing.
        return catalog.LEASES.unsure(
            subject,
            f"not renewed yet; the {process} runs for {age:.0f} s, and takes over within {patience:.0f} s",
            fix=f"repeat the check in {patience - age:.0f} s",
        )
    if not found or overdue is None:
        seen = "does not exist" if not found else "is held by no process"
        return catalog.LEASES.problem(subject, seen, known=known)
    if overdue > patience:
        return catalog.LEASES.problem(subject, f"{holder} renewed it {overdue:.0f} s ago", known=known)
    behind = _behind(str(found["metadata"].get("resourceVersion", "")), epoch)
    if behind:
        return catalog.LEASES.problem(
            subject,
            behind,
            why="appends of the leader are refused",
            fix="topolog adopt, if etcd was restored",
        )
    return catalog.LEASES.ok(subject, f"held by {holder}")


def _behind(version: str, epoch: str) -> str:
    """Why a Lease of this resourceVersion has an older epoch than the store; empty if it has not."""
    if not (version.isdigit() and epoch.isdigit()):
        return ""
    if int(incarnations.epoch(version, epoch)) < int(epoch):
        return f"its resourceVersion {version} is behind the epoch {epoch} of the store"
    return ""


def _covers(budget: Object, pod: Object) -> bool:
    """Whether a budget selects a pod; without a selector it selects none, and an empty one selects all."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    return selectors.matches(selectors.decoded(selector), pod["metadata"].get("labels") or {})
