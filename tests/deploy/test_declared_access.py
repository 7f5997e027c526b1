"""The manifests follow from what the plugins declare: permissions, and definitions of custom resources."""

import copy
import dataclasses
import pathlib
import re
from typing import Any

from app import plugins
from app.framework import capabilities
from app.plugins.elastic_quota import annotations
from app.plugins.elastic_quota.trees import membership
from app.plugins.workload_policy import logic
from app.plugins.workload_policy import plugin as workload_policy
from tests.support import declared_access, distributions, manifests, plugin_page

IN_TREE: list[capabilities.Plugin] = [plugin() for plugin in plugins.IN_TREE]
ROLES = manifests.DEPLOY / "rbac"
DEFINITIONS = manifests.DEPLOY / "crds"
BUILT_IN = {"": {"nodes", "pods", "pods/status", "pods/binding", "events"}, "events.k8s.io": {"events"}}
"""API group -> resources that processes use whatever plugins declare."""


def rbac_problems(given: list[capabilities.Plugin]) -> list[str]:
    found: list[str] = []
    for process, wanted in declared_access.needed(given).items():
        path = ROLES / f"{process}.yaml"
        where = path.relative_to(manifests.DEPLOY.parent).as_posix()
        roles = [each for each in manifests.documents(path) if each["kind"] == "ClusterRole"]
        granted = {right for role in roles for right in declared_access.granted(role)}
        of_kinds = {right for right in granted if right[1] not in BUILT_IN.get(right[0], ())}
        found += declared_access.differences(where, wanted, of_kinds)
    return found


def definition_problems(given: list[capabilities.Plugin]) -> list[str]:
    found: list[str] = []
    expected = {"kustomization.yaml"}
    written = declared_access.statuses(given)
    (listed,) = manifests.documents(DEFINITIONS / "kustomization.yaml")
    for kind in declared_access.kinds(given):
        if "." not in kind.group:
            continue  # Kubernetes has it.
        if kind.optional:
            continue  # The project that defines it installs it.
        name = f"{kind.group}_{kind.resource}.yaml"
        where, expected = f"deploy/crds/{name}", {*expected, name}
        if not (DEFINITIONS / name).exists():
            found.append(f"{where} is missing: kind {kind.name} is a custom resource")
            continue
        if name not in listed["resources"]:
            found.append(f"deploy/crds/kustomization.yaml does not list {name}")
        (definition,) = manifests.documents(DEFINITIONS / name)
        found += declared_access.definition_problems(where, definition, kind, written)
    excess = {path.name for path in DEFINITIONS.iterdir()} - expected
    return found + [f"deploy/crds/{name}: no plugin declares this kind" for name in sorted(excess)]


def test_a_manifest_may_have_the_fields_of_the_definition_and_no_others() -> None:
    def below(schema: dict[str, Any]) -> dict[str, Any]:
        schema = schema.get("items", schema)
        return {name: below(part) for name, part in schema.get("properties", {}).items()}

    for kind in declared_access.kinds(IN_TREE):
        path = DEFINITIONS / f"{kind.group}_{kind.resource}.yaml"
        if path.exists():
            (definition,) = manifests.documents(path)
            (version,) = definition["spec"]["versions"]
            assert kind.spec == below(version["schema"]["openAPIV3Schema"])["spec"]


def test_permissions_are_those_that_the_declared_kinds_need() -> None:
    assert rbac_problems(IN_TREE) == []


def test_the_right_to_evict_is_a_component_as_a_plugin_declares_it() -> None:
    (role,) = manifests.objects("ClusterRole", "components/evictions")
    assert declared_access.granted(role) == declared_access.on_request(IN_TREE)
    without = [one for one in IN_TREE if not isinstance(one, capabilities.Evicts)]
    assert declared_access.on_request(without) == set()
    (binding,) = manifests.objects("ClusterRoleBinding", "components/evictions")
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("topolog-controller", "topolog-system")


