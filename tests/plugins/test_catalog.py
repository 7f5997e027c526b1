"""The plugins of a process: those in the tree, and those that an installed distribution offers."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import exit_codes, plugins
from app.domain import schema
from app.framework import registry, registry_builder, supposed_operations
from app.verbs.questions import operations
from tests.support import declared, distributions

MODULE = """
from dataclasses import dataclass
from typing import ClassVar

from tests.support import gadgets


@dataclass(frozen=True)
class Gadgeteer:
    name: ClassVar[str] = "Gadgeteer"

    def interested(self, pod):
        return False

    def kinds(self):
        return (gadgets.GADGETS,)

    def counters(self):
        return (gadgets.SIZES,)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed distributions."""
    with distributions.importable(tmp_path, "gadgeteer_plugin", "broken_plugin"):
        yield tmp_path


GADGETEER = {"Gadgeteer": "gadgeteer_plugin:Gadgeteer"}


def test_the_schema_is_that_of_all_plugins_in_the_tree() -> None:
    found = plugins.catalog()
    assert found.classes == plugins.IN_TREE
    assert [kind.name for kind in found.schema.kinds] == [
        "workloadpolicies",
        "poddisruptionbudgets",
        "elasticquotas",
        "sigselasticquotas",
        "koordinatorpodgroups",
        "sigspodgroups",
        "nativepodgroups",
        "workloads",
        "clusternetworktopologies",
    ]
    assert found.schema == plugins.catalog().schema
    assert found.schema != schema.Schema()


def test_a_distribution_brings_kinds_and_counters(site: Path) -> None:
    distributions.install(site, "gadgeteer", GADGETEER, {"gadgeteer_plugin": MODULE})
    found = plugins.catalog()
    assert [one.name for one in found.classes][-1] == "Gadgeteer"
    assert found.schema.names == declared.SCHEMA.names | {"gadgets"}
    assert found.schema.forms == "2,quota.6,sigsquota.4,sizes.1"
    # It is enabled by its name only.
    assert plugins.names(("*",)) == tuple(plugin.name for plugin in plugins.USUAL)
    chosen = registry_builder.build(
        found.classes, enabled=plugins.names(("Gadgeteer", "*")), weights={}, score_max=10, args={}
    )
    assert [one.name for one in chosen.plugins] == ["Gadgeteer", *plugins.names(("*",))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("Y = 1", "AttributeError"),
        ("X = 1", "broken_plugin:X is not a class"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_distribution(
    site: Path, text: str, reason: str
) -> None:
    distributions.install(site, "broken", {"X": "broken_plugin:X"}, {"broken_plugin": text})
    with pytest.raises(registry_builder.PluginUnusable) as raised:
        plugins.catalog()
    assert "distribution broken 1.4 cannot be loaded" in str(raised.value)
    assert reason in str(raised.value)
    assert "or uninstall it" in str(raised.value)
    assert isinstance(raised.value, registry.ConfigurationRefused)


def test_declarations_that_contradict_those_in_the_tree_are_refused(site: Path) -> None:
    text = MODULE.replace("gadgets.GADGETS,", "gadgets.declared.POLICIES,").replace("gadgets.SIZES,", "")
    distributions.install(site, "gadgeteer", GADGETEER, {"gadgeteer_plugin": text})
    with pytest.raises(registry.ConfigurationRefused, match="the same kind: workloadpolicies"):
        plugins.catalog()


OPERATOR = """
from dataclasses import dataclass
from typing import ClassVar

from app.framework import supposed_operations


class Renamed(supposed_operations.Operation, frozen=True, tag="TAG"):
    usage: ClassVar[str] = "USAGE"
    FIELDS


@dataclass(frozen=True)
class NAME:
    name: ClassVar[str] = "NAME"

    def interested(self, pod):
        return False

    def operations(self):
        return (Renamed,)
