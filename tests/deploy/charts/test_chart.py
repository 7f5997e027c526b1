"""The Helm chart, without Helm: its files are current, and what Helm renders of it is what kustomize has."""

import base64
import dataclasses
import json
import pathlib
import re
import subprocess
from collections.abc import Iterator

import jsonschema_rs
import pytest
import yaml
from _pytest.mark import ParameterSet

from app import settings
from app.doctor.scheduler import configurations
from tests.support import how_to_pages, kustomizations, manifests
from tests.support.charts import (
    effects,
    generated_files,
    golden,
    object_comparison,
    parts,
    recorded,
    schema,
    values,
    wrong,
)

Object = manifests.Object
CASES = sorted(golden.cases())
OF_CHART_ALONE = {"existing-scheduler": {("ConfigMap", "topolog-system", "topolog-kube-scheduler")}}
"""Overlay -> what users of kustomize have as a file in deploy/scheduler; a release has no files."""


@pytest.mark.parametrize("name", generated_files.names())
def test_every_file_that_is_made_is_current(name: str) -> None:
    path = generated_files.CHART / name
    assert path.read_text() == generated_files.files()[path], "run `make docs`"


def test_the_icon_is_the_drawing_of_the_dashboard() -> None:
    chart = yaml.safe_load((generated_files.CHART / "Chart.yaml").read_text())
    kind, _, drawing = chart["icon"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(drawing, validate=True) == generated_files.ICON.read_bytes()


def test_the_golden_output_is_of_this_chart() -> None:
    message = "run `python -m tests.support.charts.golden HELM` (python -m tests.e2e.go_programs builds Helm)"
    assert golden.DIGEST.read_text() == golden.digest(), message
    assert {path.stem for path in golden.FOLDER.glob("*.yaml")} == set(CASES)


@pytest.mark.parametrize("name", golden.OVERLAYS)
def test_chart_and_overlay_have_the_same_objects(name: str) -> None:
    ours = object_comparison.by_identity(golden.stored(name))
    theirs = object_comparison.by_identity(manifests.overlay(name))
    assert ours.keys() == theirs.keys() | OF_CHART_ALONE.get(name, set())
    for identity, one in theirs.items():
        assert ours[identity] == one, identity


def test_an_existing_kube_scheduler_gets_its_configuration_as_a_config_map() -> None:
    one = of_case("existing-scheduler")["ConfigMap", "topolog-kube-scheduler"]
    text = (manifests.DEPLOY / "scheduler" / "kube-scheduler-service.yaml").read_text()
    assert one["data"] == {"kube-scheduler.yaml": text}
    (ours,), (theirs,) = (configurations.read(each, "") for each in (json.dumps(one), text))
    assert dataclasses.replace(ours, source="") == theirs, "the doctor reads either"


def test_chart_and_component_of_quota_annotations_have_the_same_objects() -> None:
    ours = object_comparison.by_identity(golden.stored("quota-annotations"))
    theirs = object_comparison.by_identity(
        one
        for path in (manifests.DEPLOY / parts.ANNOTATIONS).glob("*.yaml")
        for one in manifests.documents(path)
        if one["kind"] not in manifests.NO_OBJECTS
    )
    assert ours == theirs
    assert len(ours) == 4


def test_chart_and_component_of_the_stores_tls_have_the_same_objects(tmp_path: pathlib.Path) -> None:
    usual = object_comparison.by_identity(manifests.overlay(values.DEFAULT))
    made = manifests.with_component(values.DEFAULT, "store-tls", tmp_path / "kustomization")
    theirs = {key: one for key, one in object_comparison.by_identity(made).items() if usual.get(key) != one}
    assert theirs == object_comparison.by_identity(golden.stored("store-tls"))
    # The six processes, the server, bootstrap, and what lets that one reach the server.
    assert [kind for kind, _, _ in sorted(theirs)] == [
        *["Deployment"] * 7,
        *["NetworkPolicy"] * 2,
        "StatefulSet",
    ]


@pytest.mark.parametrize("name", golden.OVERLAYS)
def test_every_object_of_an_overlay_is_of_one_template(name: str) -> None:
    assert parts.unknown(manifests.overlay(name)) == []
    names = [one for part in parts.parts().values() for one in part.names]
    assert len(names) == len(set(names))


# Values


def merged(given: Object, base: Object) -> Object:
    """Values over others, as Helm merges them."""
    made = dict(base)
    for name, value in given.items():
        both = isinstance(value, dict) and isinstance(made.get(name), dict)
        made[name] = merged(value, made[name]) if both else value
    return made


def default() -> Object:
    made: Object = yaml.safe_load((generated_files.CHART / "values.yaml").read_text())
    return made


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Validator:
    text = (generated_files.CHART / "values.schema.json").read_text()
    return jsonschema_rs.validator_for(json.loads(text))


def given_files() -> Iterator[ParameterSet]:
    for path in sorted(
        [*generated_files.CHART.glob("values*.yaml"), *generated_files.CHART.glob("ci/*.yaml")]
    ):
        yield pytest.param(kustomizations.document(path), id=path.name)


@pytest.mark.parametrize("given", list(given_files()))
def test_the_schema_accepts_every_file_of_values(given: Object, validator: jsonschema_rs.Validator) -> None:
    assert [error.message for error in validator.iter_errors(merged(given, default()))] == []


@pytest.mark.parametrize("mistake", wrong.TABLE, ids=lambda one: json.dumps(one.values))
def test_a_wrong_value_is_refused_with_its_path(
    mistake: wrong.Wrong, validator: jsonschema_rs.Validator
) -> None:
    errors = validator.iter_errors(merged(mistake.values, default()))
    paths = ["".join(f"/{part}" for part in error.instance_path) for error in errors]
    assert mistake.path in paths


def test_the_table_is_long_enough() -> None:
    assert len(wrong.TABLE) >= 30


def test_every_setting_that_is_not_secret_may_be_given() -> None:
    document = json.loads((generated_files.CHART / "values.schema.json").read_text())
    groups = document["properties"]["config"]["properties"]
    allowed = {f"{group}.{name}" for group, one in groups.items() for name in one["properties"]}
    every = {each.name: each.rule for each in settings.describe() if len(each.path) > 1}
    assert allowed <= every.keys()
    assert not {name for name in allowed if every[name].secret or every[name].quiet}
    missing = {
        name
        for name in every
        if name not in allowed and name.partition(".")[0] not in ("tls", "kube", "client")
    }
    assert missing == {"store.url", *schema.FIXED}


def test_every_value_is_used_by_a_template() -> None:
    texts = "".join(
        path.read_text() for path in (generated_files.CHART / "templates").rglob("*") if path.is_file()
    )
    for name, value in values.of_overlay(values.DEFAULT).items():
        leaves = [name] if name in ("cluster", "config", "imagePullSecrets") else list(value)
        for leaf in leaves:
            where = f".Values.{name}" if leaf == name else f".Values.{name}.{leaf}"
            assert any(each in texts for each in (where, f"${name}.{leaf}", f'"{leaf}" "')), where


def test_every_value_has_a_test_of_its_effect() -> None:
    """tests/e2e/deploy/test_chart.py runs them."""
    assert {one.path for one in effects.effects()} == set(effects.leaves(default()))


def released() -> list[str]:
    """The tags of this repository; none in a copy without git."""
    done = subprocess.run(
        ["git", "-C", manifests.DEPLOY, "tag", "--list", "v*", "--sort=-v:refname"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


def test_the_recorded_values_are_those_of_the_chart() -> None:
    message = "values were added, removed or renamed: run `python -m tests.support.charts.recorded`"
    assert recorded.FILE.read_text().splitlines() == recorded.text().splitlines(), message


def test_no_value_of_the_last_release_vanishes() -> None:
    for tag in released()[:1]:
        path = f"{tag}:./{recorded.FILE.name}"
        command = ["git", "-C", str(recorded.FILE.parent), "show", path]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert recorded.vanished(text.splitlines(), recorded.text().splitlines()) == []
    changelog = (manifests.DEPLOY.parent / "CHANGELOG.md").read_text()
    assert [path for path in values.REMOVED if f"`{path}`" not in changelog] == []


def test_a_value_that_vanishes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    former = recorded.text().splitlines()
    assert recorded.vanished(former, [*former, "view.more"]) == []
    renamed = [path.replace("config.audit.page", "config.audit.size") for path in former]
    assert recorded.vanished(former, renamed) == ["config.audit.page"]
    later = [path for path in former if not path.startswith("rbac.")]
    assert recorded.vanished(former, later) == ["rbac.aggregate", "rbac.create"]
    monkeypatch.setattr(values, "REMOVED", {"rbac": "0.2.0"})
    assert recorded.vanished(former, later) == []


def of_case(case: str) -> dict[tuple[str, str], Object]:
    return {(one["kind"], one["metadata"]["name"]): one for one in golden.stored(case)}


def test_settings_become_variables_that_are_read_as_they_were_given() -> None:
    (found,) = [
        one
        for key, one in of_case("external-store").items()
        if key[1].startswith("topolog-") and key[0] == "ConfigMap" and "TOPOLOG_CLUSTER" in one["data"]
    ]
    loaded = settings.load(None, {**found["data"], "TOPOLOG_STORE_URL": "redis://a:6379"})
    assert (loaded.cluster, loaded.logging.level, loaded.limits.names_body) == (
        "production",
        "warning",
        1048576,
    )
    assert loaded.plugins.args == {"WorkloadPolicy": {"enforce": "selected"}}


def test_the_pods_follow_the_settings_that_concern_them() -> None:
    usual, synced = of_case(values.DEFAULT), of_case("synced")
    for found, seconds, always in ((usual, 30, False), (synced, 80, True)):
        extender = found["Deployment", "topolog-extender"]["spec"]["template"]["spec"]
        assert extender["terminationGracePeriodSeconds"] == seconds
        (server,) = found["StatefulSet", "topolog-valkey"]["spec"]["template"]["spec"]["containers"]
        assert (server["args"][-2:] == ["--appendfsync", "always"]) is always


def test_the_bundled_store_follows_the_settings_of_its_access_list_and_no_others() -> None:
    """Its init container refuses a wrong setting, and the store would not start."""
    store = ("StatefulSet", "topolog-valkey")
    (users,) = of_case("synced")[store]["spec"]["template"]["spec"]["initContainers"]
    given = {each["name"]: each["value"] for each in users["env"]}
    assert given == {"TOPOLOG_CLUSTER": "default", "TOPOLOG_STORE_PLACEMENTS": "fsync"}
    archiving = of_case("archive")
    assert ("Deployment", "topolog-recorder") in archiving, "it has another ConfigMap of settings"
    assert store not in archiving


def test_with_certificates_of_others_bootstrap_makes_passwords_alone() -> None:
    pod = of_case("cert-manager")["Deployment", "topolog-bootstrap"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][2:] == [
        "--store-url=redis://topolog-valkey:6379",
        "--no-certificates",
    ]
    issued = [one for (kind, _), one in of_case("cert-manager").items() if kind == "Certificate"]
    assert {one["spec"]["issuerRef"]["name"] for one in issued} == {"internal"}
    assert {kind for kind, _ in of_case("cert-manager")} >= {"Certificate"}
    assert ("Issuer", "topolog-ca") in of_case("own-authority")


def test_the_secret_of_a_url_is_named_by_its_content_and_every_process_reads_it() -> None:
    """Another URL then restarts every process."""
    found = golden.stored("external-url")
    (name,) = (one["metadata"]["name"] for one in found if one["kind"] == "Secret")
    assert re.fullmatch(r"topolog-store-[a-z0-9]{10}", name)
    pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment"]
    variables = [
        variable["valueFrom"]["secretKeyRef"]["name"]
        for pod in pods
        for container in (*pod["containers"], *pod.get("initContainers", []))
        for variable in container.get("env", [])
        if variable["name"] == "TOPOLOG_STORE_URL"
    ]
    assert len(variables) > 6
    assert set(variables) == {name}


@pytest.mark.parametrize("case", golden.OVERLAYS)
def test_a_config_map_with_a_hash_outlives_the_revision_whose_pods_read_it(case: str) -> None:
    """A pod of the former revision that restarts before the new ones are ready needs it."""
    hashed_name = f"({'|'.join(parts.GENERATED)})-[a-z0-9]{{10}}"
    kept = {
        one["metadata"]["name"]
        for one in golden.stored(case)
        if one["kind"] == "ConfigMap"
        and one["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    hashed = {
        one["metadata"]["name"]
        for one in golden.stored(case)
        if one["kind"] == "ConfigMap" and re.fullmatch(hashed_name, one["metadata"]["name"])
    }
    assert kept == hashed
    assert len(kept) == {"dev": 3, "ha": 3, "existing-scheduler": 2}[case]


def test_network_policies_open_the_ports_of_the_cluster_and_of_its_store() -> None:
    spec = of_case("own-authority")["NetworkPolicy", "topolog"]["spec"]
    ports = [[each["port"] for each in rule["ports"]] for rule in spec["egress"]]
    assert ports == [[53, 53], [8443], [6378, 10000]]
    (peer,) = spec["ingress"][0]["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "observability"}


def test_the_admission_policies_have_the_schedulers_of_the_values() -> None:
    data = of_case("everything")["ConfigMap", "topolog-admission"]["data"]
    assert data["schedulerNames"] == "topolog-scheduler,default-scheduler"


def test_an_autoscaler_sets_the_number_of_extenders() -> None:
    objects = of_case("several-schedulers")
    deployment = objects["Deployment", "topolog-extender"]
    spec = objects["HorizontalPodAutoscaler", "topolog-extender"]["spec"]
    names = {"apiVersion": deployment["apiVersion"], "kind": "Deployment", "name": "topolog-extender"}
    assert spec["scaleTargetRef"] == names
    assert "replicas" not in deployment["spec"], "an upgrade would set it against the autoscaler"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "cpu" in container["resources"]["requests"], "otherwise there is no percentage of it"
    (block,) = how_to_pages.blocks("install-existing-scheduler.md", "yaml")
    given = yaml.safe_load(block)["extender"]["hpa"]
    scaled = f"scale deployment/topolog-extender --replicas={given['minReplicas']}`"
    assert scaled in how_to_pages.page("install-existing-scheduler.md"), "the API server sets 1 at first"
    assert (
        given
        == yaml.safe_load((generated_files.CHART / "ci" / "several-schedulers-values.yaml").read_text())[
            "extender"
        ]["hpa"]
    )


def test_extenders_of_an_autoscaler_are_scaled_up_again_where_a_page_stops_every_process() -> None:
    """A HorizontalPodAutoscaler leaves its target at 0, and so does a manifest without a number."""
    texts = {path.name: path.read_text() for path in how_to_pages.paths()}
    stopping = {name: text for name, text in texts.items() if "scale deployment --all --replicas=0" in text}
    assert stopping.keys() == {"replace-the-store.md"}
    for text in stopping.values():
        kustomize, _, chart = text.partition("\n## With the chart\n")
        scaled = re.search(r"scale deployment/topolog-extender --replicas=[1-9]", kustomize)
        assert scaled
        assert scaled.start() > kustomize.index("kubectl apply -k")
        assert re.search(r"`extender\.hpa`.*scale them to its `minReplicas`", chart)


def test_further_names_are_given_to_bootstrap() -> None:
    pod = of_case("everything")["Deployment", "topolog-bootstrap"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][3:] == [
        "--host=topolog.internal",
        "--host=10.0.0.7",
        "--host=fd00::7",
    ]


def test_the_test_of_the_release_exists_only_as_a_hook() -> None:
    hooks = [one for one in golden.stored(values.DEFAULT) if object_comparison.is_hook(one)]
    assert {one["kind"] for one in hooks} == {
        "Pod",
        "ServiceAccount",
        "ClusterRoleBinding",
        "RoleBinding",
        "NetworkPolicy",
    }
    (pod,) = [one["spec"] for one in hooks if one["kind"] == "Pod"]
    (container,) = pod["containers"]
    assert container["args"][:3] == ["doctor", "all", "--fail-on=problem"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
