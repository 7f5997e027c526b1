"""The plugins of a process: those in the tree, and those that an installed distribution offers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import plugins
from app.domain import schema
from app.framework import registry, registry_builder
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
    assert found.schema.forms == "2,quota.3,sigsquota.3,sizes.1"
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
