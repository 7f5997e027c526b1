"""The project as a whole: what it may hold, and how large its parts may be."""

import ast
import collections
import configparser
import pathlib
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from typing import Any

import pytest
from packaging import requirements, utils

import app
from app import plugins
from app.framework import capabilities
from tests.project import reference_pages
from tests.support import run_order

ROOT = reference_pages.ROOT
FROZEN = ("migrations/forms.py", "migrations/upcasters/policies.py")
"""Migrations of the time when WorkloadPolicies were known to all packages."""
GERUNDS = {
    *("binding", "filtering", "preempting", "prioritizing"),  # kube-scheduler's steps
    *("coscheduling", "fencing", "packing"),
    *("decoding", "interning", "monitoring", "polling", "provisioning", "serving"),
}
"""The field's own words. Other modules and folders are called by nouns, as checkpoints or wakeups."""
DOCTOR = re.compile(r"catalog|overview|(\w+_)?(checks|facts)")
"""The modules of the doctor's areas that decide, by their names; others gather facts."""
SAMPLES = re.compile(r"^from app\.plugins\.\w+ import samples\b")
"""Simulation and demo create the objects that a plugin offers as samples."""


@pytest.fixture(scope="module")
def tracked() -> list[pathlib.Path]:
    """The files that belong to the project: tracked, or about to be; without git, all that lies there."""
    try:
        names = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        folders = ("app", "workers", "migrations", "tests", "docs", "deploy", ".ci")
        found = [
            path
            for folder in folders
            for path in (ROOT / folder).rglob("*")
            if "__pycache__" not in path.parts
        ]
        return [path for path in [*ROOT.iterdir(), *found] if path.is_file()]
    return [path for name in names if (path := ROOT / name).is_file()]


def sizes(tracked: list[pathlib.Path]) -> dict[str, int]:
    """Lines of each module."""
    return {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
        for path in tracked
        if path.suffix == ".py"
    }


def test_modules_can_be_read_in_one_go(tracked: list[pathlib.Path]) -> None:
    lines = sizes(tracked)
    assert {name.partition("/")[0] for name in lines} >= {"app", "workers", "migrations", "tests"}
    assert {name: size for name, size in lines.items() if size > 400} == {}


def test_folders_can_be_read_at_a_glance(tracked: list[pathlib.Path]) -> None:
    """About a dozen modules: more only where the entries are of one kind, and a flat list is the clearest."""
    most = {"app": 14, "app/cli": 22, "app/domain": 14, "app/plugins/workload_policy": 14}
    modules = [
        name
        for name in sizes(tracked)
        if "__init__" not in name and name.startswith(("app/", "workers/", "migrations/"))
    ]
    folders = collections.Counter(name.rpartition("/")[0] for name in modules)
    assert {name: size for name, size in folders.items() if size > most.get(name, 13)} == {}


def test_no_module_is_a_drawer_for_everything(tracked: list[pathlib.Path]) -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
    assert [
        path for path in tracked if path.suffix == ".py" and {path.stem, path.parent.name} & drawers
    ] == []


def _gerunds(names: Iterable[str]) -> set[str]:
    """The names of modules and folders whose noun is a gerund that is not one of the field's words."""
    parts = {part.removesuffix(".py") for name in names for part in name.split("/")}
    nouns = {part: part.rpartition("_")[2] for part in parts}
    return {part for part, noun in nouns.items() if noun.endswith("ing") and noun not in GERUNDS}


def test_modules_and_folders_are_named_by_nouns(tracked: list[pathlib.Path]) -> None:
    assert _gerunds(["app/kube/writes/binding.py", "app/domain/fitting_nodes.py"]) == set()
    assert _gerunds(["app/folding/a.py", "tests/test_pod_reading.py"]) == {"folding", "test_pod_reading"}
    names = [path.relative_to(ROOT).as_posix() for path in tracked if path.suffix == ".py"]
    assert _gerunds(names) == set()
    ends = {part.removesuffix(".py").rpartition("_")[2] for name in names for part in name.split("/")}
    assert ends >= GERUNDS, "allowed without need"


def test_no_module_imports_a_test_module_or_a_conftest(tracked: list[pathlib.Path]) -> None:
    """What two of them share belongs to tests/support."""
    imports = re.compile(r"^[ \t]*(?:from\s.*?import\s*(?:\([^)]*\)|.*)|import\s.*)$", re.MULTILINE)
    assert imports.findall("from a import (\n    b,\n    test_c,\n)\n") == [
        "from a import (\n    b,\n    test_c,\n)"
    ]
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked
        if path.suffix == ".py"
        for statement in imports.findall(path.read_text())
        for name in re.findall(r"\b(?:conftest|test_\w+)", statement)
    ]
    assert found == []


