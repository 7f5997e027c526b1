"""``topolog doctor scheduler`` and the log: what kube-scheduler does, whatever is configured.

Each test has a scheduler of its own name, so that only its own calls count for it.
"""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from app.doctor.scheduler import log_evidence
from tests.support.doctor import clusters, configz_servers, runs, witnessed

Play = Callable[[witnessed.Scheduler], None]
SHOWN = sorted(check.id for check in log_evidence.SHOWN)
UNSURE = dict.fromkeys(SHOWN, "unsure")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[witnessed.Witnessed]:
    with witnessed.running(tmp_path_factory.mktemp("witnessed")) as made:
        yield made


def test_a_record_has_the_scheduler_and_the_form_of_its_call(installed: witnessed.Witnessed) -> None:
    one = witnessed.Scheduler(installed, "recorded")
    pod = one.pod("shown")
    one.filter(pod, whole=True)
    one.prioritize(pod)
    one.bind(pod, "a")
    unknown = {"metadata": {"namespace": "shop", "name": "recorded-unknown", "uid": "unknown"}}
    assert one.bind(unknown, "a")
    installed.settled()

    def rows(name: str) -> list[tuple[str, str, bool]]:
        path = f"/apis/v1/decisions?pod=shop/recorded-{name}"
        found = installed.stage.caller("viewer").ask("GET", path).json["items"]
        return sorted((row["verb"], row["scheduler"], row["wholeNodes"]) for row in found)

    assert rows("shown") == [
        ("bind", "recorded", False),
        ("filter", "recorded", True),
        ("prioritize", "recorded", False),
    ]
    assert rows("unknown") == [("bind", "", False)]


# -- what a scheduler does -----------------------------------------------------------------------


def sound(one: witnessed.Scheduler) -> None:
    """All verbs, and a refused bind after which the pod waits."""
    one.place("first", "a")
    late = one.pod("late")
    one.filter(late)
    assert "no capacity" in one.bind(late, "c")
    one.filter(late)
    assert one.bind(late, "b") == ""


def whole(one: witnessed.Scheduler) -> None:
    sound(one)
    one.filter(one.pod("large"), whole=True)


def no_bind(one: witnessed.Scheduler) -> None:
    """Pods are filtered, and kube-scheduler binds them itself."""
    pod = one.pod("filtered")
    one.filter(pod)
    one.prioritize(pod)
    one.bind_itself(pod, "a")


def skipped(one: witnessed.Scheduler) -> None:
    """The extender was away for one pod, which was bound all the same."""
    one.place("before", "a")
    witnessed.next_second()
    one.bind_itself(one.pod("skipped"), "b")
    one.place("after", "a")


def bound_after_a_refusal(one: witnessed.Scheduler) -> None:
    sound(one)
    pod = one.pod("refused")
    one.filter(pod)
    assert "no capacity" in one.bind(pod, "c")
    one.bind_itself(pod, "c")


def bound_while_bind_was_away(one: witnessed.Scheduler) -> None:
    sound(one)
    pod = one.pod("filtered")
    one.filter(pod)
    one.bind_itself(pod, "a")
    one.place("after", "a")


def bound_although_refused_everywhere(one: witnessed.Scheduler) -> None:
    sound(one)
    pod = one.pod("refused")
    assert one.filter(pod, ["c"])["NodeNames"] == []
    one.bind_itself(pod, "c")
    one.place("after", "a")


