"""An archive in an object store or on a volume: how-to page, components and chart have the same objects."""

import json
import os
import pathlib
from typing import Any

import jsonschema_rs
import pytest
import yaml

from app import settings
from app.settings import archive_urls
from tests.support import how_to_pages, kustomizations, manifests
from tests.support.charts import generated_files, golden, object_comparison, workloads

Object = manifests.Object
PAGE = "archive.md"
BUCKETS = {"archive": 0, "archive-identity": 2}
CASES = {**BUCKETS, "archive-claim": 4}
"""Case of the chart -> the first of its two blocks on the page: a kustomization, then values."""
CLAIM = "PersistentVolumeClaim"
PATH = "/var/lib/topolog/archive"
KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
)


def on_page(case: str) -> tuple[Object, Object]:
    """The kustomization and the values that the page has for a case."""
    blocks = [one for one in of_page() if one.get("kind") != CLAIM]
    assert len(blocks) == 2 * len(CASES)
    return blocks[CASES[case]], blocks[CASES[case] + 1]


def of_page() -> list[Object]:
    return [yaml.safe_load(block) for block in how_to_pages.blocks(PAGE, "yaml")]


def folder_of(case: str, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the kustomization of the page, which finds the checkout."""
    kustomization, _ = on_page(case)
    checkout = os.path.relpath(manifests.DEPLOY.parent, tmp_path)
    text = json.dumps(kustomization).replace('"topolog/deploy', f'"{checkout}/deploy')
    (tmp_path / "kustomization.yaml").write_text(text)
    return tmp_path


def of_chart(case: str) -> dict[tuple[str, str, str], Any]:
    """What Helm renders of a case: the objects of the default installation, and those that differ."""
    usual = [one for one in golden.stored("dev") if "TOPOLOG_CLUSTER" not in one.get("data", {})]
    return object_comparison.by_identity(usual) | object_comparison.by_identity(golden.stored(case))


@pytest.mark.parametrize("case", CASES)
def test_the_page_has_the_values_of_the_case(case: str) -> None:
    path = generated_files.CHART / "ci" / f"{case}-values.yaml"
    tried = yaml.safe_load(path.read_text())["archive"]
    (given,) = on_page(case)[1].values()
    assert tried == given


@pytest.mark.parametrize("case", CASES)
def test_kustomize_and_chart_have_the_same_objects(case: str, tmp_path: pathlib.Path) -> None:
    ours = of_chart(case)
    theirs = object_comparison.by_identity(kustomizations.render(folder_of(case, tmp_path)))
    assert ours.keys() == theirs.keys()
    for identity, one in ours.items():
        assert manifests.in_order(one) == theirs[identity], identity


@pytest.mark.skipif(manifests.KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("case", CASES)
def test_kubectl_renders_the_same(case: str, tmp_path: pathlib.Path) -> None:
    folder = folder_of(case, tmp_path)
    assert object_comparison.by_identity(manifests.rendered(folder)) == object_comparison.by_identity(
        kustomizations.render(folder)
    )


@pytest.mark.parametrize("case", BUCKETS)
def test_every_process_of_the_archive_gets_what_it_needs(case: str) -> None:
    objects = of_chart(case)
    for process in workloads.ARCHIVING:
        one: Any = objects["Deployment", "topolog-system", f"topolog-{process}"]
        template = one["spec"]["template"]
        (own,) = [each for each in template["spec"]["containers"] if each["name"] != "kube-scheduler"]
        secrets = [each["secretRef"]["name"] for each in own["envFrom"] if "secretRef" in each]
        account: Any = objects["ServiceAccount", "topolog-system", template["spec"]["serviceAccountName"]]
        if case == "archive":
            assert secrets == ["topolog-archive"]
            assert "annotations" not in account["metadata"]
        else:
            assert secrets == []
            assert "azure.workload.identity/client-id" in account["metadata"]["annotations"]
            assert template["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    others: list[Any] = [
        one
        for (kind, _, name), one in objects.items()
        if kind in manifests.WORKLOADS and name.removeprefix("topolog-") not in workloads.ARCHIVING
    ]
    assert "topolog-archive" not in json.dumps(others), "no other process gets the credentials"


def test_the_claim_of_the_page_is_mounted_by_every_process_of_the_archive() -> None:
    (claim,) = [one for one in of_page() if one.get("kind") == CLAIM]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    volume = {"name": "archive", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    objects = of_chart("archive-claim")
    writing = set[str]()
    for process in workloads.ARCHIVING:
        one: Any = objects["Deployment", claim["metadata"]["namespace"], f"topolog-{process}"]
        pod = one["spec"]["template"]["spec"]
        assert volume in pod["volumes"]
        security = pod["securityContext"]
        assert security["fsGroup"] == security["runAsUser"] == 10001
        mounts = {
            each["name"]: mount
            for each in pod["containers"]
            for mount in each["volumeMounts"]
            if mount["name"] == "archive"
        }
        ((container, mount),) = mounts.items()
        assert container != "kube-scheduler"
        assert mount["mountPath"] == PATH
        if not mount.get("readOnly"):
            writing.add(process)
    assert writing == {"compactor"}
    mounting = [name for (_, _, name), one in objects.items() if "persistentVolumeClaim" in json.dumps(one)]
    assert len(mounting) == len(workloads.ARCHIVING)


def test_a_volume_needs_no_network_policy() -> None:
    found = {name for kind, _, name in of_chart("archive-claim") if kind == "NetworkPolicy"}
    assert "topolog" in found
    assert "topolog-archive" not in found


@pytest.mark.parametrize("case", CASES)
def test_the_settings_are_read_as_they_were_given(case: str) -> None:
    objects = golden.stored(case)
    (data,) = [one["data"] for one in objects if "TOPOLOG_CLUSTER" in one.get("data", {})]
    loaded = settings.load(None, {**data, "TOPOLOG_STORE_URL": "redis://a:6379"})
    assert loaded.compaction.archive == on_page(case)[1]["archive"].get("url", PATH)
    assert archive_urls.flaw(loaded.compaction.archive) == ""


def test_identities_are_asked_for_only_without_keys() -> None:
    policies = {case: policy_of(case) for case in (*BUCKETS, "own-authority")}
    services = ("169.254.169.254/32", "169.254.170.23/32", "fd00:ec2::254/128", "fd00:ec2::23/128")
    asked = {case: all(one in json.dumps(each) for one in services) for case, each in policies.items()}
    assert asked == {"archive": False, "archive-identity": True, "own-authority": False}


def test_egress_is_restricted_to_the_given_addresses() -> None:
    (rule,) = policy_of("own-authority")["spec"]["egress"]
    assert rule == {
        "ports": [{"port": 443, "protocol": "TCP"}, {"port": 9000, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "10.2.0.0/16"}}],
    }


def policy_of(case: str) -> Object:
    (found,) = [one for one in golden.stored(case) if one["metadata"]["name"] == "topolog-archive"]
    return found


@pytest.mark.parametrize("name", KEYS)
def test_a_credential_is_not_a_value_of_the_chart(name: str) -> None:
    schema = json.loads((generated_files.CHART / "values.schema.json").read_text())
    variables = schema["properties"]["archive"]["properties"]["variables"]
    validator = jsonschema_rs.validator_for(variables)
    assert not validator.is_valid({name: "secret"})
    assert validator.is_valid({"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://a:9000"})
    assert name in how_to_pages.page(PAGE)


@pytest.mark.parametrize(
    "url", ["s3://bucket", "s3://bucket/", "gs://b/a/b", "az://c/p=1", "", "/a", "s3://", "s3://a?b", "s3:/a"]
)
def test_the_chart_accepts_urls_that_the_processes_accept(url: str) -> None:
    schema = json.loads((generated_files.CHART / "values.schema.json").read_text())
    accepted = jsonschema_rs.validator_for(schema["properties"]["archive"]["properties"]["url"]).is_valid(url)
    assert accepted == (archive_urls.flaw(url) == "" and (url == "" or "://" in url))
