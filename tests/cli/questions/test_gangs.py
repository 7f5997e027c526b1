"""simulate and fit for gangs on the command line."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from app.framework import registry
from app.plugins.coscheduling import kinds
from app.plugins.coscheduling.plugin import Coscheduling
from app.store.server import embedded
from tests.support.decisions import small_gangs
from tests.support.extender import api_worlds, http_servers
from tests.support.extender.questions import Run, f6

POD = """
apiVersion: v1
kind: Pod
metadata: {name: worker, namespace: ml, labels: {scheduling.x-k8s.io/pod-group: train}}
spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
"""
GROUP = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train, namespace: ml}
spec: {minMember: 8}
"""


@pytest.fixture
def gangs(store_server: embedded.Server, cluster: str) -> Iterator[Run]:
    """Runs commands against F6, with the plugin that places gangs."""
    chosen = registry.Registry([*api_worlds.plugins_of_the_seeds().plugins, Coscheduling()])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        made = api_worlds.world(start(), chosen)
        made.append(*f6())
        with http_servers.serving_http(made.app) as url:
            yield Run(url, made)


def test_a_gang_of_a_file_is_placed_with_the_group_of_the_file(gangs: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text(f"{GROUP}---{POD}")
    done = gangs("simulate", "-f", str(file), "--members", "8", "--candidates", "all")
    assert done.returncode == 0, done.stderr
    assert "situation:  8 of 8 pods are placed" in done.stdout
    assert "group:      ml/train, 8 waiting, together 8" in done.stdout
    few = gangs("simulate", "-f", str(file), "--members", "7", "--candidates", "all", "-o", "json")
    assert few.returncode == 1, few.stderr
    assert json.loads(few.stdout)["placedPods"] == 0


def test_a_group_of_a_file_that_exists_is_not_named_as_idle(gangs: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text(f"{GROUP}---{POD}")
    asked = ("simulate", "-f", str(file), "--members", "8", "--candidates", "all")
    group = json.loads(gangs(*asked, "-o", "json").stdout)["situation"]
    assert (group["events"]["ObjectObserved"], group["idle"]) == (1, [])
    gangs.world.append(kinds.SIGS.observed(small_gangs.sigs("train", 8, namespace="ml")))
    assert json.loads(gangs(*asked, "-o", "json").stdout)["situation"]["idle"] == [0]
    assert "changes nothing" not in gangs(*asked).stderr


def test_fit_of_a_gang_is_asked_as_simulate_is(gangs: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD.replace(", labels: {scheduling.x-k8s.io/pod-group: train}", ""))
    asked = ("-f", str(file), "--members", "2", "--candidates", "host-1", "--cordon", "host-1")
    done = gangs("fit", *asked, "--allow", "nodes")
    assert done.returncode == 1, done.stderr
    assert "0 of 2 members are placed" in done.stdout
    named = gangs("fit", "--group", "nothing", "-n", "ml")
    assert (named.returncode, "cannot find a group ml/nothing" in named.stderr) == (1, True)


def test_a_gang_of_which_no_pod_waits_is_named_and_not_refused(gangs: Run) -> None:
    gangs.world.append(kinds.SIGS.observed(small_gangs.sigs("train", 4, namespace="ml")))
    fitted = gangs("fit", "--group", "ml/train")
    assert (fitted.returncode, fitted.stdout) == (0, "no pod of the gang ml/train waits\n")
    simulated = gangs("simulate", "--group", "ml/train")
    assert simulated.returncode == 0, simulated.stderr
    assert simulated.stdout.startswith("as it is:   no pod of the gang ml/train waits\n"), simulated.stdout
    assert "situation:  no pod of the gang ml/train waits\n" in simulated.stdout


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "--minimum", "2", "--pending"), "--minimum requires --members"),
        (("simulate", "shop/a-5", "--members", "2"), "--members requires -f FILE with one pod"),
        (("simulate", "shop/a-5", "--group", "shop/g"), "--group names the pods"),
        (
            ("simulate", "--group", "shop/g", "--pending"),
            "name pods, or use -f FILE or --pending",
        ),
        (("fit", "shop/a-5", "--group", "shop/g"), "--group names the pods"),
        (("fit",), "name a pod, or use -f FILE or --group"),
    ],
)
def test_a_mistake_is_a_usage_error(run: Run, arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
