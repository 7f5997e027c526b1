"""Plugins of distributions that no process uses: each is refused with one sentence that names its source."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import exit_codes, plugins
from app.framework import registry, registry_builder
from tests.support import distributions

PLUGIN = """
from dataclasses import dataclass

from app.domain import schema
from app.framework import views
from tests.support import gadgets


def reading(field):
    return schema.Counter("gpu", 1, lambda *_: (), pod_fields=(field,))


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


GPU = PLUGIN.replace("NAME", "Gpu")
UNUSABLE = [
    (GPU.replace("@dataclass(frozen=True)", ""), "P is not a dataclass"),
    (GPU + "    size: int", "Object missing required field `size`"),
    (GPU + "    size: 'Missing' = 2", "gpu_plugin:P: NameError: name 'Missing' is not defined"),
    (
        GPU + "    reserve: int = 2",
        "plugin Gpu has a value reserve, which is the name of a method of Reserves",
    ),
    (GPU + "    annotations: tuple[str, ...] = ('example.com/cpus',)", "has a value annotations, which is"),
    (GPU + "    counters = ()", "has a value counters, which is the name of a method of Counts"),
    (
        GPU + "    def kinds(self): return (MISSING,)",
        "gpu_plugin:P: NameError: name 'MISSING' is not defined",
    ),
    (GPU + "    def kinds(self): return (gadgets.GADGETS,) * 2", "the same kind: gadgets"),
    (GPU + "    def counters(self): return (1,)", "gpu_plugin:P: AttributeError: 'int' object has no"),
    (
        GPU + "    def counters(self): return (reading('label'),)",
        "the field 'label' of a pod, which does not",
    ),
    (GPU + "    def annotations(self): return 1", "gpu_plugin:P: TypeError: 'int' object is not iterable"),
    (GPU + "    def operations(self): return (int,)", "gpu_plugin:P: AttributeError: type object"),
    (GPU + "    def diagnosis(self): return 1 / 0", "gpu_plugin:P: ZeroDivisionError: division by zero"),
    (GPU + "    public_terms = ()", "gpu_plugin:P: AttributeError"),
    (GPU + "    tables = 1\n    def shown(self): return views.Shown()", "gpu_plugin:P: TypeError"),
    (
        GPU + "    tables = ()\n    def shown(self): return views.Shown(1, 2, 3, 4, 5, endpoint=1)",
        "TypeError",
    ),
    (GPU + "    def filtr(self, cycle): return None", "plugin Gpu has a method filtr; did you mean filter"),
]


@pytest.mark.parametrize(("source", "reason"), UNUSABLE)
def test_what_a_plugin_declares_is_refused_with_its_distribution(
    tmp_path: Path, source: str, reason: str
) -> None:
    text = refusal(tmp_path, Gpu=source)
    assert text.startswith("the plugin of the distribution gpu 1.4 cannot be loaded: ")
    assert reason in text
    assert text.endswith("; install a version of it that fits this Topolog, or uninstall it")


def test_a_command_ends_with_one_sentence(tmp_path: Path) -> None:
    source = GPU.replace("from tests.support import gadgets", "")  # It reads the catalog itself.
    module = {"gpu_plugin": source + "    def kinds(self): return (MISSING,)"}
    distributions.install(tmp_path, "gpu", {"Gpu": "gpu_plugin:P"}, module)
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "get", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_codes.SETTINGS, done.stderr
    (line,) = done.stderr.splitlines()
    assert "the plugin of the distribution gpu 1.4 cannot be loaded: gpu_plugin:P: NameError" in line


TYPED = """

class Quota(model.DeclaredObject, frozen=True):
    size: int = 0


KIND = manifests.kind(Quota, "acme.example/v1", "acmequotas")
"""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            TYPED + GPU + "    def kinds(self): return (KIND,)",
            "two plugins declare the same type of objects: Quota (ElasticQuota and Gpu); give that of one of"
            " them another name, or uninstall its distribution",
        ),
        (
            GPU + "    def counters(self): return (gadgets.SIZES,)",
            "counter 'sizes' depends on gadgets, which no plugin declares (Gpu); correct it, or uninstall its"
            " distribution",
        ),
        (
            GPU + "    statuses = ('nosuch',)\n    def reconcile(self, snapshot, changes): return ()",
            "plugin Gpu writes the status of nosuch, which is not watched; allowed: clusternetwork",
        ),
    ],
)
def test_what_contradicts_other_plugins_is_refused_with_their_names(
    tmp_path: Path, source: str, text: str
) -> None:
    header = "from app.domain import model\nfrom app.framework import manifests\n"
    distributions.install(tmp_path, "gpu", {"Gpu": "gpu_plugin:P"}, {"gpu_plugin": header + source})
    with (
        distributions.importable(tmp_path, "gpu_plugin"),
        pytest.raises(registry.ConfigurationRefused) as raised,
    ):
        plugins.catalog()
    assert str(raised.value).startswith(text)
