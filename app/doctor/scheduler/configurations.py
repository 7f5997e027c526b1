"""The parts of a KubeSchedulerConfiguration that matter to an extender, read from each of its forms.

The forms are those of a file (kubescheduler.config.k8s.io/v1), of the same text inside a ConfigMap, of the
answer to /configz, and of the former ``Policy`` file. /configz answers with version v1 in Kubernetes 1.37,
and with kube-scheduler's internal type, whose fields have the names of Go, in 1.34. The values of
certData, keyData and caData are never kept: only that they are there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.domain.fit import go_numbers
from app.settings import yaml_documents

FILE: Final = "file"
LIVE: Final = "live"
POLICY: Final = "policy"
Form = Literal["file", "live", "policy"]
"""file: a configuration to start with; live: what /configz answers; policy: of Kubernetes before 1.23."""

KIND: Final = "KubeSchedulerConfiguration"
VERSION: Final = "kubescheduler.config.k8s.io/v1"
DEFAULT_PROFILE: Final = "default-scheduler"
_LEASE_NAMESPACE: Final = "kube-system"
_LEASE_NAME: Final = "kube-scheduler"
DEFAULT_LEASE: Final = f"{_LEASE_NAMESPACE}/{_LEASE_NAME}"
DEFAULT_TIMEOUT: Final = 5.0
"""Seconds, if httpTimeout is 0 or absent (kube-scheduler, pkg/scheduler/extender.go)."""

_ENTRY = (
    *("urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS"),
    *("tlsConfig", "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable"),
)
_TLS = ("insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData")
_MANAGED = ("name", "ignoredByScheduler")
_POLICY_ONLY = ("enableHttps",)
_INLINE = ("certData", "keyData", "caData")


class Unreadable(ValueError):
    """The text is not a configuration of a kube-scheduler; the message names the place."""


@dataclass(frozen=True, slots=True)
class Managed:
    """A resource that a pod must request for the extender to be called."""

    name: str
    ignored: bool
    """ignoredByScheduler: kube-scheduler itself does not check it on nodes."""


@dataclass(frozen=True, slots=True)
class Tls:
    """tlsConfig of an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    inline: tuple[str, ...] = ()
    """The fields with inline data."""

    @property
    def has_ca(self) -> bool:
        """A CA is named, as a file or inline."""
        return bool(self.ca_file) or "caData" in self.inline


@dataclass(frozen=True, slots=True)
class ExtenderEntry:
    """One extender."""

    where: str
    """Such as ``extenders[0]``."""
    url: str = ""
    filter: str = ""
    prioritize: str = ""
    bind: str = ""
    preempt: str = ""
    weight: int = 0
    https: bool = False
    names_only: bool = False
    """nodeCacheCapable."""
    ignorable: bool = False
    timeout: float = DEFAULT_TIMEOUT
    """Seconds; negative: none."""
    tls: Tls | None = None
    managed: tuple[Managed, ...] = ()
    mistakes: tuple[str, ...] = ()
    """Fields that kube-scheduler refuses to read."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: the name by which pods select it."""

    name: str
    percentage: int | None = None
    """percentageOfNodesToScore of the profile; None: that of the configuration."""


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """The configuration of one kube-scheduler."""

    source: str
    """Where it was read, for people."""
    form: Form
    version: str = VERSION
    profiles: tuple[Profile, ...] = (Profile(DEFAULT_PROFILE),)
    entries: tuple[ExtenderEntry, ...] = ()
    percentage: int | None = None
    """percentageOfNodesToScore; None or 0: fewer, the larger the cluster."""
    elected: bool = True
    lease: str = DEFAULT_LEASE
    """Namespace and name of the Lease, if ``elected``."""
    started: float = 0.0
    """Of a running kube-scheduler: seconds since 1970 of its start; 0 if that was not seen."""
    gangs: bool | None = None
    """Of a running kube-scheduler: whether its gate GenericWorkload is on; None if that was not seen."""


def read(text: str | bytes, source: str) -> list[SchedulerConfiguration]:
    """The configurations in a YAML or JSON text: of a file, of ConfigMaps, or of an answer of /configz.

    Raises Unreadable.
    """
    raw = text.encode() if isinstance(text, str) else text
    try:
        yaml_documents.check(raw)
        documents = yaml_documents.load_all(raw)
    except ValueError as error:  # JSON is YAML.
        raise Unreadable(f"{source} {error}") from None
    found = [made for document in documents for made in _of_document(document, source)]
    if not found:
        raise Unreadable(
            f"{source} holds no {KIND}: pass kube-scheduler's file, its ConfigMap (kubectl get configmap"
            " -o yaml) or the answer of its /configz"
        )
    return found


def _of_document(document: object, source: str) -> Iterator[SchedulerConfiguration]:
    if not isinstance(document, Mapping):
        return
    if "componentconfig" in document:
        yield _configuration(_mapping(document["componentconfig"]), source, LIVE)
    elif document.get("kind") == KIND:
        yield _configuration(document, source, FILE)
    elif document.get("kind") == "Policy":
        yield _configuration(document, source, POLICY)
    elif document.get("kind") == "ConfigMap":
        yield from _of_config_map(document, source)
    elif isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _of_document(item, source)


