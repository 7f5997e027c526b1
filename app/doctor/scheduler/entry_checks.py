"""Checks of the extender's entry in a configuration of kube-scheduler: S01 to S10, S16 to S18.

What kube-scheduler does with each field was read in pkg/scheduler/extender.go and
pkg/scheduler/apis/config/validation, and tried (docs/design/extender-contract.md).
"""

import ipaddress
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.doctor.scheduler import catalog, configurations
from app.framework import doctor_checks

SAMPLED: Final = 100
"""kube-scheduler offers all nodes to extenders up to this number (minFeasibleNodesToFind)."""
_BIND_MARGIN = 1.0
"""Seconds of httpTimeout beside budgets.bind: for the handshake, and for the reply to arrive."""
_IN_TREE = 100
"""Maximum score of one of kube-scheduler's own plugins with weight 1, and ten times the extender's 10."""

FILTERS: Final = ("filter", "filter_onlyone")
PRIORITIES: Final = ("prioritize", "priority")


@dataclass(frozen=True, slots=True)
class Expected:
    """What the extender's settings and certificate require of the entry."""

    filter_budget: float
    """budgets.filter in seconds."""
    bind_budget: float
    score_max: int
    hosts: tuple[str, ...] = ()
    """Further names and addresses of the extender's Service."""
    names: tuple[str, ...] | None = None
    """The names in the server's certificate; None if it was not seen."""
    unseen: str = ""
    """Why it was not seen."""
    nodes: int | None = None
    """Nodes of the cluster; None if they were not seen."""
    host_network: bool | None = None
    """kube-scheduler runs on the host network without ClusterFirstWithHostNet; None if it was not seen."""


def ours(
    configuration: configurations.SchedulerConfiguration, hosts: Collection[str]
) -> configurations.ExtenderEntry | None:
    """The extender's entry: by its host or server name, else the only one with our verbs, else None."""
    named = [one for one in configuration.entries if _named(one, hosts)]
    alike = [one for one in configuration.entries if one.filter in FILTERS and one.bind == "bind"]
    if named:
        return named[0]
    return alike[0] if len(alike) == 1 else None


def _named(entry: configurations.ExtenderEntry, hosts: Collection[str]) -> bool:
    names = {_host(entry.url), entry.tls.server_name if entry.tls else ""}
    return bool(names & set(hosts)) or any("topolog" in name.partition(".")[0] for name in names)


def present(
    configuration: configurations.SchedulerConfiguration, hosts: Collection[str]
) -> doctor_checks.Result:
    """S01 for one configuration."""
    found = ours(configuration, hosts)
    if found is not None:
        return catalog.PRESENT.ok(configuration.source, f"{found.where} calls {found.url}")
    others = ", ".join(one.url or one.where for one in configuration.entries)
    return catalog.PRESENT.problem(
        configuration.source,
        f"no entry calls the extender; other extenders: {others}" if others else "there is no extender",
    )


def of_entry(
    configuration: configurations.SchedulerConfiguration,
    entry: configurations.ExtenderEntry,
    expected: Expected,
) -> Iterator[doctor_checks.Result]:
    """All other checks of a configuration that has an entry."""
    yield _percentage(configuration, expected.nodes)
    yield _readable(configuration)
    subject = f"{configuration.source}, {entry.where}"
    checks: Sequence[Callable[[str, configurations.ExtenderEntry], doctor_checks.Result]] = (
        _ignorable,
        _preempt,
        _names,
        _transport,
        _verbs,
    )
    yield _binder(subject, entry, configuration)
    yield from (check(subject, entry) for check in checks)
    yield _timeout(subject, entry, expected)
    yield _weight(subject, entry, expected.score_max)
    yield _server_name(subject, entry, expected)
    if entry.managed:
        yield _managed(subject, entry)


# -- of the configuration -----------------------------------------------------------------------


def _percentage(
    configuration: configurations.SchedulerConfiguration, nodes: int | None
) -> doctor_checks.Result:
    low = [
        (one.name, percentage)
        for one in configuration.profiles
        if (percentage := _effective(one, configuration)) < 100
    ]
    if not low:
        return catalog.PERCENTAGE.ok(configuration.source, "percentageOfNodesToScore: 100")
    seen = "; ".join(
        f"percentageOfNodesToScore: {value or 'adaptive'} in profile {name}" for name, value in low
    )
    if nodes is not None and nodes <= SAMPLED:
        return catalog.PERCENTAGE.ok(
            configuration.source, f"{seen}: all nodes are offered, the cluster has {nodes}"
        )
    of = "the number of nodes was not seen" if nodes is None else f"the cluster has {nodes} nodes"
    return catalog.PERCENTAGE.warning(configuration.source, f"{seen}; {of}")


def _effective(profile: configurations.Profile, configuration: configurations.SchedulerConfiguration) -> int:
    own = profile.percentage
    return (own if own is not None else configuration.percentage) or 0


