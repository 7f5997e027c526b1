"""``topolog bundle pseudonymize`` and ``translate``: the names stay with who made the bundle."""

import io
import json
import os
import pathlib
import re
import secrets
from collections.abc import Mapping

import pytest

from app.cli.bundles import name_tables
from app.domain import events, model
from app.store.server import embedded
from tests.support import distributions
from tests.support.extender import api_worlds, bundled, terminals


def test_the_names_are_beside_the_bundle_and_put_back(
    terminal: terminals.Terminal,
    incident: pathlib.Path,
    url: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = tmp_path / "shared.tar"
    done = terminal.run("bundle", "pseudonymize", incident, "-o", shared)
    assert done.code == 0, done.err
    names = tmp_path / "shared.names.json"
    assert names.stat().st_mode & 0o777 == 0o600
    shown = json.loads(terminal.run("bundle", "inspect", shared, "-o", "json").out)
    assert shown["pseudonyms"] == json.loads(names.read_text())["tag"]
    assert shown["around"].startswith(shown["pseudonyms"])
    monkeypatch.setattr("sys.stdin", io.StringIO(f"see {shown['around']}\n"))
    assert terminal.run("bundle", "translate", "--names", names).out == "see shop/new-300\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("see zzzz-0001-pod\n"))
    other = terminal.run("bundle", "translate", "--names", names)
    assert (other.code, other.out, "another bundle" in other.err) == (1, "see zzzz-0001-pod\n", True)
    assert terminal.run("bundle", "pseudonymize", incident, "-o", shared).code == 2
    created = tmp_path / "created.tar"
    asked = ("--around", "shop/new-300", "--pseudonyms", "-o", created, "--server", url)
    done = terminal.run("bundle", "create", *asked)
    assert (done.code, f"; names in {tmp_path / 'created.names.json'}\n" in done.out) == (0, True)
    assert len(os.listdir(tmp_path)) == 4


def test_of_a_damaged_bundle_nothing_is_written(
    terminal: terminals.Terminal, incident: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(incident.read_bytes()[:4096])
    done = terminal.run("bundle", "pseudonymize", damaged, "-o", tmp_path / "shared.tar")
    assert (done.code, "cut off" in done.err) == (1, True)
    assert os.listdir(tmp_path) == ["damaged.tar"]


PRIVATE = '''
"""Acmecorp's chillers, for the tenants of acme-corp."""

from dataclasses import dataclass
from typing import ClassVar

REASON = "acmecorp: the chillhall is overheated"
OTHER = "acmecorp-cooling"
OPTION = "acmecorp_chillers"


@dataclass(frozen=True)
class Chillers:
    name: ClassVar[str] = "Chillers"

    def interested(self, pod):
        return False
'''
ELSEWHERE = 'TENANTS = ("goldtenant",)\n'


@pytest.mark.scenario("WI-10")
def test_the_package_of_a_private_plugin_is_no_word_of_a_shared_bundle(
    store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    """The words of its reasons stay, because they are compared when its decisions are repeated."""
    modules = {
        "acmecorp/__init__": "",
        "acmecorp/tenants": ELSEWHERE,
        "acmecorp/chillers/__init__": "",
        "acmecorp/chillers/plugin": PRIVATE,
    }
    sentence = "acmecorp: the chillhall is overheated, see acmecorp-cooling of goldtenant"
    entries = {"Chillers": "acmecorp.chillers.plugin:Chillers"}
    reason, text = _shared(store_server, tmp_path, entries, modules, sentence)
    assert reason == "WORD: the chillhall is overheated, see WORD of WORD"
    # By its arguments the digest of the configuration repeats.
    assert text.count('"args":{"Chillers":{"acmecorp_chillers":true}}') == 1
    assert re.findall("acme[a-z_]*|goldtenant", text, re.IGNORECASE) == ["acmecorp_chillers"]


@pytest.mark.scenario("WI-10")
def test_a_plugin_keeps_no_name_of_the_package_of_another_one(
    store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    """Nor a part of one, unless Topolog has that word itself: a part that it has names no one."""
    modules = {
        "acmecorp": PRIVATE,
        "plugin_zentral": PRIVATE.replace("Chillers", "Fans").replace("chillhall", "fanhall-plugin"),
        "heaters": PRIVATE.replace("Chillers", "Heaters").replace("chillhall", "heathall of Zentral-Ost"),
    }
    entries = {"Chillers": "acmecorp:Chillers", "Fans": "plugin_zentral:Fans", "Heaters": "heaters:Heaters"}
    sentence = "acmecorp: the heathall of Zentral-Ost is overheated, see fanhall-plugin"
    reason, _ = _shared(store_server, tmp_path, entries, modules, sentence)
    assert reason == "WORD: the heathall of WORD is overheated, see fanhall-plugin"


DERIVED = """
from dataclasses import dataclass
from typing import ClassVar

from acmecorp.common import refusing


@dataclass(frozen=True)
class Chillers(refusing.Refusing):
    name: ClassVar[str] = "Chillers"
"""
REFUSING = """
import abc

import halls_of_acme


class Refusing(halls_of_acme.Hall, abc.ABC):
    def interested(self, pod):
        return "the chillhall is overheated"
"""
HALL = """
class Hall:
    reason = "ask halls-of-acme for the roof"
"""


@pytest.mark.scenario("WI-10")
def test_the_reasons_of_the_base_classes_of_a_private_plugin_stay(
    store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    """Whichever package they are in; the modules beside them are not read."""
    modules = {
        "acmecorp/__init__": "",
        "acmecorp/common/__init__": "",
        "acmecorp/common/refusing": REFUSING,
        "acmecorp/common/tenants": ELSEWHERE,
        "acmecorp/chillers/__init__": "",
        "acmecorp/chillers/plugin": DERIVED,
        "halls_of_acme": HALL,
    }
    sentence = "the chillhall is overheated: ask halls-of-acme for the roof of goldtenant"
    entries = {"Chillers": "acmecorp.chillers.plugin:Chillers"}
    reason, _ = _shared(store_server, tmp_path, entries, modules, sentence)
    assert reason == "the chillhall is overheated: ask WORD for the roof of WORD"


def _shared(
    store_server: embedded.Server,
    folder: pathlib.Path,
    entries: Mapping[str, str],
    modules: Mapping[str, str],
    sentence: str,
) -> tuple[str, str]:
    """The sentence in a shared bundle where the plugins are installed, and the text of the whole bundle."""
    site = folder / "site"
    for module in modules:
        (site / module).parent.mkdir(parents=True, exist_ok=True)
    distributions.install(site, "chillers", entries, modules)
    with api_worlds.processes(store_server, f"acme{secrets.token_hex(4)}") as start:
        world = api_worlds.filled(start())
        applied = model.Configuration(
            "0123456789ab", ("Chillers",), args={"Chillers": {"acmecorp_chillers": True}}
        )
        world.append(
            events.Quarantined(kind="pods", object="shop/x", reason=sentence),
            events.ConfigurationApplied(configuration=applied, by="x"),
        )
        (source := folder / "incident.tar").write_bytes(bundled.exported(world))
    shared = folder / "shared.tar"
    names = [one.removesuffix("/__init__").replace("/", ".") for one in modules]
    with distributions.importable(site, *names):
        name_tables.replaced(source, shared)
    text = b"\n".join(bundled.members(shared.read_bytes()).values()).decode()
    (reason,) = re.findall(r'"reason":"([^"]*overheated[^"]*)"', text)
    return re.sub(r"\w{4}-\d{4}-word", "WORD", reason), text