def _of_config_map(document: Mapping[str, Any], source: str) -> Iterator[SchedulerConfiguration]:
    metadata = _mapping(document.get("metadata"))
    name = f"{metadata.get('namespace', 'default')}/{metadata.get('name', '?')}"
    for key, text in sorted(_mapping(document.get("data")).items()):
        if isinstance(text, str) and KIND in text:
            yield from read(text, f"{source}: ConfigMap {name}, {key}")


def _configuration(document: Mapping[str, Any], source: str, form: Form) -> SchedulerConfiguration:
    internal = form == LIVE and "profiles" not in document and "Profiles" in document
    if internal:
        document = _in_lower_camel(document)
    profiles = tuple(
        Profile(str(one.get("schedulerName") or DEFAULT_PROFILE), _whole(one.get("percentageOfNodesToScore")))
        for one in _mappings(document.get("profiles"))
    )
    election = _mapping(document.get("leaderElection"))
    namespace = election.get("resourceNamespace") or _LEASE_NAMESPACE
    entries = tuple(
        _entry(one, f"extenders[{at}]", form) for at, one in enumerate(_mappings(document.get("extenders")))
    )
    return SchedulerConfiguration(
        source,
        form,
        VERSION if form != FILE else str(document.get("apiVersion") or ""),
        profiles or (Profile(DEFAULT_PROFILE),),
        entries,
        _whole(document.get("percentageOfNodesToScore")),
        election.get("leaderElect") is not False,
        f"{namespace}/{election.get('resourceName') or _LEASE_NAME}",
    )


def _entry(document: Mapping[str, Any], where: str, form: Form) -> ExtenderEntry:
    mistakes = list(_unknown(document, _ENTRY if form != POLICY else (*_ENTRY, *_POLICY_ONLY), ""))
    tls = None
    if document.get("tlsConfig") is not None:
        given = _mapping(document["tlsConfig"])
        mistakes += _unknown(given, _TLS, "tlsConfig.")
        tls = Tls(
            bool(given.get("insecure")),
            str(given.get("serverName") or ""),
            str(given.get("certFile") or ""),
            str(given.get("keyFile") or ""),
            str(given.get("caFile") or ""),
            tuple(name for name in _INLINE if given.get(name)),
        )
    managed = _mappings(document.get("managedResources"))
    for one in managed:
        mistakes += _unknown(one, _MANAGED, "managedResources.")
    timeout = DEFAULT_TIMEOUT
    try:
        timeout = _seconds(document.get("httpTimeout"), form) or DEFAULT_TIMEOUT
    except ValueError as error:
        mistakes.append(str(error))
    return ExtenderEntry(
        where,
        str(document.get("urlPrefix") or ""),
        str(document.get("filterVerb") or ""),
        str(document.get("prioritizeVerb") or ""),
        str(document.get("bindVerb") or ""),
        str(document.get("preemptVerb") or ""),
        _whole(document.get("weight")) or 0,
        bool(document.get("enableHTTPS") or (form == POLICY and document.get("enableHttps"))),
        bool(document.get("nodeCacheCapable")),
        bool(document.get("ignorable")),
        timeout,
        tls,
        tuple(Managed(str(one.get("name") or ""), bool(one.get("ignoredByScheduler"))) for one in managed),
        tuple(mistakes),
    )


def _unknown(document: Mapping[str, Any], known: Iterable[str], prefix: str) -> Iterator[str]:
    names = tuple(known)
    for name in document:
        if name not in names:
            spelled = next((one for one in names if one.lower() == str(name).lower()), "")
            yield f"unknown field {prefix}{name}" + (f" (did you mean {spelled}?)" if spelled else "")


def _seconds(value: object, form: Form) -> float:
    """A duration of Go as seconds; the ``Policy`` file has nanoseconds. Raises ValueError."""
    if value is None:
        return 0.0
    if isinstance(value, Mapping):  # metav1.Duration without its own encoding
        value = value.get("Duration", value.get("duration"))
    if form == POLICY and isinstance(value, int) and not isinstance(value, bool):
        return value / 1e9
    found = go_numbers.go_duration(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"httpTimeout {value or repr(value)} is not a duration such as 5s")
    return found


def _in_lower_camel(document: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with the names of Go as version v1 spells them."""
    return {_lower_camel(str(name)): _inner(value) for name, value in document.items()}


def _inner(value: object) -> object:
    if isinstance(value, Mapping):
        return _in_lower_camel(value)
    return [_inner(each) for each in value] if isinstance(value, list) else value


def _lower_camel(name: str) -> str:
    """``URLPrefix`` as ``urlPrefix``, ``TLSConfig`` as ``tlsConfig``, ``HTTPTimeout`` as ``httpTimeout``."""
    initials = re.match(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+$|[A-Z]", name)
    return initials.group(0).lower() + name[initials.end() :] if initials else name


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