def _readable(configuration: configurations.SchedulerConfiguration) -> doctor_checks.Result:
    mistakes = [f"{one.where}: {each}" for one in configuration.entries for each in one.mistakes]
    if configuration.form == configurations.FILE and configuration.version != configurations.VERSION:
        version = configuration.version or "missing"
        mistakes.insert(0, f"apiVersion is {version}, not {configurations.VERSION}")
    binders = [one.where for one in configuration.entries if one.bind]
    if len(binders) > 1:
        mistakes.append(f"only one extender may have a bindVerb: {', '.join(binders)}")
    if configuration.form == configurations.POLICY:
        return catalog.READ.warning(
            configuration.source,
            "a Policy file, which kube-scheduler reads up to Kubernetes 1.22",
            why="later versions read a KubeSchedulerConfiguration only",
        )
    if mistakes:
        return catalog.READ.problem(configuration.source, "; ".join(mistakes))
    return catalog.READ.ok(
        configuration.source, f"{configuration.version}, {len(configuration.entries)} extenders"
    )


# -- of the entry -------------------------------------------------------------------------------


def _ignorable(subject: str, entry: configurations.ExtenderEntry) -> doctor_checks.Result:
    return (
        catalog.IGNORABLE.problem(subject, "ignorable: true")
        if entry.ignorable
        else catalog.IGNORABLE.ok(subject, "ignorable: false")
    )


def _binder(
    subject: str, entry: configurations.ExtenderEntry, configuration: configurations.SchedulerConfiguration
) -> doctor_checks.Result:
    others = [one for one in configuration.entries if one.bind and one is not entry]
    if not entry.bind:
        by = f"; {others[0].where} ({others[0].url}) binds the pods" if others else ""
        return catalog.BINDER.problem(subject, f"bindVerb is not set{by}")
    if others:
        return catalog.BINDER.problem(
            subject,
            f"{others[0].where} has a bindVerb, too",
            why="kube-scheduler accepts one extender that binds, and exits at the start",
            fix=f"remove bindVerb of {others[0].where}",
        )
    return catalog.BINDER.ok(subject, f"bindVerb: {entry.bind}")


def _preempt(subject: str, entry: configurations.ExtenderEntry) -> doctor_checks.Result:
    if not entry.preempt:
        return catalog.PREEMPT.warning(subject, "preemptVerb is not set")
    return catalog.PREEMPT.ok(subject, f"preemptVerb: {entry.preempt}")


def _names(subject: str, entry: configurations.ExtenderEntry) -> doctor_checks.Result:
    return (
        catalog.NAMES.ok(subject, "nodeCacheCapable: true")
        if entry.names_only
        else catalog.NAMES.warning(subject, "nodeCacheCapable: false")
    )


def _transport(subject: str, entry: configurations.ExtenderEntry) -> doctor_checks.Result:
    tls = entry.tls or configurations.Tls()
    bad, poor = [], []
    if not entry.url.startswith("https://"):
        bad.append("urlPrefix is not https")
    if tls.insecure:
        bad.append("tlsConfig.insecure is true: the extender's certificate is not verified")
    elif not tls.has_ca and entry.https:
        bad.append("enableHTTPS without a CA: the extender's certificate is not verified")
    elif not tls.has_ca:
        poor.append("no CA: the extender's certificate is verified by the CAs of the image")
    certified = tls.cert_file or "certData" in tls.inline
    keyed = tls.key_file or "keyData" in tls.inline
    if not (certified and keyed):
        bad.append(f"no client certificate: {'keyFile' if certified else 'certFile'} is not set")
    if tls.inline:
        poor.append(f"inline: {', '.join(tls.inline)}")
    if bad:
        return catalog.TRANSPORT.problem(subject, "; ".join([*bad, *poor]))
    if poor:
        return catalog.TRANSPORT.warning(subject, "; ".join(poor))
    return catalog.TRANSPORT.ok(subject, f"certificate {tls.cert_file}, CA {tls.ca_file}")


def _verbs(subject: str, entry: configurations.ExtenderEntry) -> doctor_checks.Result:
    allowed = {
        "filterVerb": (entry.filter, FILTERS),
        "prioritizeVerb": (entry.prioritize, PRIORITIES),
        "bindVerb": (entry.bind, ("bind",)),
        "preemptVerb": (entry.preempt, ("preempt",)),
    }
    wrong = [
        f"{field}: {value}" for field, (value, served) in allowed.items() if value and value not in served
    ]
    path = urllib.parse.urlsplit(entry.url).path.rstrip("/")
    if path not in ("", "/api"):
        wrong.append(f"path {path} of urlPrefix")
    if wrong:
        return catalog.VERBS.problem(subject, f"not served: {', '.join(wrong)}")
    if not entry.filter:
        return catalog.VERBS.problem(
            subject,
            "filterVerb is not set",
            why="kube-scheduler never asks which nodes a policy allows: a refusal at bind is repeated"
            " endlessly",
            fix="filterVerb: filter",
        )
    if not entry.prioritize:
        return catalog.VERBS.warning(
            subject,
            "prioritizeVerb is not set",
            why="the scores of policies are not used",
            fix="prioritizeVerb: prioritize",
        )
    return catalog.VERBS.ok(subject, ", ".join(value for value, _ in allowed.values() if value))


