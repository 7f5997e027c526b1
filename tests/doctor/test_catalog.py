"""The checks of all areas: IDs, and the pages and sections that they name."""

import collections
import pathlib
import re

import pytest

from app import settings
from app.cli.doctor import options
from app.doctor import restarts
from app.framework import doctor_checks
from app.kube.client import credentials
from tests.project import reference_pages
from tests.support.doctor import runs

CHECKS = [check for checks in reference_pages.AREAS.values() for check in checks]


def test_each_check_has_an_id_of_its_own() -> None:
    ids = collections.Counter(check.id for check in CHECKS)
    assert [name for name, count in ids.items() if count > 1] == []
    for area, checks in reference_pages.AREAS.items():
        assert len({check.id[0] for check in checks}) == 1, area
    assert all(re.fullmatch(r"[A-Z]\d\d", name) for name in ids)


@pytest.mark.parametrize("docs", sorted({check.docs for check in CHECKS}))
def test_the_page_and_section_of_each_check_exist(docs: str) -> None:
    page, _, anchor = docs.partition("#")
    text = (reference_pages.ROOT / "docs" / page).read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert not anchor or anchor in anchors


FILLED = {
    "S14": ["NAMESPACE", "NAME"],
    "S15": ["NAMESPACE", "POD"],
    "C02": ["PROCESS"],
    "C06": ["NAMESPACE", "POD", "NAMESPACE", "POD"],
    "C08": ["NAMESPACE", "PROCESS", "PROCESS"],
    "C09": ["NAMESPACE", "POLICY"],
    "C14": ["CLASS"],
    "T01": ["DIRECTORY", "NAME"],
    "T02": ["DIRECTORY", "NAME"],
    "T04": ["NAMESPACE", "NAME"],
    "T05": ["FILES"],
    "R01": ["LOG"],
    "R02": ["COMMAND"],
    "R03": ["NAMESPACE", "REPLICAS"],
    "R04": ["NAMESPACE"],
    "R06": ["LOG"],
    "P01": ["NAMESPACE", "POLICY"],
    "P02": ["KEY", "VALUE"],
    "P06": ["NAMESPACE", "POLICY"],
    "P08": ["NAMESPACE", "POLICY"],
}
"""Check -> placeholders of its fix. Each result replaces all of them, which every run of the doctor in these
tests verifies (runs.complete)."""


def test_placeholders_are_those_that_results_replace() -> None:
    found = {check.id: runs.placeholders(check.fix) for check in CHECKS}
    assert {name: words for name, words in found.items() if words} == FILLED


def test_a_fix_keeps_the_placeholders_that_are_not_known() -> None:
    fix = "kubectl -n NAMESPACE edit NAME; set TLS_NAME"
    assert doctor_checks.filled(fix, {"NAME": "a"}) == "kubectl -n NAMESPACE edit a; set TLS_NAME"


def pod(kind: str = "", owner: str = "", **metadata: object) -> dict[str, object]:
    owners = [{"kind": kind, "name": owner, "controller": True}] if kind else []
    made = {"namespace": "ns", "name": "p-5d-x", "ownerReferences": owners, **metadata}
    return {"metadata": made, "spec": {"nodeName": "n1"}}


@pytest.mark.parametrize(
    ("found", "restart"),
    [
        (pod("ReplicaSet", "p-5d", labels={"pod-template-hash": "5d"}), "rollout restart deployment/p"),
        (pod("ReplicaSet", "p-5d"), "delete pod p-5d-x"),
        (pod("StatefulSet", "p"), "rollout restart statefulset/p"),
        (pod("DaemonSet", "p"), "rollout restart daemonset/p"),
        (pod("Job", "p"), "delete pod p-5d-x"),
        (pod(), "delete pod p-5d-x, and create it again"),
    ],
)
def test_a_pod_is_restarted_by_what_manages_it(found: dict[str, object], restart: str) -> None:
    assert restarts.of_pod(found) == f"kubectl -n ns {restart}"


def test_a_static_pod_is_restarted_on_its_node() -> None:
    static = pod("Node", "n1", annotations={"kubernetes.io/config.mirror": "a"})
    assert restarts.of_pod(static).startswith("on node n1 move the manifest of pod p-5d-x")


def test_the_namespace_is_given_or_that_of_the_pod_or_of_the_settings(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = settings.load(None, {"TOPOLOG_CLIENT_NAMESPACE": "of-settings"})
    file = tmp_path / "namespace"
    monkeypatch.setattr(credentials, "_POD_NAMESPACE", file)
    assert options.home(loaded, None) == "of-settings"
    file.write_text("of-pod\n")
    assert options.home(loaded, None) == "of-pod"
    assert options.home(loaded, "given") == "given"


def test_the_worst_verdict_decides() -> None:
    check = CHECKS[0]
    results = [
        check.ok("a", "b"),
        check.warning("a", "b"),
        check.unsure("a", "b", fix="c"),
        check.problem("a", "b"),
    ]
    for number, expected in enumerate(("ok", "ok", "warning", "unsure", "problem")):
        assert doctor_checks.worst(results[:number]) == expected
