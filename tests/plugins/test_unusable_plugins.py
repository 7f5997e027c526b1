"""Plugins of distributions that no process uses: each is refused with one sentence that names its source."""

from pathlib import Path

import pytest

from app import plugins
from app.framework import registry_builder
from tests.support import distributions

PLUGIN = """
from dataclasses import dataclass


@dataclass(frozen=True)
class P:
    name = "NAME"

    def interested(self, pod):
        return True
"""


def refusal(site: Path, **offered: str) -> str:
    """Why the plugins of distributions, each with the source of its module, are refused."""
    with distributions.importable(site, *(f"{name.lower()}_plugin" for name in offered)):
        for name, source in offered.items():
            module = f"{name.lower()}_plugin"
            distributions.install(site, name.lower(), {name: f"{module}:P"}, {module: source})
        with pytest.raises(registry_builder.PluginUnusable) as raised:
            plugins.catalog()
    return str(raised.value)


def test_a_plugin_with_the_name_of_one_in_the_tree_is_refused(tmp_path: Path) -> None:
    name = plugins.IN_TREE[-2].name
    text = refusal(tmp_path, **{name: PLUGIN.replace("NAME", name)})
    assert text == (
        f"the plugin of the distribution {name.lower()} 1.4 cannot be loaded: {name.lower()}_plugin:P has the"
        f" name {name}, as a plugin of Topolog does; install a version of it that fits this Topolog, or"
        " uninstall it"
    )


def test_of_two_distributions_with_a_plugin_of_one_name_both_are_named(tmp_path: Path) -> None:
    source = PLUGIN.replace("NAME", "Gpu")
    distributions.install(tmp_path, "acme", {"Gpu": "acme_plugin:P"}, {"acme_plugin": source})
    with distributions.importable(tmp_path, "acme_plugin"):
        assert plugins.catalog().classes[-1].name == "Gpu"
    text = refusal(tmp_path, Gpu=source)
    assert "the distribution gpu 1.4 cannot be loaded" in text
    assert "has the name Gpu, as a plugin of the distribution acme 1.4 does" in text


@pytest.mark.parametrize(
    ("source", "called"),
    [
        (PLUGIN.replace("NAME", "ElasticQuota"), "the name ElasticQuota"),
        (PLUGIN.replace('name = "NAME"', "size: int = 1"), "no name"),
    ],
)
def test_a_plugin_has_the_name_of_its_entry_point(tmp_path: Path, source: str, called: str) -> None:
    text = refusal(tmp_path, Gpu=source)
    assert f"gpu_plugin:P has {called} in place of that of its entry point, Gpu;" in text
