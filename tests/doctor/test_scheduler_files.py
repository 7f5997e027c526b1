"""``topolog doctor scheduler --file``: each mistake in a configuration is found, and nothing else."""

import copy
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from app.doctor.scheduler import configurations, entry_checks
from app.serving.tls import certificate_issuer
from tests.support import manifests
from tests.support.doctor import runs

Json = dict[str, Any]
SERVICE = "topolog-extender.topolog-system.svc"
SCHEDULERS = manifests.DEPLOY / "scheduler"
INTERNAL = pathlib.Path(__file__).parent / "configz" / "internal.json"
"""What /configz of Kubernetes 1.34 answers for kube-scheduler-service.yaml: kube-scheduler's internal type.

Made by kube-scheduler's own packages (1.37), which decoded the file and encoded the internal type as JSON.
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tls")
    return str(certificate_issuer.issue(folder, [SERVICE, "10.96.0.7"]).files["server.crt"])


def shipped(name: str = "service") -> Json:
    found: Json = yaml.safe_load((SCHEDULERS / f"kube-scheduler-{name}.yaml").read_text())
    return found


def checked(document: object, folder: pathlib.Path, *more: str, **environ: str) -> runs.Run:
    file = folder / "configuration.yaml"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return runs.doctor("scheduler", "--file", str(file), *more, environ=environ)


RIGHT = {"S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S09", "S10", "S16", "S17", "S18"}
"""Checks of a file that a sound one passes; S18 where it has managedResources."""


@pytest.mark.parametrize("name", ["service", "sidecar", "managed"])
def test_the_configurations_of_deploy_are_right(name: str, certificate: str) -> None:
    file = SCHEDULERS / f"kube-scheduler-{name}.yaml"
    run = runs.doctor("scheduler", "--file", str(file), "--server-cert", certificate)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT - ({"S18"} if name != "managed" else set())


def test_the_readme_is_right(certificate: str, tmp_path: pathlib.Path) -> None:
    text = (manifests.DEPLOY.parent / "README.md").read_text()
    (block,) = [each for each in text.split("```yaml\n")[1:] if "KubeSchedulerConfiguration" in each]
    assert checked(block.partition("```")[0], tmp_path, "--server-cert", certificate).wrong() == {}


@pytest.mark.parametrize(
    ("name", "election", "wrong"),
    [
        ("topolog-scheduler", {}, True),
        ("topolog-scheduler", {"resourceName": "topolog-scheduler"}, False),
        ("topolog-scheduler", {"resourceNamespace": "topolog-system"}, False),
        ("topolog-scheduler", {"leaderElect": False}, False),
        # In place of the configuration of the cluster's kube-scheduler.
        ("default-scheduler", {}, False),
    ],
)
def test_a_second_scheduler_with_the_lease_of_the_default_one_is_a_warning(
    certificate: str, tmp_path: pathlib.Path, name: str, election: Json, wrong: bool
) -> None:
    document = {**shipped(), "profiles": [{"schedulerName": name}], "leaderElection": election}
    run = checked(document, tmp_path, "--server-cert", certificate)
    assert run.wrong() == ({"S12": "warning"} if wrong else {})


def entry(**fields: object) -> Callable[[Json], None]:
    """Change fields of the extender; None removes one."""

    def change(document: Json) -> None:
        for name, value in fields.items():
            document["extenders"][0][name] = value
            if value is None:
                del document["extenders"][0][name]

    return change


def tls(**fields: object) -> Callable[[Json], None]:
    """Change fields of its tlsConfig; None removes one."""

    def change(document: Json) -> None:
        for name, value in fields.items():
            document["extenders"][0]["tlsConfig"][name] = value
            if value is None:
                del document["extenders"][0]["tlsConfig"][name]

    return change


def top(**fields: object) -> Callable[[Json], None]:
    return lambda document: document.update(fields)


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(document: Json) -> None:
        for one in changes:
            one(document)

    return change


def another(document: Json) -> None:
    """A second extender that binds."""
    document["extenders"].append({"urlPrefix": "http://quota.example", "bindVerb": "b", "filterVerb": "f"})


MISTAKES: dict[str, tuple[Callable[[Json], None], dict[str, str]]] = {
    "no extenders": (top(extenders=[]), {"S01": "problem"}),
    "another extender only": (
        entry(urlPrefix="http://gpu.example", tlsConfig={}, bindVerb=""),
        {"S01": "problem"},
    ),
    "a sample": (top(percentageOfNodesToScore=50), {"S02": "warning"}),
    "no percentage": (top(percentageOfNodesToScore=None), {"S02": "warning"}),
    "a sample in a profile": (
        top(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 30}]),
        {"S02": "warning"},
    ),
    "ignorable": (entry(ignorable=True), {"S03": "problem"}),
    "no bind": (entry(bindVerb=None), {"S04": "problem"}),
    "two binders": (another, {"S04": "problem", "S16": "problem"}),
    "no preempt": (entry(preemptVerb=None), {"S05": "warning"}),
    "a short timeout": (entry(httpTimeout="2s"), {"S06": "problem"}),
    "as long as a bind": (entry(httpTimeout="4s"), {"S06": "problem"}),
    "a negative timeout": (entry(httpTimeout="-1s"), {"S06": "problem"}),
    "a timeout of 0, which is the default": (entry(httpTimeout="0"), {}),
    "a timeout in other units": (entry(httpTimeout="1m0.5s"), {}),
    "an empty timeout": (entry(httpTimeout=""), {"S16": "problem"}),
    "a timeout of two signs": (entry(httpTimeout="5s-3s"), {"S16": "problem"}),
    "a timeout without a leading digit": (entry(httpTimeout="1m.5s"), {}),
    "a number as a timeout": (entry(httpTimeout=5), {"S16": "problem"}),
    "whole nodes": (entry(nodeCacheCapable=False), {"S07": "warning"}),
    "http": (entry(urlPrefix=f"http://{SERVICE}"), {"S08": "problem"}),
    "not verified": (tls(insecure=True, caFile=None), {"S08": "problem"}),
    "no CA": (tls(caFile=None), {"S08": "problem"}),
    "the CAs of the image": (
        both(tls(caFile=None), entry(enableHTTPS=False)),
        {"S08": "warning"},
    ),
    "no certificate": (tls(certFile=None, keyFile=None), {"S08": "problem"}),
    "a certificate without a key": (tls(keyFile=None), {"S08": "problem"}),
    "inline data": (tls(keyFile=None, keyData="c2VjcmV0LWtleQ=="), {"S08": "warning"}),
    "another name": (tls(serverName="topolog.example"), {"S09": "problem"}),
    "the address, without a name": (
        both(entry(urlPrefix="https://10.96.0.7"), tls(serverName=None)),
        {},
    ),
    "another address": (
        both(entry(urlPrefix="https://10.96.0.8"), tls(serverName=None)),
        {"S09": "problem"},
    ),
    "no weight": (entry(weight=None), {"S10": "problem"}),
    "a small weight": (entry(weight=9), {"S10": "warning"}),
    "a former version": (top(apiVersion="kubescheduler.config.k8s.io/v1beta3"), {"S16": "problem"}),
    "a field in another case": (entry(enableHttps=True), {"S16": "problem"}),
    "a field of tlsConfig": (tls(caCert="x"), {"S16": "problem"}),
    "another verb": (entry(filterVerb="predicates"), {"S17": "problem"}),
    "another path": (entry(urlPrefix=f"https://{SERVICE}/scheduler"), {"S17": "problem"}),
    "the path of Koordinator's form": (entry(urlPrefix=f"https://{SERVICE}/api/"), {}),
    "no filter": (entry(filterVerb=None), {"S17": "problem"}),
    "no scores": (entry(prioritizeVerb=None), {"S17": "warning"}),
    "one node": (entry(filterVerb="filter_onlyone", weight=1), {}),
    "a resource that no node has": (
        entry(managedResources=[{"name": "topolog.io/managed"}]),
        {"S18": "warning"},
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_and_nothing_else(name: str, certificate: str, tmp_path: pathlib.Path) -> None:
    change, expected = MISTAKES[name]
    document = shipped()
    change(document)
    run = checked(document, tmp_path, "--server-cert", certificate)
    assert run.wrong() == expected
    assert run.code == int("problem" in expected.values())
    assert "c2VjcmV0" not in run.text


def test_the_settings_decide_what_fits(certificate: str, tmp_path: pathlib.Path) -> None:
    given = {"TOPOLOG_BUDGETS_BIND": "4.5", "TOPOLOG_PLUGINS_SCORE_MAX": "100"}
    run = checked(shipped(), tmp_path, "--server-cert", certificate, **given)
    assert run.wrong() == {"S06": "problem"}
    document = shipped()
    entry(weight=1)(document)
    given = {"TOPOLOG_PLUGINS_SCORE_MAX": "100"}
    assert checked(document, tmp_path, "--server-cert", certificate, **given).wrong() == {}


def test_a_name_is_not_checked_without_a_certificate(tmp_path: pathlib.Path) -> None:
    run = checked(shipped(), tmp_path)
    assert (run.wrong(), run.code) == ({"S09": "unsure"}, 1)
    assert checked(shipped(), tmp_path, "--fail-on", "problem").code == 0
    assert checked(shipped(), tmp_path, "--skip", "S09").code == 0


def test_a_warning_fails_only_on_request(certificate: str, tmp_path: pathlib.Path) -> None:
    document = shipped()
    entry(preemptVerb=None)(document)
    for level, code in (("problem", 0), ("unsure", 0), ("warning", 1)):
        run = checked(document, tmp_path, "--server-cert", certificate, "--fail-on", level)
        assert (run.code, run.document["verdict"]) == (code, "warning")


# -- forms --------------------------------------------------------------------------------------


def configz(document: Json) -> str:
    """What /configz of 1.37 answers: version v1, without fields that have Go's zero value."""
    shown = copy.deepcopy(document)
    shown["extenders"] = [
        {name: value for name, value in one.items() if value not in (False, "", 0)}
        for one in shown["extenders"]
    ]
    return str(yaml.safe_dump({"componentconfig": shown}))


