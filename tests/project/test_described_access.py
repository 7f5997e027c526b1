"""The pages that describe credentials and rights name all that access list and manifests grant."""

import re

import pytest

from app.store.server import acl
from tests.project import reference_pages
from tests.support import manifests

DOCS = reference_pages.ROOT / "docs"
PROCESSES = ("recorder", "controller", "auditor", "compactor", "extender")
READING = {"get", "list", "watch"}
WORDS = {
    "events": "events",
    "leases": "its Lease",
    "pods/binding": "pods/binding",
    "pods/status": "pods/status",
    "elasticquotas/status": "quotas",
    "podgroups/status": "PodGroups",
    "workloadpolicies/status": "policies",
}
"""Resource that a process may write -> how docs/concepts.md names it."""


def _users() -> dict[str, str]:
    """User of the store, without the prefix and the cluster -> its rules."""
    hashes = dict.fromkeys([role.name for role in (*acl.ROLES, acl.CERTIFICATES)], 64 * "0")
    lines = (acl.access_list("c") + acl.filled("c", hashes, tls=True)).splitlines()
    rules = dict(line.removeprefix("user ").split(" ", 1) for line in lines)
    assert rules.pop("default").startswith("off ")
    return {name.removeprefix(acl.PREFIX).removeprefix("c-"): given for name, given in rules.items()}


def test_the_security_model_names_every_user_of_the_store_and_those_without_keys() -> None:
    text = (DOCS / "security-model.md").read_text()
    section = text.partition("## What a stolen credential is worth\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| password ([^|]+)\|", section, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(_users())
    (unlimited,) = re.findall(
        r"^Every user of the store is limited .*, but for (.*?), who", section, re.MULTILINE
    )
    without_keys = {name for name, rules in _users().items() if "~topolog:{c}:* " not in rules}
    assert set(re.findall(r"`(\w+)`", unlimited)) == without_keys


@pytest.mark.parametrize("process", PROCESSES)
def test_the_concepts_name_what_each_process_may_do(process: str) -> None:
    rows = [
        line.split("|") for line in (DOCS / "concepts.md").read_text().splitlines() if line.startswith("| ")
    ]
    (needed,) = [row[4] for row in rows if row[1].strip() == process]
    roles = [
        role
        for kind in ("ClusterRole", "Role")
        for role in manifests.objects(kind, "rbac")
        if role["metadata"]["name"] == f"topolog-{process}"
    ]
    rules = [rule for role in roles for rule in role["rules"] if "resources" in rule]
    assert rules
    for rule in rules:
        for resource in rule["resources"]:
            if resource == "namespaces":
                assert rule["resourceNames"] == ["kube-system"]
                assert "the namespace `kube-system`" in needed
            elif not READING.issuperset(rule["verbs"]):
                assert WORDS[resource] in needed
            elif "list" in rule["verbs"]:
                assert "read" in needed or resource in needed
            else:
                assert resource in needed or WORDS[f"{resource}/status"] in needed


def test_the_processes_of_the_concepts_are_those_with_permissions() -> None:
    named = {
        role["metadata"]["name"].removeprefix(acl.PREFIX) for role in manifests.objects("ClusterRole", "rbac")
    }
    assert named == set(PROCESSES)
