"""The constraints in a pod's specification, for the rules of app.domain.fit.

The pods of a template have them in common, spelled alike, so they are decoded once for each spelling. Most
pods have none but the tolerations that every pod is given, and share model.STANDARD.
"""

from collections.abc import Iterator

import msgspec

from app.domain import model
from app.framework import manifests
from app.kube.objects import bounds, interning, schema

_ANY_ADDRESS = frozenset((None, "", "0.0.0.0"))
_Spelled = tuple[bytes, bytes, bytes, bytes, bytes, bool, tuple[bytes, ...]]
"""Tolerations, node selector, affinity, spread, claims; whether there are volumes with rules; ports."""


class _Toleration(manifests.ApiStruct):
    """core/v1 Toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Requirement(manifests.ApiStruct):
    """core/v1 NodeSelectorRequirement, metav1 LabelSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _NodeTerm(manifests.ApiStruct):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeSelector(manifests.ApiStruct):
    """core/v1 NodeSelector."""

    node_selector_terms: list[_NodeTerm] | None = None


class _NodeAffinity(manifests.ApiStruct):
    """core/v1 NodeAffinity; preferences refuse no node."""

    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _LabelSelector(manifests.ApiStruct):
    """metav1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _PodTerm(manifests.ApiStruct):
    """core/v1 PodAffinityTerm."""

    topology_key: str = ""
    label_selector: _LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: msgspec.Raw = schema.ABSENT


class _PodAffinity(manifests.ApiStruct):
    """core/v1 PodAffinity and PodAntiAffinity; preferences refuse no node."""

    required: list[_PodTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(manifests.ApiStruct):
    """core/v1 Affinity."""

    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Spread(manifests.ApiStruct):
    """core/v1 TopologySpreadConstraint."""

    when_unsatisfiable: str | None = None


class _Port(manifests.ApiStruct):
    """core/v1 ContainerPort."""

    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


_NULL = bytes(schema.ABSENT)
_WITHOUT_RULES = schema.Volume()
_tolerations = msgspec.json.Decoder(list[_Toleration] | None)
_strings = msgspec.json.Decoder(dict[str, str] | None)
_affinity = msgspec.json.Decoder(_Affinity | None)
_spread = msgspec.json.Decoder(list[_Spread] | None)
_claims = msgspec.json.Decoder(list[msgspec.Raw] | None)
_ports = msgspec.json.Decoder(list[_Port] | None)


def effective(spec: schema.PodSpec) -> model.Constraints:
    """The constraints of a specification; pods of one template share them.

    Raises ValueError for an invalid part, Exceeded for parts that are too large.
    """
    absent, volumes = schema.ABSENT, spec.volumes
    ports = [bytes(c.ports) for c in spec.containers or () if c.ports is not absent]
    if spec.init_containers:
        ports += [bytes(c.ports) for c in spec.init_containers if c.restart_policy == "Always"]
    rules = volumes is not None and volumes.count(_WITHOUT_RULES) != len(volumes)
    tolerations = bytes(spec.tolerations)
    if (
        spec.node_selector is absent
        and spec.affinity is absent
        and spec.topology_spread_constraints is absent
        and spec.resource_claims is absent
    ):
        return _shared((tolerations, _NULL, _NULL, _NULL, _NULL, rules, tuple(ports)))
    return _shared(
        (
            tolerations,
            bytes(spec.node_selector),
            bytes(spec.affinity),
            bytes(spec.topology_spread_constraints),
            bytes(spec.resource_claims),
            rules,
            tuple(ports),
        )
    )


def _weight(spelled: _Spelled) -> int:
    *parts, _, ports = spelled
    return sum(len(part) for part in parts if isinstance(part, bytes)) + sum(map(len, ports))


def _decoded(spelled: _Spelled) -> model.Constraints:
    size = _weight(spelled)
    if size > bounds.CONSTRAINTS:
        raise bounds.Exceeded(f"its constraints have {size} characters; the limit is {bounds.CONSTRAINTS}")
    tolerations, node_selector, affinity, spread, claims, volumes, ports = spelled
    tolerated = tuple(
        model.Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "")
        for t in _tolerations.decode(tolerations) or ()
    )
    wanted = _affinity.decode(affinity) or _Affinity()
    required = wanted.node_affinity.required if wanted.node_affinity is not None else None
    together = wanted.pod_affinity.required if wanted.pod_affinity is not None else None
    apart = wanted.pod_anti_affinity.required if wanted.pod_anti_affinity is not None else None
    spreads = any(s.when_unsatisfiable != "ScheduleAnyway" for s in _spread.decode(spread) or ())
    others = {
        "podAffinity": bool(together),
        "podAntiAffinity": bool(apart),
        "topologySpreadConstraints": spreads,
        "volumes": volumes,
        "resourceClaims": bool(_claims.decode(claims)),
    }
    found = model.Constraints(
        tolerations=model.STANDARD_TOLERATIONS if tolerated == model.STANDARD_TOLERATIONS else tolerated,
        node_selector=_strings.decode(node_selector) or {},
        node_terms=tuple(map(_node_term, required.node_selector_terms or ()))
        if required is not None
        else None,
        host_ports=tuple(port for one in ports for port in _host_ports(one)),
        pod_affinity=tuple(map(_pod_term, together or ())),
        others=tuple(name for name, present in others.items() if present),
    )
    return model.STANDARD if found == model.STANDARD else found


_shared: interning.Shared[_Spelled, model.Constraints] = interning.Shared(_decoded, weigh=_weight)


def _requirements(found: list[_Requirement] | None) -> tuple[model.Requirement, ...]:
    return tuple(model.Requirement(r.key, r.operator, tuple(r.values or ())) for r in found or ())


def _node_term(term: _NodeTerm) -> model.NodeTerm:
    return model.NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields))


def _pod_term(term: _PodTerm) -> model.PodTerm:
    selector = term.label_selector
    return model.PodTerm(
        topology_key=term.topology_key,
        selector=model.Selector(selector.match_labels or {}, _requirements(selector.match_expressions))
        if selector is not None
        else None,
        namespaces=tuple(term.namespaces or ()),
        any_namespace=bytes(term.namespace_selector) != _NULL,
    )


def _host_ports(ports: bytes) -> Iterator[model.HostPort]:
    for port in _ports.decode(ports) or ():
        if port.host_port and port.host_port > 0:
            address = "" if port.host_ip in _ANY_ADDRESS else str(port.host_ip)
            yield model.HostPort(port.host_port, port.protocol or "TCP", address)