MISTAKES: dict[str, tuple[Play, dict[str, str]]] = {
    "sound": (sound, {}),
    "whole-nodes": (whole, {"S07": "warning"}),
    "no-bind": (no_bind, {"S03": "unsure", "S04": "problem"}),
    "skipped": (skipped, {"S03": "problem"}),
    "bound-after-a-refusal": (bound_after_a_refusal, {"S03": "problem"}),
    "bound-past-bind": (bound_while_bind_was_away, {"S03": "problem"}),
    "bound-although-refused": (bound_although_refused_everywhere, {"S03": "problem"}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_log_alone_shows_each_mistake_and_nothing_else(installed: witnessed.Witnessed, name: str) -> None:
    play, expected = MISTAKES[name]
    one = witnessed.Scheduler(installed, name)
    play(one)
    assert one.found(installed.doctor()) == {**dict.fromkeys(("S01", *SHOWN), "ok"), **expected}


def test_pods_that_are_no_evidence(installed: witnessed.Witnessed) -> None:
    """Created with a node, without a policy, before the first call, or filtered again after their bind."""
    one = witnessed.Scheduler(installed, "no-evidence")
    one.bind_itself(one.pod("before-all-calls"), "a")
    witnessed.next_second()
    one.place("first", "a")
    witnessed.next_second()
    stage = installed.stage
    stage.pod("shop", "with-a-node", witnessed.LABELS, schedulerName=one.name, nodeName="a")
    of_no_plugin = stage.pod("shop", "of-no-plugin", schedulerName=one.name)
    one.bind_itself(of_no_plugin, "a")
    one.filter(one.place("last", "a"))
    filtered = stage.pod("shop", "filtered-of-no-plugin", schedulerName=one.name)
    one.filter(filtered)
    one.bind_itself(filtered, "a")
    found = one.found(installed.doctor())
    assert (found["S03"], found["S04"]) == ("unsure", "ok")


def test_without_calls_and_configuration_all_is_unsure(installed: witnessed.Witnessed) -> None:
    cluster = installed.cluster
    cluster.add_scheduler("unread", config_map="absent")
    try:
        run = runs.doctor("scheduler", "--server", "https://127.0.0.1:9", environ=cluster.environ)
    finally:
        cluster.api.objects.remove("pods", (clusters.HOME, "unread"))
    results = [one for one in run.checks if one["id"] in SHOWN]
    assert {one["id"]: one["verdict"] for one in results} == UNSURE
    assert all("unreachable" in one["seen"] and "--server-name" in one["fix"] for one in results)


# -- against a configuration ---------------------------------------------------------------------


def configured(installed: witnessed.Witnessed, name: str, *, started: str = "", **fields: object) -> str:
    """A kube-scheduler with a sound configuration but for these fields; the subject of its results.

    ``started``: when its container was. Fields of the extender's entry begin with ``entry_``.
    """
    document = clusters.shipped("sidecar")
    (entry,) = document["extenders"]
    for field, value in fields.items():
        (entry if field.startswith("entry_") else document)[field.removeprefix("entry_")] = value
    document["profiles"] = [{"schedulerName": name}]
    installed.cluster.add_config(f"config-{name}", document)
    installed.cluster.add_scheduler(f"scheduler-{name}", config_map=f"config-{name}")
    if started:
        state = {"name": "kube-scheduler", "state": {"running": {"startedAt": started}}}
        installed.cluster.api.objects.change(
            "pods",
            (clusters.HOME, f"scheduler-{name}"),
            lambda pod: {**pod, "status": {**pod["status"], "containerStatuses": [state]}},
        )
    return f"ConfigMap {clusters.HOME}/config-{name}"


def results(run: runs.Run, source: str) -> dict[str, dict[str, str]]:
    """The results about the log's checks of one configuration, by check."""
    return {one["id"]: one for one in run.checks if one["id"] in SHOWN and one["subject"].startswith(source)}


def verdicts(run: runs.Run, source: str) -> dict[str, str]:
    return {check: one["verdict"] for check, one in results(run, source).items()}


CONTRADICTED: dict[str, tuple[Play, str, str]] = {
    "with-names": (whole, "S07", "warning"),
    "with-bind": (no_bind, "S04", "problem"),
    "with-not-ignorable": (skipped, "S03", "problem"),
}
"""What is done, and what that shows of a configuration that is sound."""


@pytest.mark.parametrize("name", CONTRADICTED)
def test_a_right_configuration_that_is_not_in_force_is_found(
    installed: witnessed.Witnessed, name: str
) -> None:
    play, check, verdict = CONTRADICTED[name]
    source = configured(installed, name)
    play(witnessed.Scheduler(installed, name))
    run = installed.doctor()
    found = results(run, source)
    assert {each: one["verdict"] for each, one in found.items()} == {
        **dict.fromkeys(SHOWN, "ok"),
        check: verdict,
    }
    assert f"shop/{name}-" in found[check]["seen"]
    assert "another configuration is in force" in found[check]["seen"]
    assert f"delete pod scheduler-{name}" in found[check]["fix"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "with-ignorable": ({"entry_ignorable": True}, "S03"),
    "with-no-bind": ({"entry_bindVerb": ""}, "S04"),
    "with-whole-nodes": ({"entry_nodeCacheCapable": False}, "S07"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_configuration_that_is_not_in_force_is_a_warning(
    installed: witnessed.Witnessed, name: str
) -> None:
    fields, check = WRONG[name]
    source = configured(installed, name, **fields)
    sound(witnessed.Scheduler(installed, name))
    found = results(installed.doctor(), source)
    assert {each: one["verdict"] for each, one in found.items()} == {
        **dict.fromkeys(SHOWN, "ok"),
        check: "warning",
    }
    assert "takes effect when kube-scheduler starts again" in found[check]["why"]


def test_a_wrong_configuration_in_force_is_shown_by_its_calls(installed: witnessed.Witnessed) -> None:
    source = configured(installed, "in-force", entry_bindVerb="")
    no_bind(witnessed.Scheduler(installed, "in-force"))
    found = results(installed.doctor(), source)["S04"]
    assert found["verdict"] == "problem"
    assert "shop/in-force-filtered was filtered at" in found["seen"]
    assert "another configuration" not in found["seen"]


def test_what_a_former_process_did_is_no_evidence(installed: witnessed.Witnessed) -> None:
    source = configured(installed, "restarted", started="2100-01-01T00:00:00Z")
    whole(witnessed.Scheduler(installed, "restarted"))
    no_bind(witnessed.Scheduler(installed, "restarted"))
    assert verdicts(installed.doctor(), source) == dict.fromkeys(SHOWN, "ok")


def test_pods_that_need_not_be_sent_are_no_evidence(installed: witnessed.Witnessed) -> None:
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
    source = configured(installed, "managed", entry_managedResources=managed)
    skipped(witnessed.Scheduler(installed, "managed"))
    assert verdicts(installed.doctor(), source)["S03"] == "ok"


def test_calls_of_a_scheduler_without_an_entry_are_found(installed: witnessed.Witnessed) -> None:
    source = configured(installed, "entryless", extenders=[])
    sound(witnessed.Scheduler(installed, "entryless"))
    run = installed.doctor()
    assert witnessed.Scheduler(installed, "entryless").found(run)["S01"] == "ok"
    (found,) = [one for one in run.of("S01") if one["subject"].startswith(source)]
    assert (found["verdict"], "there is no extender; but filter about" in found["seen"]) == ("warning", True)


# -- more than a hundred nodes -------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(installed: witnessed.Witnessed) -> list[str]:
    """Names of 150 more nodes on which a pod fits."""
    made = [f"node-{number}" for number in range(150)]
    for name in made:
        installed.stage.node(name, role="a")
    return made


def test_a_sample_of_the_nodes_is_found(installed: witnessed.Witnessed, large: list[str]) -> None:
    one = witnessed.Scheduler(installed, "sampling")
    source = configured(installed, "sampling")
    one.filter(one.pod("sampled"), large[:100])
    found = results(installed.doctor(), source)["S02"]
    assert found["verdict"] == "warning"
    assert "offered 100 of 153 nodes" in found["seen"]
    assert "the pod fits on 153: another configuration is in force" in found["seen"]


def test_all_nodes_are_no_sample(installed: witnessed.Witnessed, large: list[str]) -> None:
    one = witnessed.Scheduler(installed, "exhaustive")
    source = configured(installed, "exhaustive", percentageOfNodesToScore=50)
    one.filter(one.pod("first"), [*large, *witnessed.NODES])
    found = results(installed.doctor(), source)["S02"]
    assert found["verdict"] == "warning"
    assert "takes effect when kube-scheduler starts again" in found["why"]
    other = witnessed.Scheduler(installed, "exhaustive-too")
    other.filter(other.pod("first"), [*large, *witnessed.NODES])
    assert other.found(installed.doctor())["S02"] == "ok"


# -- a file, and the process itself --------------------------------------------------------------


def test_a_file_is_compared_with_the_log_of_an_extender_that_is_named(
    installed: witnessed.Witnessed, tmp_path: pathlib.Path
) -> None:
    document = clusters.shipped("sidecar")
    document["profiles"] = [{"schedulerName": "of-file"}]
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    whole(witnessed.Scheduler(installed, "of-file"))
    found = results(installed.doctor("--file", str(file)), str(file))
    assert found["S07"]["verdict"] == "warning"
    assert found["S07"]["fix"].endswith("then restart the kube-scheduler that reads it")
    assert runs.doctor("scheduler", "--file", str(file)).of("S07")[0]["verdict"] == "ok"
    away = runs.doctor("scheduler", "--file", str(file), "--server", "https://127.0.0.1:9")
    assert {one["id"] for one in away.checks if one["subject"] == "the cluster"} == set(SHOWN)


@pytest.mark.parametrize(("started", "verdict"), [(1.0, "warning"), (4_102_444_800.0, "ok"), (None, "ok")])
def test_a_running_configuration_is_compared_with_later_calls(
    installed: witnessed.Witnessed, started: float | None, verdict: str
) -> None:
    name = f"live-{verdict}-{started or 0:.0f}"
    document = clusters.shipped("sidecar")
    document["profiles"] = [{"schedulerName": name}]
    whole(witnessed.Scheduler(installed, name))
    with configz_servers.serving({"componentconfig": document}, started) as url:
        found = results(installed.doctor("--configz", url), f"{url}/configz")
    assert found["S07"]["verdict"] == verdict