def test_the_doctor_may_read_every_declared_kind() -> None:
    roles = [
        each for each in manifests.objects("ClusterRole", "roles") if "doctor" in each["metadata"]["name"]
    ]
    granted = {right for role in roles for right in declared_access.granted(role)}
    wanted = {
        (one.group, one.resource, verb) for one in declared_access.kinds(IN_TREE) for verb in ("get", "list")
    }
    assert wanted - granted == set()


def test_each_declared_custom_resource_has_its_definition() -> None:
    assert definition_problems(IN_TREE) == []


def test_the_policy_of_quotas_admits_the_annotations_that_are_written() -> None:
    (policy,) = manifests.objects("ValidatingAdmissionPolicy", "components/quota-annotations")
    variables = {one["name"]: one["expression"] for one in policy["spec"]["variables"]}
    assert tuple(re.findall(r"'([a-z-]+)'", variables["written"])) == annotations.NAMES
    (account,) = re.findall(r"'([^']+)'", policy["spec"]["matchConditions"][0]["expression"])
    (binding,) = manifests.objects("ClusterRoleBinding", "components/quota-annotations")
    (subject,) = binding["subjects"]
    assert account == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


def test_differences_are_reported_with_the_file_and_the_right() -> None:
    """Without the plugin that declares a kind, everything about it is in excess."""
    without = [one for one in IN_TREE if not isinstance(one, workload_policy.WorkloadPolicy)]
    assert len(without) == len(IN_TREE) - 1
    found = rbac_problems(without)
    prefix = "of workloadpolicies in the API group kosmos.io, which no plugin declares"
    assert f"deploy/rbac/auditor.yaml: remove `list` {prefix}" in found
    assert f"deploy/rbac/recorder.yaml: remove `watch` {prefix}" in found
    assert len(found) == 3 + 2 + 2
    assert definition_problems(without) == [
        "deploy/crds/kosmos.io_workloadpolicies.yaml: no plugin declares this kind"
    ]
    (kind,) = declared_access.kinds([workload_policy.WorkloadPolicy()])
    (definition,) = manifests.documents(DEFINITIONS / "kosmos.io_workloadpolicies.yaml")
    later = dataclasses.replace(kind, versions=("v1", "v1alpha1"), namespaced=False)
    bare = copy.deepcopy(definition)
    del bare["spec"]["versions"][0]["subresources"]
    assert declared_access.definition_problems("F", bare, later, {kind.name}) == [
        "F: spec.scope: 'Namespaced', but kind workloadpolicies declares 'Cluster'",
        "F: served versions: ['v1alpha1'], but kind workloadpolicies declares ['v1', 'v1alpha1']",
        "F: version v1alpha1 needs subresources.status; a plugin writes the status",
    ]


def test_the_manifests_of_the_example_fit_its_declarations(tmp_path: pathlib.Path) -> None:
    plugin_page.install(tmp_path)
    with distributions.importable(tmp_path, *plugin_page.MODULES):
        example = [plugins.catalog().classes[-1]()]
    page = plugin_page.PAGE.name
    found: list[str] = []
    roles = {each["metadata"]["name"]: each for each in plugin_page.objects("ClusterRole")}
    for process, wanted in declared_access.needed(example).items():
        role = roles.pop(f"topolog-{process}-podlimits", {"rules": []})
        found += declared_access.differences(f"{page}, {process}", wanted, declared_access.granted(role))
    (kind,) = declared_access.kinds(example)
    (definition,) = plugin_page.objects("CustomResourceDefinition")
    written = declared_access.statuses(example)
    found += declared_access.definition_problems(page, definition, kind, written)
    assert (found, roles) == ([], {})
    (limit,) = plugin_page.objects("PodLimit")
    assert limit["apiVersion"] == f"{kind.group}/{kind.versions[0]}"


def test_the_admission_policies_read_every_label_that_names_a_quota() -> None:
    labels = manifests.one("ConfigMap", "topolog-admission", "admission")["data"]["labels"].split(",")
    assert sorted(labels) == sorted((logic.LABEL, logic.ALIAS, membership.LABEL))