def config_map(document: Json) -> Json:
    data = {"kube-scheduler.yaml": yaml.safe_dump(document), "other": "text"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "n"},
        "data": data,
    }


def test_the_answers_of_configz_of_both_forms_equal_the_file() -> None:
    (written,) = configurations.read((SCHEDULERS / "kube-scheduler-service.yaml").read_text(), "file")
    for text in (INTERNAL.read_text(), configz(shipped())):
        (live,) = configurations.read(text, "live")
        assert live.form == configurations.LIVE
        assert (live.profiles, live.entries, live.percentage) == (
            written.profiles,
            written.entries,
            written.percentage,
        )
        assert (live.elected, live.lease) == (written.elected, written.lease)


def test_mistakes_are_found_in_every_form(certificate: str, tmp_path: pathlib.Path) -> None:
    document = shipped()
    entry(ignorable=True)(document)
    forms = {
        "configz": configz(document),
        "internal": INTERNAL.read_text().replace('"Ignorable": false', '"Ignorable": true'),
        "ConfigMap": config_map(document),
        "list": {"kind": "List", "items": [config_map(document)]},
    }
    for name, form in forms.items():
        assert checked(form, tmp_path, "--server-cert", certificate).wrong() == {"S03": "problem"}, name


def test_the_policy_file_is_read_and_named_as_outdated(certificate: str) -> None:
    file = str(SCHEDULERS / "scheduler-policy.json")
    run = runs.doctor("scheduler", "--file", file, "--server-cert", certificate)
    assert run.wrong() == {"S02": "warning", "S16": "warning"}


