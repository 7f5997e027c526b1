"""Checks of NetworkPolicies: the addresses that they name, and whether they admit a scraper of metrics."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app import plurals
from app.doctor import own_pods
from app.doctor.cluster import catalog
from app.domain import selectors
from app.framework import doctor_checks

Object = Mapping[str, Any]

_DOCUMENTATION = tuple(
    map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"))
)
"""RFC 5737 and RFC 3849: addresses of examples."""


def addresses(found: Sequence[Object]) -> Iterator[doctor_checks.Result]:
    """C09 for each NetworkPolicy."""
    for one in found:
        subject = f"NetworkPolicy {one['metadata']['name']}"
        blocks = [
            peer["ipBlock"]["cidr"]
            for rule in (*(one["spec"].get("ingress") or ()), *(one["spec"].get("egress") or ()))
            for peer in (*(rule.get("from") or ()), *(rule.get("to") or ()))
            if "ipBlock" in peer
        ]
        examples = [cidr for cidr in blocks if _of_example(cidr)]
        if examples:
            metadata = one["metadata"]
            yield catalog.ADDRESSES.problem(
                subject,
                f"{', '.join(examples)}: an address of documentation",
                known={"NAMESPACE": str(metadata["namespace"]), "POLICY": str(metadata["name"])},
            )
        else:
            yield catalog.ADDRESSES.ok(subject, ", ".join(blocks) or "no addresses")


def scrapes(
    found: Sequence[Object], pods: Sequence[Object], namespaces: Sequence[Object]
) -> doctor_checks.Result:
    """C11. ``found``: the NetworkPolicies of the namespace of the pods of Topolog; ``namespaces``: all.

    Whether a namespace that is admitted is that of the scraper cannot be seen here.
    """
    closed: dict[str, tuple[str, ...]] = {}
    for pod in pods:
        applied = [one for one in found if _restricts(one, pod)]
        rules = [rule for one in applied for rule in one["spec"].get("ingress") or ()]
        home, port = pod["metadata"]["namespace"], own_pods.serving(pod)[1]
        others = [one for one in namespaces if one["metadata"]["name"] != home]
        if applied and not any(_admits(rule, port, others) for rule in rules):
            closed[str(pod["metadata"]["name"])] = tuple(str(one["metadata"]["name"]) for one in applied)
    if not closed:
        return catalog.SCRAPES.ok("health ports", "no NetworkPolicy closes them to other namespaces")
    policies = sorted({name for names in closed.values() for name in names})
    return catalog.SCRAPES.warning(
        "health ports",
        f"no other namespace of this cluster is admitted by {plurals.listed(policies)}"
        f" to {plurals.listed([*closed])}",
    )


def _restricts(policy: Object, pod: Object) -> bool:
    """Whether the pod accepts only what rules such as those of this policy admit."""
    spec = policy["spec"]
    selector = selectors.decoded(spec.get("podSelector") or {})
    # The API server adds Ingress where no types are given.
    return "Ingress" in (spec.get("policyTypes") or ("Ingress",)) and selectors.matches(
        selector, pod["metadata"].get("labels") or {}
    )


def _admits(rule: Object, port: int, others: Sequence[Object]) -> bool:
    """Whether a rule opens a health port to addresses, or to pods of one of these other namespaces."""
    peers, ports = rule.get("from") or (), rule.get("ports") or ()
    beyond = not peers or any("ipBlock" in peer or _selects(peer, others) for peer in peers)
    return beyond and (not ports or any(_includes(one, port) for one in ports))


def _selects(peer: Object, others: Sequence[Object]) -> bool:
    if "namespaceSelector" not in peer:
        return False
    selector = selectors.decoded(peer["namespaceSelector"])
    return any(selectors.matches(selector, one["metadata"].get("labels") or {}) for one in others)


def _includes(ports: Object, number: int) -> bool:
    if ports.get("protocol", "TCP") != "TCP":
        return False
    first = ports.get("port")
    if first is None or first == own_pods.HEALTH:
        return True
    return isinstance(first, int) and first <= number <= ports.get("endPort", first)


def _of_example(cidr: str) -> bool:
    try:
        address = ipaddress.ip_network(cidr, strict=False).network_address
    except ValueError:
        return False
    return any(address in network for network in _DOCUMENTATION)
