"""The plugins of a process: those in the tree, and those that an installed distribution offers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import plugins
from app.domain import schema
from app.framework import configuring, registry

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
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("gadgeteer_plugin", "broken_plugin"):
        sys.modules.pop(name, None)


def install(site: Path, name: str, entry: str, module: str, text: str) -> None:
    info = site / f"{name}-1.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.4\n")
    (info / "entry_points.txt").write_text(f"[topolog.plugins]\n{entry}\n")
    (site / f"{module}.py").write_text(text)


def test_the_schema_is_that_of_all_plugins_in_the_tree() -> None:
    found = plugins.catalog()
    assert found.classes == plugins.IN_TREE
    assert [kind.name for kind in found.schema.kinds] == ["workloadpolicies", "poddisruptionbudgets"]
    assert found.schema == plugins.catalog().schema
    assert found.schema != schema.Schema()


def test_a_distribution_brings_kinds_and_counters(site: Path) -> None:
    install(site, "gadgeteer", "Gadgeteer = gadgeteer_plugin:Gadgeteer", "gadgeteer_plugin", MODULE)
    found = plugins.catalog()
    assert [one.name for one in found.classes][-1] == "Gadgeteer"
    assert found.schema.names == {"nodes", "pods", "workloadpolicies", "poddisruptionbudgets", "gadgets"}
    assert found.schema.forms == "2,sizes.1"
    # It is enabled by its name only.
    assert plugins.names(("*",)) == tuple(plugin.name for plugin in plugins.IN_TREE)
    chosen = configuring.build(
        found.classes, enabled=plugins.names(("Gadgeteer", "*")), weights={}, score_max=10, args={}
    )
    assert [one.name for one in chosen.plugins] == ["Gadgeteer", *plugins.names(("*",))]


@pytest.mark.parametrize(
    ("entry", "text", "reason"),
    [
        ("X = broken_plugin:X", "import nothing_of_the_kind", "ModuleNotFoundError"),
        ("X = broken_plugin:X", "1 / 0", "ZeroDivisionError"),
        ("X = broken_plugin:X", "Y = 1", "AttributeError"),
        ("X = broken_plugin:X", "X = 1", "broken_plugin:X is not a class"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_distribution(
    site: Path, entry: str, text: str, reason: str
) -> None:
    install(site, "broken", entry, "broken_plugin", text)
    with pytest.raises(configuring.PluginUnusable) as raised:
        plugins.catalog()
    assert "distribution broken 1.4 cannot be loaded" in str(raised.value)
    assert reason in str(raised.value)
    assert "or uninstall it" in str(raised.value)
    assert isinstance(raised.value, registry.ConfigurationRefused)


def test_declarations_that_contradict_those_in_the_tree_are_refused(site: Path) -> None:
    text = MODULE.replace("gadgets.GADGETS,", "gadgets.declared.POLICIES,").replace("gadgets.SIZES,", "")
    install(site, "gadgeteer", "Gadgeteer = gadgeteer_plugin:Gadgeteer", "gadgeteer_plugin", text)
    with pytest.raises(registry.ConfigurationRefused, match="the same kind: workloadpolicies"):
        plugins.catalog()
