"""Declarations of the in-tree plugins: capabilities, arguments, endpoints and README files."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app import following_process, plugins
from app.cli.get import resources
from app.domain import snapshots
from app.framework import capabilities, registry, registry_builder, views
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.node_label_priority.plugin import NodeLabelPriority
from app.plugins.preemption_rules.plugin import PreemptionRules
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.serving.access import roles
from app.serving.tls import role_names
from tests.support import declared

KINDS = [pytest.param(kind, id=kind.name) for kind in plugins.IN_TREE]


if TYPE_CHECKING:  # mypy compares the types of results, too.
    labels, job, policy = NodeLabelPriority(), JobAffinity(), WorkloadPolicy()
    evicting, quota, gang = PreemptionRules(), ElasticQuota(), Coscheduling()
    owns: tuple[capabilities.Owns, ...] = (policy, evicting, quota, gang)
    counts: tuple[capabilities.Counts, ...] = (policy, quota)
    indexes: tuple[capabilities.Indexes, ...] = (job, policy, gang)
    keeps: tuple[capabilities.Keeps, ...] = (gang,)
    filters: tuple[capabilities.Filters, ...] = (labels, policy, quota, gang)
    classifies: tuple[capabilities.Classifies, ...] = (labels, policy, quota, gang)
    sums: tuple[capabilities.Sums, ...] = (labels, policy, quota)
    advises: tuple[capabilities.Advises, ...] = (labels, policy, quota, gang)
    degrades: tuple[capabilities.Degrades, ...] = (policy, quota, gang)
    narrows: tuple[capabilities.Narrows, ...] = (policy, quota, gang)
    scores: tuple[capabilities.Scores, ...] = (labels, job, policy)
    breaks_ties: tuple[capabilities.BreaksTies, ...] = (policy,)
    reserves: tuple[capabilities.Reserves, ...] = (policy, quota, gang)
    preempts: tuple[capabilities.Preempts, ...] = (quota, gang)
    adjusts: tuple[capabilities.Adjusts, ...] = (evicting, quota)
    budgets: tuple[capabilities.Budgets, ...] = (evicting,)
    consults: tuple[capabilities.Consults, ...] = (gang,)
    groups: tuple[capabilities.Groups, ...] = (gang,)
    shows: tuple[capabilities.Shows, ...] = (labels, job, policy, evicting, quota, gang)
    measures: tuple[capabilities.Measures, ...] = (policy,)
    exceeds: tuple[capabilities.Exceeds, ...] = (quota,)
    wakes: tuple[capabilities.Wakes, ...] = (policy, quota)
    supposes: tuple[capabilities.Supposes, ...] = (policy, quota, gang)
    reconciles: tuple[capabilities.Reconciles, ...] = (policy, quota, gang)
    evicts: tuple[capabilities.Evicts, ...] = (quota,)
    diagnoses: tuple[capabilities.Diagnoses, ...] = (policy,)
    discloses: tuple[capabilities.Discloses, ...] = (quota, gang)


def parameters(method: Callable[..., object]) -> list[tuple[object, object]]:
    """Kind and type of each parameter: callers pass arguments by position."""
    return [(one.kind, one.annotation) for one in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_methods_can_be_called_as_the_capabilities_declare(kind: type[capabilities.Plugin]) -> None:
    """isinstance compares names only, and who calls a plugin uses nothing but the capability."""
    plugin = kind()
    implemented = [one for one in capabilities.KNOWN if isinstance(plugin, one)]
    assert implemented
    for capability in implemented:
        for name, method in inspect.getmembers(capability, inspect.isfunction):
            if not name.startswith("_"):
                assert parameters(getattr(plugin, name)) == parameters(method)[1:], name  # without self


def folder(kind: type) -> Path:
    return Path(inspect.getfile(kind)).parent


@pytest.mark.parametrize("kind", KINDS)
def test_a_plugin_is_declared_on_one_page(kind: type) -> None:
    assert len((folder(kind) / "plugin.py").read_text().splitlines()) <= 80


@pytest.mark.parametrize("kind", KINDS)
def test_the_readme_names_every_argument_and_endpoint(kind: type[NodeLabelPriority]) -> None:
    text = (folder(kind) / "README.md").read_text()
    assert text.startswith(f"# {kind.name}\n")
    section = text.partition("\n## Arguments\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
    assert documented == {field.name for field in dataclasses.fields(kind)}
    for endpoint in kind().shown().endpoints:
        path = endpoint.path.replace("<", "{").replace(">", "}")
        assert path in text or path.partition("/")[2] in text
    assert {"## Why", "## Arguments", "## Limits"} <= set(text.splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_endpoints_answer_on_an_empty_cluster(kind: type[NodeLabelPriority]) -> None:
    for endpoint in kind().shown().endpoints:
        answer = endpoint.handle(snapshots.empty(schema=declared.SCHEMA), {"namespace": "ns", "name": "none"})
        assert endpoint.summary
        assert endpoint.example
        if "<" in endpoint.path:
            assert answer is None
        else:
            assert isinstance(answer, views.Listed)
            assert list(answer.keys) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_shows_what_its_endpoint_returns(kind: type[NodeLabelPriority]) -> None:
    endpoints = {endpoint.path: endpoint for endpoint in kind().shown().endpoints}
    for table in kind.tables:
        example = endpoints[table.path].example
        assert isinstance(example, list)
        for path in table.columns.values():
            assert set(path.split("+")) <= example[0].keys(), path
        assert table.named == any(path.startswith(f"{table.path}/<") for path in endpoints)
        if table.named:
            namespaced = f"{table.path}/<namespace>/<name>" in endpoints
            if namespaced != bool(table.namespace):
                assert namespaced, "get NAME -n NAMESPACE needs both"
                assert table.identity, "only an identity is a name with and without a namespace"
        assert resources.RESOURCES[table.name].path == f"plugins/{kind.name}/{table.path}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_route_requires_the_role_that_its_plugin_declares(kind: type[NodeLabelPriority]) -> None:
    """The table of roles as the extender builds it: the declared role may call the path, a lesser one not."""
    rules = following_process.rules_of(registry.Registry([kind()]))
    for endpoint in kind().shown().endpoints:
        path = f"/apis/v1/plugins/{kind.name}/{endpoint.path.replace('<', '').replace('>', '')}"
        allowed = {
            role
            for role in role_names.ROLES
            if isinstance(
                roles.RoleBindings(anonymous=[role], rules=rules).authorize({}, "GET", path), roles.Identity
            )
        }
        assert allowed == {endpoint.role, "operator"}, path


def test_every_table_of_a_plugin_is_a_kind_of_the_command_line() -> None:
    """And what is not a table of a plugin belongs to the core."""
    tables = {table.name for kind in plugins.IN_TREE for table in kind.tables}
    of_plugins = {name for name, found in resources.RESOURCES.items() if found.path.startswith("plugins/")}
    assert of_plugins == tables


def test_no_two_kinds_of_the_command_line_share_a_name() -> None:
    names = [table.name for kind in plugins.IN_TREE for table in kind.tables]
    assert len(names) == len(set(names)) >= 3


def test_all_plugins_work_together_as_configured() -> None:
    registry = registry_builder.build(
        plugins.IN_TREE,
        enabled=[kind.name for kind in plugins.IN_TREE],
        weights={"WorkloadPolicy": 3},
        score_max=100,
        args={
            "WorkloadPolicy": {"missing_policy": "ignore"},
            "NodeLabelPriority": {"scheduler_names": ["a", "b"], "label": "x"},
            "JobAffinity": {"grades": [["zone", 3]], "all_namespaces": True},
            "ElasticQuota": {"check_parents": True},
            "PreemptionRules": {"co_dependents": "ignore"},
            "Coscheduling": {"layers": ["rack"]},
        },
    )
    assert registry.plugins == (
        NodeLabelPriority(scheduler_names=("a", "b"), label="x"),
        JobAffinity(grades=(("zone", 3),), all_namespaces=True),
        WorkloadPolicy(missing_policy="ignore"),
        PreemptionRules(co_dependents="ignore"),
        ElasticQuota(check_parents=True),
        Coscheduling(layers=("rack",)),
    )
    named = {"rl-job-group", "workload-policy/kosmos.io", "workload-policy.kosmos.io"}
    assert registry.indexed() == {*named, *Coscheduling().indexed()}


@pytest.mark.parametrize(
    "args",
    [
        {"WorkloadPolicy": {"missing_policy": "maybe"}},
        {"WorkloadPolicy": {"max_woken": 0}},
        {"WorkloadPolicy": {"enforce": "all"}},
        {"JobAffinity": {"grades": [["zone", 10]]}},
        {"JobAffinity": {"grades": [["", 3]]}},
        {"NodeLabelPriority": {"scheduler_names": "a"}},
        {"PreemptionRules": {"co_dependents": "evict"}},
        {"ElasticQuota": {"invalid_quota": "maybe"}},
    ],
)
def test_invalid_arguments_are_refused(args: dict[str, dict[str, object]]) -> None:
    with pytest.raises(ValueError, match=r"plugins\.args\."):
        registry_builder.build(plugins.IN_TREE, enabled=list(args), weights={}, score_max=10, args=args)


@pytest.mark.parametrize("value", ["all", "Selected", True, None, ["selected"]])
def test_enforce_accepts_only_two_values(value: object) -> None:
    text = re.escape(f"plugins.args.WorkloadPolicy.enforce is {value!r}; allowed: named, selected")
    args = {"WorkloadPolicy": {"enforce": value}}
    with pytest.raises(ValueError, match=text):
        registry_builder.build(
            plugins.IN_TREE, enabled=["WorkloadPolicy"], weights={}, score_max=10, args=args
        )
