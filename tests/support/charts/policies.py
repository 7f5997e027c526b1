"""The NetworkPolicies of the chart: which addresses they admit, by its values."""

from tests.support.charts import helm_templates

Object = helm_templates.Object

_PEERS = {6443: "apiServer", 6379: "store"}
"""A port of a rule -> the values for what listens there."""


def changed(one: Object, marks: helm_templates.Marks) -> str:
    """Put the values of the chart into a policy; return the condition of its own, if it has one."""
    match one["metadata"]["name"]:
        case "topolog-extender":
            (rule,) = one["spec"]["ingress"]
            _restricted(rule, "networkPolicy.schedulerCIDRs", marks, "from")
        case "topolog" | "topolog-bootstrap":
            for rule in one["spec"]["egress"]:
                for known, peer in _PEERS.items():
                    if {"port": known, "protocol": "TCP"} in rule["ports"]:
                        rule["ports"] = _ports(f"networkPolicy.{peer}Ports", marks)
                        _restricted(rule, f"networkPolicy.{peer}CIDRs", marks)
            for rule in one["spec"].get("ingress", []):
                (peer,) = rule["from"]
                name = marks.value(".Values.networkPolicy.monitoringNamespace")
                peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] = name
        case "topolog-archive":
            _archive_rules(one, marks)
    return ".Values.networkPolicy.enabled" if one["metadata"]["name"] in _OF_PARTS else ""


_OF_PARTS = ("topolog-bootstrap", "topolog-valkey", "topolog-bootstrap-store", "topolog-valkey-bootstrap")
"""Policies that are not in the template of the policies."""


def _archive_rules(one: Object, marks: helm_templates.Marks) -> None:
    """To the object store, and to the services of the cloud's identities where there are no keys."""
    store, identities = one["spec"]["egress"]
    store["ports"] = _ports("archive.ports", marks)
    _restricted(store, "archive.cidrs", marks)
    keyless = marks.line("if not .Values.archive.existingSecret")
    one["spec"]["egress"] = [store, keyless, identities, marks.line("end")]


def _ports(ports: str, marks: helm_templates.Marks) -> list[object]:
    each = {"port": marks.value("."), "protocol": "TCP"}
    return [marks.line(f"range .Values.{ports}"), each, marks.line("end")]


def _restricted(rule: Object, cidrs: str, marks: helm_templates.Marks, peers: str = "to") -> None:
    """Restrict a rule to addresses, where some are given."""
    blocks = [marks.line("range ."), {"ipBlock": {"cidr": marks.value(". | quote")}}, marks.line("end")]
    rule |= {marks.line(f"with .Values.{cidrs}"): None, peers: blocks, marks.line("end"): None}