def test_helpers_of_tests_import_helpers_only(tracked: list[pathlib.Path]) -> None:
    """The folders of tests use tests/support, never the reverse."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked
        if path.suffix == ".py" and path.is_relative_to(ROOT / "tests" / "support")
        for name in re.findall(r"^(?:from|import) tests\.(?!support\b)[\w.]+", path.read_text(), re.MULTILINE)
    ]
    assert found == []


def test_the_modules_with_a_place_in_the_order_exist(tracked: list[pathlib.Path]) -> None:
    assert {ROOT / one for one in (*run_order.LONGEST, *run_order.LAST)} <= set(tracked)


def test_the_end_to_end_tests_are_ordered_by_their_modules_whatever_the_folder() -> None:
    modules = [
        "tests/e2e/deploy/test_chart.py",
        "tests/e2e/deploy/test_roles.py",
        "tests/e2e/gangs/test_gangs.py",
        "tests/e2e/gangs/test_jobs.py",
        "tests/e2e/quotas/test_evictions.py",
    ]
    ordered = sorted(modules, key=run_order.place)
    assert [pathlib.Path(one).stem.removeprefix("test_") for one in ordered] == [
        *("evictions", "gangs", "jobs", "roles"),
        "chart",
    ]


def test_the_modules_of_end_to_end_tests_differ_in_their_names(tracked: list[pathlib.Path]) -> None:
    """`make e2e TARGET="-k NAME"` selects one by its name, whatever its folder."""
    end_to_end = (path for path in tracked if path.is_relative_to(ROOT / "tests" / "e2e"))
    names = collections.Counter(path.name for path in end_to_end if path.name.startswith("test_"))
    assert [name for name, number in names.items() if number > 1] == []


def test_a_conftest_has_fixtures_and_hooks_only(tracked: list[pathlib.Path]) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {part.name}"
        for path in tracked
        if path.name == "conftest.py"
        for part in ast.parse(path.read_text()).body
        if isinstance(part, ast.FunctionDef | ast.ClassDef)
        if not part.name.startswith("pytest_")
        if not any(ast.unparse(one).startswith("pytest.fixture") for one in part.decorator_list)
    ]
    assert found == []


def _known_by_name(plugin: type[Any]) -> tuple[str, re.Pattern[str]]:
    """A plugin's folder, and its name in any spelling without spaces, singular or plural."""
    folder = "/".join(plugin.__module__.split(".")[:-1])
    words = re.findall("[A-Z][a-z]+", plugin.name)
    return f"{folder}/", re.compile("_?".join(words).removesuffix("y").removesuffix("s"), re.IGNORECASE)


@pytest.mark.parametrize("plugin", plugins.IN_TREE, ids=lambda plugin: plugin.name)
def test_a_plugin_is_named_in_its_folder_and_in_the_list_of_plugins_only(
    tracked: list[pathlib.Path], plugin: type[Any]
) -> None:
    """What all else shows of a plugin, and does for it, follows from the plugin's declarations."""
    folder, name = _known_by_name(plugin)
    assert name.search(plugin.name.lower())
    assert name.search(folder)
    allowed = (folder, "app/plugins/__init__.py", *FROZEN)
    lines = [
        f"{path}: {line.strip()[:100]}"
        for path, text in _texts(tracked)
        if path.startswith(("app/", "workers/", "migrations/")) and not path.startswith(allowed)
        for line in text.splitlines()
        if name.search(SAMPLES.sub("", line))
    ]
    assert lines == []


@pytest.mark.parametrize("plugin", plugins.IN_TREE, ids=lambda plugin: plugin.name)
def test_keys_that_a_plugin_reads_are_named_in_its_folder_only(
    tracked: list[pathlib.Path], plugin: type[Any]
) -> None:
    """Scenes of the demo create pods as people would write them."""
    made = plugin()
    keys = [
        *(made.indexed() if isinstance(made, capabilities.Indexes) else ()),
        *(made.annotations() if isinstance(made, capabilities.Keeps) else ()),
    ]
    folder, _ = _known_by_name(plugin)
    named = {
        f"{path}: {key}"
        for path, text in _texts(tracked)
        if path.startswith(("app/", "workers/", "migrations/"))
        and not path.startswith((folder, "app/simulation/scenes.py", *FROZEN))
        for key in keys
        if "/" in key and key in text
    }
    assert named == set()


def _set_by_handlers(source: str) -> list[int]:
    """The lines where a handler of a signal sets an Event."""
    tree = ast.parse(source)
    functions = {part.name: part for part in ast.walk(tree) if isinstance(part, ast.FunctionDef)}
    found = []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "signal.signal":
            handler: ast.AST = call.args[1]
            if isinstance(handler, ast.Name):
                handler = functions.get(handler.id, handler)
            found += [
                part.lineno
                for part in ast.walk(handler)
                if isinstance(part, ast.Attribute) and part.attr == "set"
            ]
    return found