"""
FIELD = "rack: str"


def operator(site: Path, name: str, tag: str, usage: str, fields: str = FIELD) -> None:
    """Install a distribution with a plugin that declares one operation."""
    text = (
        OPERATOR.replace("NAME", name).replace("TAG", tag).replace("USAGE", usage).replace("FIELDS", fields)
    )
    module = f"{name.lower()}_plugin"
    distributions.install(site, name.lower(), {name: f"{module}:{name}"}, {module: text})


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (
            ("closeRack", "--close RACK"),
            ("closeRack", "--shut RACK"),
            "plugins Gadgeteer and Operator both declare the override closeRack; give that of one of them"
            " another name, or uninstall its distribution",
        ),
        (("closeRack", ""), ("closerack", ""), "Gadgeteer and Operator both declare the override closerack;"),
        (
            ("closeRack", "--close RACK"),
            ("shutRack", "--close WHICH"),
            "plugins Gadgeteer and Operator both declare overrides with the option --close; give that of one"
            " of them another option, or uninstall its distribution",
        ),
        (("aRack", ""), ("scaleQuota", ""), "plugins ElasticQuota and Operator both declare the override"),
        (
            ("aRack", ""),
            ("b", "--scale A"),
            "WorkloadPolicy and Operator both declare overrides with the option",
        ),
        (
            ("aRack", ""),
            ("addnodes", ""),
            "plugin Operator declares the override addnodes, which exists without a plugin; give it another"
            " name, or uninstall the distribution of the plugin",
        ),
    ],
)
def test_overrides_of_one_name_or_option_are_refused(
    tmp_path: Path, one: tuple[str, str], other: tuple[str, str], text: str
) -> None:
    with distributions.importable(tmp_path, "gadgeteer_plugin", "operator_plugin"):
        operator(tmp_path, "Gadgeteer", *one)
        assert len(plugins.catalog().operations) > 1
        operator(tmp_path, "Operator", *other)
        with pytest.raises(registry.ConfigurationRefused, match=re.escape(text)):
            plugins.catalog()


def test_an_override_without_an_option_clashes_by_its_name_alone(tmp_path: Path) -> None:
    with distributions.importable(tmp_path, "gadgeteer_plugin", "operator_plugin"):
        operator(tmp_path, "Gadgeteer", "closeRacks", "--close", "")
        operator(tmp_path, "Operator", "closeRack", "--close RACK")
        assert [one.__name__ for one in plugins.catalog().operations][-2:] == ["Renamed", "Renamed"]


def refused(site: Path, command: str, sentence: str) -> None:
    """A command in a process of its own, where the distributions are installed, ends with the sentence."""
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", command, "--help"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_codes.SETTINGS
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_names_the_plugins_whose_overrides_clash(tmp_path: Path) -> None:
    operator(tmp_path, "Gadgeteer", "closeRack", "")
    operator(tmp_path, "Operator", "closeRack", "")
    refused(tmp_path, "simulate", "plugins Gadgeteer and Operator both declare the override closeRack;")


def test_the_reserved_names_are_those_of_the_operations_that_need_no_plugin() -> None:
    core = {supposed_operations.described(one).op for one in operations.CORE}
    assert core == supposed_operations.RESERVED


TABULAR = """
from dataclasses import dataclass
from typing import ClassVar

from app.framework import views


@dataclass(frozen=True)
class NAME:
    name: ClassVar[str] = "NAME"
    tables: ClassVar = (views.Table("TABLE", "items", "items", {"NAME": "name"}),)

    def interested(self, pod):
        return False

    def shown(self):
        return views.Shown()
"""


def tabular(site: Path, name: str, table: str) -> None:
    """Install a distribution with a plugin that declares one table of ``topolog get``."""
    module = f"{name.lower()}_plugin"
    text = TABULAR.replace("NAME", name).replace("TABLE", table)
    distributions.install(site, name.lower(), {name: f"{module}:{name}"}, {module: text})


def test_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    with distributions.importable(tmp_path, "gadgeteer_plugin", "operator_plugin"):
        tabular(tmp_path, "Gadgeteer", "racks")
        assert [(plugin, table.name) for plugin, table in plugins.catalog().tables][-1] == (
            "Gadgeteer",
            "racks",
        )
        tabular(tmp_path, "Operator", "racks")
        text = "plugins Gadgeteer and Operator both declare the table racks; give that of one of them another"
        with pytest.raises(registry.ConfigurationRefused, match=text):
            plugins.catalog()


@pytest.mark.parametrize("table", ["nodes", "po"])
def test_a_table_with_the_name_of_a_kind_of_the_core_is_refused(tmp_path: Path, table: str) -> None:
    tabular(tmp_path, "Gadgeteer", table)
    refused(tmp_path, "get", f"plugin Gadgeteer declares the table {table}, which exists without a plugin;")
