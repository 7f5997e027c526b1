"""The plugin of docs/how-to/write-a-plugin.md, as printed there, in real processes that find it installed.

Recorder and auditor have not enabled it, nor has the second extender: what is watched and counted follows
from what is installed.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from app import exit_codes, plugins
from app.domain import declared_objects, schema
from app.framework import cycles, plans, registry
from app.simulation.apiserver import apiservers, objects
from app.store import keys
from app.store.server import connections, embedded
from tests.support import declared, distributions, extender_processes, plugin_page, polling
from tests.support.extender import stages
from tests.support.store import materialised

LIMITS = "/apis/v1/plugins/PodLimits/limits"
ROOT = pathlib.Path(__file__).parents[2]
WITH, WITHOUT = "*,PodLimits", "*"


class Example(NamedTuple):
    """A stage whose processes find the plugin."""

    stage: stages.Stage
    schema: schema.Schema
    kind: declared_objects.Kind[Any]

    def counts(self, namespace: str) -> dict[str, int]:
        """The plugin's counts for the limits of a namespace, as HGETALL shows them."""
        client = connections.connect(self.stage.server.url)
        try:
            found = client.hgetall(keys.Keys(stages.CLUSTER, self.schema.forms).counts)
        finally:
            client.close()
        pairs = {connections.text(key): int(count) for key, count in found.items()}
        return {key: count for key, count in pairs.items() if key.startswith(f"podlimits|{namespace}/")}

    def limit(self, namespace: str, name: str, most: object) -> None:
        """Create a PodLimit: the one of the page, with other names and another limit."""
        (made,) = plugin_page.objects("PodLimit")
        made["metadata"] |= {"namespace": namespace, "name": name}
        made["spec"] = {"perNode": most}
        self.stage.api.objects.create("podlimits", made)

    def kept(self, identity: str) -> dict[str, Any]:
        """What the log holds of a limit, once it does."""

        def found() -> object:
            return self.stage.store.follower.catch_up().get(self.kind, identity)

        kept = polling.eventually(found, f"limit {identity} is in the log", within=40.0)
        return {name: getattr(kept, name) for name in ("namespace", "name", "per_node")}

    def pods(self, namespace: str, *names: str) -> list[stages.Json]:
        """Create pods, and wait until the log holds them."""
        made = [self.stage.pod(namespace, name) for name in names]
        self.stage.seen()
        return made

    def status(self, namespace: str, name: str) -> object:
        """The status of a limit at the API server."""
        return self.stage.api.objects.get("podlimits", (namespace, name)).get("status")

    def folded(self, enabled: str) -> dict[str, Any]:
        """The state as a new process with these plugins enabled folds it."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.extender.folded_state"],
            env=os.environ | environment(self.stage, enabled),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def environment(stage: stages.Stage, enabled: str) -> dict[str, str]:
    """The variables of a process that finds the distribution."""
    return stage.environment(PYTHONPATH=str(stage.folder / "site"), TOPOLOG_PLUGINS_ENABLED=enabled)


def resource() -> objects.Resource:
    """The collection that the definition on the page makes an API server serve."""
    (definition,) = plugin_page.objects("CustomResourceDefinition")
    spec = definition["spec"]
    (version,) = spec["versions"]
    return objects.Resource(
        spec["names"]["plural"],
        spec["names"]["kind"],
        f"{spec['group']}/{version['name']}",
        namespaced=spec["scope"] == "Namespaced",
        custom=True,
        status="status" in version["subresources"],
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    folder = tmp_path_factory.mktemp("example")
    site = folder / "site"
    plugin_page.install(site)
    (folder / "store").mkdir()
    server = embedded.Server(folder / "store", append_only=True)
    try:
        with (
            distributions.importable(site, *plugin_page.MODULES),
            # The definition of the page, not the kind of the plugin, determines what is served.
            apiservers.ApiServer(declared.SCHEMA, further=[resource()], bookmarks=1.0) as api,
        ):
            whole = plugins.catalog().schema
            kind = whole.kind("podlimits")
            assert kind is not None
            stage = stages.Stage(folder, api, server, whole)
            try:
                found = {"PYTHONPATH": str(site)}
                stage.extend("extender-1", **found, TOPOLOG_PLUGINS_ENABLED=WITH)
                stage.extend("extender-2", **found, TOPOLOG_PLUGINS_ENABLED=WITHOUT)
                stage.worker("record", **found, TOPOLOG_PLUGINS_ENABLED=WITHOUT)
                stage.worker("control", **found, TOPOLOG_PLUGINS_ENABLED=WITH).ready()
                for one in stage.replicas:
                    one.ready()
                for node in ("n1", "n2"):
                    stage.node(node)
                yield Example(stage, whole, kind)
            finally:
                stage.close()
    finally:
        server.stop()


def filtered(caller: stages.Caller, pod: stages.Json) -> tuple[set[str], dict[str, str]]:
    """The nodes that a filter call keeps of both, and the reasons for the others."""
    reply = caller.post("/filter", stages.request(pod, "n1", "n2")).json
    return set(reply["NodeNames"] or ()), reply["FailedNodes"] | reply["FailedAndUnresolvableNodes"]


def test_its_objects_are_counted_filtered_and_given_a_status(example: Example) -> None:
    stage = example.stage
    example.limit("shop", "web", 2)
    assert example.kept("shop/web") == {"namespace": "shop", "name": "web", "per_node": 2}
    first, second, third, outside = (
        *example.pods("shop", "a", "b", "c"),
        *example.pods("other", "d"),
    )
    caller = stage.caller()
    assert filtered(caller, first) == ({"n1", "n2"}, {})
    for number, pod in enumerate((first, second), start=1):
        assert caller.post("/bind", stages.bind(pod, "n1")).json == {"Error": ""}
        # The append of the placement wrote it: it is there when the bind is answered.
        assert example.counts("shop") == {"podlimits|shop/web|n1": number}
    assert filtered(caller, third) == ({"n2"}, {"n1": "pod limit shop/web: the node is full"})
    assert filtered(caller, outside) == ({"n1", "n2"}, {})
    assert (
        "pod limit shop/web: the node is full" in caller.post("/bind", stages.bind(third, "n1")).json["Error"]
    )
    assert stage.bound(third) == ""

    listed = stage.caller("operator").ask("GET", LIMITS)
    assert listed.status == 200
    assert listed.json["items"] == [{"limit": "shop/web", "perNode": 2, "placed": 2, "full": ["n1"]}]

    def placed() -> bool:
        status = example.status("shop", "web")
        return isinstance(status, dict) and status.get("placed") == 2

    polling.eventually(
        placed,
        "the status holds the count",
        within=60.0,
        seen=functools.partial(example.status, "shop", "web"),
    )

    # The counts fall with the pod.
    stage.api.objects.remove("pods", ("shop", "a"))
    polling.eventually(
        lambda: example.counts("shop") == {"podlimits|shop/web|n1": 1},
        "the pod counts no longer",
        within=40.0,
    )
    stage.seen()
    polling.eventually(lambda: filtered(caller, third)[0] == {"n1", "n2"}, "the node has a free place")


def test_a_placement_has_a_ceiling_and_expects_all_limits_of_its_namespace(example: Example) -> None:
    example.limit("race", "one", 1)
    example.limit("race", "two", 2)
    example.kept("race/one")
    example.kept("race/two")
    (made,) = example.pods("race", "a")
    snapshot = example.stage.seen()
    found = registry.Registry([plugins.catalog().classes[-1]()])
    cycle = cycles.cycle(snapshot.pods[made["metadata"]["uid"]], frozenset(("n1",)), snapshot)
    commitment = plans.commitment(found, cycle, "n1")
    assert isinstance(commitment, plans.Commitment)
    assert commitment.ceilings == {"podlimits|race/one|n1": 1, "podlimits|race/two|n1": 2}
    assert "podlimits-in:race" in commitment.subjects


def command(example: Example, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command prints where the distribution is installed."""
    tls, port = example.stage.folder / "tls", example.stage.replicas[0].port
    client = {"ca": "ca.crt", "cert": "operator.crt", "key": "operator.key"}
    options = [
        f"--server=https://127.0.0.1:{port}",
        *(f"--{name}={tls / file}" for name, file in client.items()),
    ]
    return subprocess.run(
        [extender_processes.TOPOLOG, *words, *options],
        env=os.environ | {"PYTHONPATH": str(example.stage.folder / "site")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_table_is_a_kind_of_the_command_line(example: Example) -> None:
    example.limit("shown", "web", 4)
    example.kept("shown/web")

    def lines() -> list[list[str]]:
        return [line.split() for line in command(example, "get", "limits").stdout.splitlines()]

    polling.eventually(
        lambda: ["shown/web", "4", "0", "-"] in lines(), "the limit is listed", within=40.0, seen=lines
    )


def test_its_override_is_an_option_of_the_command_line_and_is_listed_for_forms(example: Example) -> None:
    example.limit("asked", "web", 0)
    example.kept("asked/web")
    example.pods("asked", "a")
    assert command(example, "simulate", "asked/a", "--candidates", "all").returncode == 1
    scaled = ("--scale-limit", "asked/web", "1")

    def fits() -> bool:
        return command(example, "simulate", "asked/a", "--candidates", "all", *scaled).returncode == 0

    polling.eventually(fits, "the pod fits with another limit", within=40.0)
    shown = command(example, "simulate", "--help").stdout
    assert "--scale-limit LIMIT PERNODE" in shown
    assert "How many pods of a namespace may run on one" in shown
    wrong = command(example, "simulate", "asked/a", "--scale-limit", "asked/web", "many")
    assert "per" in wrong.stderr.lower()
    assert "expected `int`, got `str`" in wrong.stderr

    listed = example.stage.caller("viewer").ask("GET", "/apis/v1/overrides").json["items"]
    (own,) = [one for one in listed if one["op"] == "scaleLimit"]
    assert own["plugin"] == "PodLimits"
    assert [(one["name"], one["shape"], one["text"], one["example"]) for one in own["fields"]] == [
        ("limit", "value", True, "shop/web"),
        ("perNode", "value", False, "3"),
    ]
    others = example.stage.caller("viewer", replica=1).ask("GET", "/apis/v1/overrides").json["items"]
    assert "scaleLimit" not in {one["op"] for one in others}


@pytest.mark.parametrize(("role", "status"), [("operator", 200), ("viewer", 403), ("scheduler", 403)])
def test_its_route_requires_the_role_that_it_declares(example: Example, role: str, status: int) -> None:
    caller = example.stage.caller(role)
    assert caller.ask("GET", LIMITS).status == status
    assert caller.ask("GET", f"{LIMITS}?limit=1").status == status
    if status == 403:  # No spelling of the path avoids the role.
        assert caller.ask("GET", f"{LIMITS}/").status == status


def test_a_replica_that_has_not_enabled_it_counts_and_folds_alike(example: Example) -> None:
    stage = example.stage
    example.limit("mixed", "few", 1)
    example.kept("mixed/few")
    one, two, three = example.pods("mixed", "a", "b", "c")
    enabled, disabled = stage.caller(replica=0), stage.caller(replica=1)
    assert stage.caller("operator", replica=1).ask("GET", LIMITS).status == 404

    assert enabled.post("/bind", stages.bind(one, "n1")).json == {"Error": ""}
    assert example.counts("mixed") == {"podlimits|mixed/few|n1": 1}
    # Without the plugin, the limit does not apply, and the pod is counted.
    polling.eventually(lambda: filtered(disabled, two)[0] == {"n1", "n2"}, "the replica has the pods")
    assert disabled.post("/bind", stages.bind(two, "n1")).json == {"Error": ""}
    assert disabled.post("/bind", stages.bind(three, "n2")).json == {"Error": ""}
    assert example.counts("mixed") == {"podlimits|mixed/few|n1": 2, "podlimits|mixed/few|n2": 1}
    stage.seen()

    # Nothing else happens meanwhile, except what a leader appends when its term begins.
    def alike() -> tuple[dict[str, Any], dict[str, Any]] | None:
        states = example.folded(WITH), example.folded(WITHOUT)
        return states if states[0]["offset"] == states[1]["offset"] else None

    states = polling.eventually(alike, "both fold the log up to the same offset", within=60.0)
    assert states is not None
    assert "PodLimits" in states[0].pop("plugins")
    assert "PodLimits" not in states[1].pop("plugins")
    assert states[0] == states[1]
    assert states[0]["counts"] == materialised.counts(stage.store)
    assert example.counts("mixed").items() <= states[0]["counts"].items()


@pytest.mark.parametrize("command", [("record",), ("extender",), ("migrate", "status")])
def test_a_distribution_that_cannot_be_imported_ends_a_process_with_its_name(
    example: Example, tmp_path: pathlib.Path, command: tuple[str, ...]
) -> None:
    module, source = next(iter(plugin_page.sources().items()))
    source = source.replace("from app.domain import model", "from app.domain import models", 1)
    distributions.install(
        tmp_path,
        plugin_page.NAME,
        {"PodLimits": f"{module}:PodLimits"},
        {module: source},
    )
    done = subprocess.run(
        [extender_processes.TOPOLOG, *command],
        env=os.environ | example.stage.environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_codes.SETTINGS, done.stderr
    assert "Traceback" not in done.stderr
    for part in (
        "distribution pod-limits 1.4 cannot be loaded",
        "pod_limits:PodLimits: ImportError: cannot import name 'models' from 'app.domain'",
        "install a version of it that fits this Topolog, or uninstall it",
    ):
        assert part in done.stderr


@pytest.mark.parametrize("command", ["record", "extender"])
def test_a_process_that_lacks_the_distribution_refuses_the_store(example: Example, command: str) -> None:
    done = subprocess.run(
        [extender_processes.TOPOLOG, command],
        env=os.environ | example.stage.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_codes.STORE, done.stderr
    forms = example.schema.forms, declared.SCHEMA.forms
    assert (
        "the store keeps counts:{}, this version with its plugins keeps counts:{}:".format(*forms)
        in done.stderr
    )
    assert "install the same version and the same plugins everywhere" in done.stderr


def test_the_plugin_has_at_most_sixty_lines_of_code() -> None:
    lines = [line for line in plugin_page.sources()["pod_limits"].splitlines() if line.strip()]
    assert len(lines) <= 60


def test_its_file_is_decided_as_the_page_shows(tmp_path: pathlib.Path) -> None:
    plugin_page.install(tmp_path)
    (given,) = plugin_page.blocks("json")
    done = subprocess.run(
        [extender_processes.TOPOLOG, "score", "-"],
        input=given,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "TOPOLOG_PLUGINS_ENABLED": "PodLimits"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout in plugin_page.blocks("text")