def test_no_handler_of_a_signal_sets_an_event(tracked: list[pathlib.Path]) -> None:
    """It runs between any two instructions of the main thread, which may hold the lock of the Event."""
    lines = ("import signal", "def stop(*_):", "    ended.set()", "signal.signal(15, stop)")
    assert _set_by_handlers("\n".join(lines)) == [3]
    assert _set_by_handlers("signal.signal(15, lambda *_: ended.set())") == [1]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in tracked
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("app", "workers")
        if "signal.signal" in (source := path.read_text())
        for line in _set_by_handlers(source)
    ]
    assert found == []


def test_the_version_is_the_newest_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert versions[0] == app.__version__
    assert versions == sorted(set(versions), key=lambda v: tuple(map(int, v.split("."))), reverse=True)


def _texts(tracked: list[pathlib.Path]) -> list[tuple[str, str]]:
    found = []
    for path in tracked:
        try:
            found.append((path.relative_to(ROOT).as_posix(), path.read_text()))
        except UnicodeDecodeError:
            continue
    return found


def test_no_file_names_a_machine_or_a_registry(tracked: list[pathlib.Path]) -> None:
    # Spelled in parts, so that this file does not name them either.
    folders = "|".join(("home", "root", "Users", "work"))
    machine = re.compile(rf"(?<![\w.~$}}/])/({folders})/[\w.]")
    hosts = re.compile(
        "|".join((r"pypi\." + "org", "files.python" + "hosted", "proxy.golang" + r"\.", "index-" + "url ="))
    )
    found = [
        (name, match.group(0))
        for name, text in _texts(tracked)
        for match in (machine.search(text), hosts.search(text))
        if match
    ]
    assert found == []


def _asked_for() -> dict[str, requirements.Requirement]:
    """What setup.cfg asks for, extras included, by name."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lists = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    asked = [requirements.Requirement(line) for text in lists for line in text.strip().splitlines()]
    return {utils.canonicalize_name(one.name): one for one in asked}


def _pinned(lock: str) -> dict[str, tuple[str, int]]:
    """Name -> version and number of hashes."""
    pins: dict[str, tuple[str, int]] = {}
    for block in re.split(r"\n(?=[A-Za-z])", (ROOT / lock).read_text()):
        found = re.match(r"([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", block)
        if found:
            pins[utils.canonicalize_name(found[1])] = (found[2], block.count("--hash=sha256:"))
    return pins


def test_the_lock_gives_what_is_asked_for() -> None:
    pins = _pinned("requirements.lock")
    for name, asked in _asked_for().items():
        assert name in pins, f"{asked} is not in requirements.lock: run `make lock`"
        assert asked.specifier.contains(pins[name][0], prereleases=True), f"{asked}, locked {pins[name][0]}"


@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0"])
def test_the_lock_is_whole_for_every_python(python: str) -> None:
    """It was made with one Python; what a pinned package asks for with another one must be pinned as well."""
    pins = _pinned("requirements.lock")
    where = {"python_full_version": python, "python_version": python.rpartition(".")[0], "extra": ""}
    for name in pins.keys() & {utils.canonicalize_name(one.name) for one in metadata.distributions()}:
        for line in metadata.requires(name) or ():
            asked = requirements.Requirement(line)
            if asked.marker is None or asked.marker.evaluate(where):
                found = utils.canonicalize_name(asked.name)
                assert found in pins, f"{name} asks for {asked}: name it in setup.cfg and run `make lock`"


def test_every_pin_has_a_hash() -> None:
    assert [name for name, (_, hashes) in _pinned("requirements.lock").items() if not hashes] == []


def test_the_contracts_have_no_exceptions() -> None:
    text = (ROOT / "setup.cfg").read_text()
    assert "ignore_imports" not in text
    assert "exhaustive = True" in text


def test_every_package_of_app_has_a_contract_for_its_layers() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    layered = {config[section].get("containers") for section in config.sections()}
    packages = {f"app.{path.parent.name}" for path in (ROOT / "app").glob("*/__init__.py")}
    # The plugins are independent of one another, by a contract of their own.
    assert packages - layered == {"app.plugins"}


def test_every_module_of_the_doctors_checks_is_pure_by_contract() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    areas = (ROOT / "app" / "doctor").glob("*/*.py")
    checks = {f"app.doctor.{path.parent.name}.{path.stem}" for path in areas if DOCTOR.fullmatch(path.stem)}
    assert len(checks) > 8
    assert checks - set(config["importlinter:contract:doctor"]["source_modules"].split()) == set()


def test_nothing_is_excused_from_a_check(tracked: list[pathlib.Path]) -> None:
    excuse = re.compile("# (" + "|".join(("type: " + "ignore", "no" + "qa", "pragma: no " + "cover")) + ")")
    assert [name for name, text in _texts(tracked) if name.endswith(".py") and excuse.search(text)] == []