def test_standard_input_is_a_file(certificate: str) -> None:
    text = (SCHEDULERS / "kube-scheduler-service.yaml").read_text()
    run = runs.doctor("scheduler", "-f", "-", "--server-cert", certificate, stdin=text)
    assert run.wrong() == {}


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "missing"
    run = runs.doctor("scheduler", "--file", str(missing))
    assert (run.code, f"cannot read {missing}: No such file or directory\n" in run.text) == (2, True)
    known = str(SCHEDULERS / "kube-scheduler-service.yaml")
    run = runs.doctor("scheduler", "--file", known, "--server-cert", str(missing))
    assert f"cannot read the certificate {missing}: No such file or directory\n" in run.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "a: 1",
        "[]",
        '{"kind": "Pod"}',
        "\x00",
        "kind: ConfigMap\ndata: {a: text}",
        "- {a: 1}",
        "a: !!bool x",
        "a: !secret x",
    ],
)
def test_what_is_not_a_configuration_is_a_usage_error(text: str, tmp_path: pathlib.Path) -> None:
    run = checked(text, tmp_path)
    assert run.code == 2
    assert "configuration.yaml" in run.text


@pytest.mark.parametrize("value", [None, 3, "text", [], ["text"], [None], {"a": 1}])
def test_a_field_of_another_type_ends_no_check(value: object, tmp_path: pathlib.Path) -> None:
    document = shipped()
    for name in list(document):
        if name != "kind":
            checked({**document, name: value}, tmp_path)
    for name in document["extenders"][0]:
        changed = copy.deepcopy(document)
        changed["extenders"][0][name] = value
        checked(changed, tmp_path)


def test_a_file_that_is_not_yaml_shows_no_key(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text('kind: KubeSchedulerConfiguration\nextenders: [{tlsConfig: {keyData: "cAn4ry')
    run = runs.doctor("scheduler", "--file", str(file))
    assert run.code == 2
    assert f"{file} is not YAML in line 2: " in run.text
    assert "cAn4ry" not in run.text


def test_names_are_compared_as_go_does() -> None:
    for pattern, name, expected in (
        ("a.svc", "A.svc.", True),
        ("*.svc", "a.svc", True),
        ("*.svc", "a.b.svc", False),
        ("*.svc", ".svc", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("10.0.0.1", "10.0.0.1.svc", False),
    ):
        assert entry_checks.matches(pattern, name) is expected, (pattern, name)