def _timeout(subject: str, entry: configurations.ExtenderEntry, expected: Expected) -> doctor_checks.Result:
    if entry.timeout < 0:
        return catalog.TIMEOUT.problem(
            subject,
            "httpTimeout is negative: no timeout",
            why="one call without a reply stops all scheduling permanently",
        )
    needed = max(expected.filter_budget, expected.bind_budget + _BIND_MARGIN)
    seen = (
        f"httpTimeout: {entry.timeout:g} s; budgets.filter {expected.filter_budget:g} s,"
        f" budgets.bind {expected.bind_budget:g} s"
    )
    short = entry.timeout <= expected.filter_budget or entry.timeout < needed
    return catalog.TIMEOUT.problem(subject, seen) if short else catalog.TIMEOUT.ok(subject, seen)


def _weight(subject: str, entry: configurations.ExtenderEntry, score_max: int) -> doctor_checks.Result:
    seen = f"weight: {entry.weight}, plugins.score_max {score_max}"
    if not entry.prioritize:
        return catalog.WEIGHT.ok(subject, f"{seen}: without prioritizeVerb it has no meaning")
    if entry.weight <= 0:
        return catalog.WEIGHT.problem(
            subject, seen, why="kube-scheduler refuses an extender that scores without a positive weight"
        )
    if entry.filter == "filter_onlyone":
        return catalog.WEIGHT.ok(subject, f"{seen}: filter_onlyone leaves one node, so scores do not matter")
    if entry.weight * score_max < _IN_TREE:
        return catalog.WEIGHT.warning(subject, seen)
    return catalog.WEIGHT.ok(subject, seen)


def _managed(subject: str, entry: configurations.ExtenderEntry) -> doctor_checks.Result:
    wanted = [one.name for one in entry.managed if not one.ignored]
    names = ", ".join(one.name for one in entry.managed)
    if wanted:
        return catalog.MANAGED.warning(subject, f"ignoredByScheduler is false for {', '.join(wanted)}")
    return catalog.MANAGED.ok(subject, f"only pods that request {names} are sent to the extender")


def _server_name(
    subject: str, entry: configurations.ExtenderEntry, expected: Expected
) -> doctor_checks.Result:
    host = _host(entry.url)
    called = (entry.tls.server_name if entry.tls else "") or host
    if not host:
        return catalog.NAME.problem(subject, f"urlPrefix {entry.url or '(empty)'} names no host")
    if expected.names is not None and not any(matches(name, called) for name in expected.names):
        names = ", ".join(expected.names) or "none"
        plain = next((name for name in expected.names if "*" not in name), "")
        return catalog.NAME.problem(
            subject,
            f"called as {called}; names of the certificate: {names}",
            fix=f"tlsConfig.serverName: {plain}" if plain else "sign the certificate again with that name",
        )
    if expected.host_network and _of_service(host):
        return catalog.NAME.problem(
            subject,
            f"{host} is the name of a Service, and kube-scheduler runs on the host network, which does not"
            " resolve it",
            fix="urlPrefix with the Service's cluster IP (kubectl get service), serverName as it is; or"
            " dnsPolicy: ClusterFirstWithHostNet",
        )
    if expected.names is None:
        return catalog.NAME.unsure(
            subject,
            f"called as {called}; the extender's certificate was not seen"
            + (f": {expected.unseen}" if expected.unseen else ""),
            fix="topolog doctor scheduler, with the extender's certificate as --server-cert, or with"
            " the right to get its Secret",
        )
    return catalog.NAME.ok(subject, f"{called} is a name of the certificate")


def matches(pattern: str, name: str) -> bool:
    """Whether a name in a certificate covers a name, as Go compares them: ``*`` is one whole first label."""
    if _address(name) or _address(pattern):
        return _address(name) is not None and _address(name) == _address(pattern)
    one, other = pattern.lower().rstrip("."), name.lower().rstrip(".")
    if one.startswith("*."):
        return other.partition(".")[2] == one[2:] and not other.startswith(".")
    return one == other


def _of_service(host: str) -> bool:
    return (
        _address(host) is None
        and (host.endswith((".svc", ".svc.cluster.local")) or "." not in host)
        and (host != "localhost")
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _host(url: str) -> str:
    try:
        return urllib.parse.urlsplit(url).hostname or ""
    except ValueError:
        return ""
