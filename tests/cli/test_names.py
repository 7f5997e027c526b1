"""``topolog get KIND -o name``: each name of each kind is one that ``topolog get`` takes."""

import itertools
import pathlib
import signal
import subprocess
from collections.abc import Iterator
from unittest import mock

import pytest

from app.cli.client import streams
from app.cli.get import resources
from app.plugins.coscheduling import membership, options
from tests.support import commands, polling
from tests.support.extender import stages
from tests.support.monitoring import installations

REPORTS = sorted(name for name, kind in resources.RESOURCES.items() if not kind.columns)
LISTS = sorted(resources.RESOURCES.keys() - set(REPORTS))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """An installation with an item of each kind, and all plugins."""
    folder = tmp_path_factory.mktemp("names")
    with installations.running(
        folder, served=installations.EVERY, TOPOLOG_PLUGINS_ENABLED="*,ElasticQuota,Coscheduling"
    ) as made:
        stage, objects = made.stage, made.stage.api.objects
        stage.node("n0", zone="a", role="a")
        stage.node("n1", zone="a", role="b")
        spec = {"topologyKey": "zone", "allocationPolicy": [{"name": "a", "replicas": 1}]}
        stage.policy("shop", "spread", {**spec, "labelSelector": {"matchLabels": {"app": "web"}}})
        for kind, namespace, name in (
            ("elasticquotas", "quotas", "team"),
            ("elasticquotas", "shop", "team"),
            ("sigselasticquotas", "shop", "team"),
            ("poddisruptionbudgets", "shop", "budget"),
        ):
            objects.create(kind, {"metadata": {"namespace": namespace, "name": name}, "spec": QUOTA})
        pod = stage.pod("shop", "web-0", {"app": "web", stages.POLICY_LABEL: "spread"})
        stage.pod("shop", "web-1", {"rl-job-group": "job", membership.SIGS_LABEL: "gang"})
        stage.pod("shop", "web-2", {options.LABEL: "gang"})

        def nominate(found: stages.Json) -> stages.Json:
            found["status"]["nominatedNodeName"] = "n0"
            return found

        objects.change("pods", ("shop", "web-0"), nominate)
        polling.eventually(lambda: named(made, "nominations"), "the nomination is known", within=30)
        stage.caller().post("/filter", stages.request(pod, "n0", "n1"))
        shadow = topolog(made, "operator", "shadow", "set", "cordoned", "--weights", "JobAffinity=3")
        assert shadow.returncode == 0, shadow.stderr
        polling.eventually(lambda: named(made, "decisions"), "a decision is recorded", within=30)
        yield made


QUOTA = {"min": {"cpu": 0}, "max": {"cpu": 1}}


def topolog(
    found: installations.Installation, role: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    tls: pathlib.Path = found.stage.folder / "tls"
    url = f"https://127.0.0.1:{found.processes['extender'].port}"
    environ = {
        "TOPOLOG_CLIENT_URL": url,
        "TOPOLOG_CLIENT_VIEW_URL": url,
        "TOPOLOG_CLIENT_CERT": str(tls / f"{role}.crt"),
        "TOPOLOG_CLIENT_KEY": str(tls / f"{role}.key"),
        "TOPOLOG_CLIENT_CA": str(tls / "ca.crt"),
    }
    return commands.called(*arguments, **environ)


def named(found: installations.Installation, *what: str) -> list[str]:
    done = topolog(found, "viewer", "get", *what, "-o", "name")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("kind", LISTS)
def test_the_names_of_a_list_can_be_asked_again(running: installations.Installation, kind: str) -> None:
    names = named(running, kind)
    assert names
    assert len(names) == len(set(names))
    assert named(running, *names) == names


WATCHED = [kind for kind in LISTS if kind != "events"]
_numbers = itertools.count()


def watched(found: installations.Installation, what: str) -> list[str]:
    """The names that a watch prints while a pod is created."""

    def moved() -> Iterator[str]:
        yield "1"
        other = f"other-{next(_numbers)}"
        found.stage.pod("elsewhere", other)
        polling.eventually(lambda: f"pods/elsewhere/{other}" in named(found, "pods"), "the log moved")
        yield "2"

    former = signal.getsignal(signal.SIGTERM)
    try:
        with mock.patch.object(streams, "positions", return_value=moved()):
            done = topolog(found, "viewer", "get", what, "-w", "-o", "name")
    finally:
        signal.signal(signal.SIGTERM, former)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("kind", WATCHED)
def test_a_watch_of_a_name_prints_it_once_while_other_things_happen(
    running: installations.Installation, kind: str
) -> None:
    name = named(running, kind)[-1]
    assert watched(running, name) == [name]


def test_quotas_of_one_name_in_two_namespaces_have_names_of_their_own(
    running: installations.Installation,
) -> None:
    """One of them is not used: a watch prints it again only if it changes."""
    (unused,) = (name for name in named(running, "quotas") if name.endswith("/team") and name.count("/") > 1)
    assert watched(running, "quotas").count(unused) == 1
    for name, valid in ((unused, "false"), ("quotas/team", "true")):
        done = topolog(running, "viewer", "get", name, "-o", "jsonpath=$.valid")
        assert done.stdout.strip() == valid, done.stderr


def test_gangs_of_two_families_have_names_of_their_own(running: installations.Installation) -> None:
    assert named(running, "gangs") == ["gangs/koordinator/shop/gang", "gangs/sigs/shop/gang"]
    for name in ("sigs/shop/gang", "koordinator/shop/gang"):
        done = topolog(running, "viewer", "get", "gangs", name, "-n", "shop", "-o", "jsonpath=$.key")
        assert done.stdout.strip() == name, done.stderr
    done = topolog(running, "viewer", "get", "gangs", "gang", "-n", "shop", "-o", "jsonpath=$.key")
    assert done.stdout.strip() == "koordinator/shop/gang"
    done = topolog(running, "viewer", "get", "gangs", "sigs/shop/gang", "-n", "ml")
    assert (done.returncode, "not in the namespace ml" in done.stderr) == (2, True)
    done = topolog(running, "viewer", "get", "gangs/native/shop/gang")
    assert done.returncode == 1, "of no family that has it"


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_is_named_by_its_kind(running: installations.Installation, kind: str) -> None:
    assert named(running, kind) == [kind]


def test_a_name_that_the_list_has_not_is_not_found(running: installations.Installation) -> None:
    done = topolog(running, "viewer", "get", "pending/shop/other")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot find pending shop/other" in done.stderr
