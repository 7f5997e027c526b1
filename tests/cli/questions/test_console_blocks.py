"""Every block of commands in the tutorial and the how-tos that needs no cluster, run as it is written.

tests/e2e/installation/test_console_blocks.py runs the others.
"""

import json
import pathlib
import time
from collections.abc import Iterator

import msgspec
import pytest

from app import settings
from app.domain import events, model
from app.framework import registry
from app.plugins.coscheduling import kinds
from app.plugins.coscheduling.membership import SIGS_LABEL
from app.plugins.coscheduling.plugin import Coscheduling
from app.serving.tls import certificate_issuer
from app.store.checkpoints import archive_storage, archives
from app.store.server import embedded
from tests.support import console_sessions, how_to_pages
from tests.support.decisions import small_gangs
from tests.support.extender import api_worlds, questions

PAGES = how_to_pages.sessions(cluster=False)
NAMES = {
    "n7": "host-1",
    "n1": "host-2",
    "node:n1": "node:host-2",
    "41000": "5",
    "42000": "9",
    "40000": "3",
    "41200": "3",
    "FILE": "$(ls segment.*.jsonl.gz | head -1)",
    "/tmp/topolog-bundle-k2v7q1/env": "$(ls -t /tmp/topolog-bundle-*/env | head -1)",
    "2026-07-01T10:00:00Z": console_sessions.NOW,
    "2026-07-01T12:00:00Z": console_sessions.NOW,
}
"""Names and offsets of the pages -> those of the world, or words of the shell."""


@pytest.fixture
def six(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """F6 with its ten decisions; then what the pages also name: a gang, and three pods."""
    chosen = registry.Registry([*api_worlds.plugins_of_the_seeds().plugins, Coscheduling()])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        configured = settings.load(
            None, {"TOPOLOG_CLUSTER": cluster, "TOPOLOG_PLUGINS_ENABLED": "*,Coscheduling"}
        )
        made = api_worlds.world(start(), chosen, configured=configured)
        made.now[0] = time.time()  # Commands compute with it how long ago something was.
        questions.live(made)
        free = msgspec.structs.replace(api_worlds.pod("free"), labels={})
        labels = {SIGS_LABEL: "train"}
        made.append(
            kinds.SIGS.observed(small_gangs.sigs("train", 2, namespace="ml")),
            *(
                events.PodSeen(pod=small_gangs.pod(f"train-{at}", namespace="ml", labels=labels))
                for at in range(2)
            ),
            *(api_worlds.pod_seen(name) for name in ("web-7", "urgent-1", "cron-2")),
            events.PlacementsCommitted(
                placements=(model.Placement(free, "host-4"),), at="2026-07-01T10:00:03Z", by="topolog"
            ),
        )
        yield made


@pytest.fixture
def session(
    run: questions.Run, store_server: embedded.Server, tmp_path: pathlib.Path
) -> console_sessions.Session:
    """A folder with the files that the pages name, whose commands find the world."""
    keys = run.world.store.keys
    made = console_sessions.Session(
        tmp_path,
        TOPOLOG_CLIENT_URL=run.url,
        TOPOLOG_CLIENT_VIEW_URL=run.url,
        TOPOLOG_STORE_URL=store_server.url,
        TOPOLOG_CLUSTER=keys.cluster,
        XDG_STATE_HOME=str(tmp_path / "state"),
    )
    certificate_issuer.issue(made.work, ["topolog.example"])
    archive = archives.Archive(archive_storage.Folder(made.work), keys.cluster, lambda: "i")
    archive.keep_segment(
        run.world.store.log.raws(0, run.world.store.follower.catch_up().position.offset), "i"
    )
    policy = {
        "topologyKey": "role",
        "allocationType": "Required",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "allocationPolicy": [{"name": "host", "replicas": 2}],
    }
    manifests = {
        "new.yaml": {
            "kind": "WorkloadPolicy",
            "metadata": {"name": "spread", "namespace": "shop"},
            "spec": policy,
        },
        "budget.yaml": {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 2},
        },
        "pod.yaml": questions.manifest("pod"),
        "worker.yaml": questions.manifest("worker"),
        "one.json": {},
        "other.json": {"overrides": [{"op": "cordon", "nodes": ["host-1"]}]},
    }
    manifests |= dict.fromkeys(("policies.yaml", "fixed.yaml"), manifests["new.yaml"])
    for name, manifest in manifests.items():
        # JSON is YAML.
        (made.work / name).write_text(json.dumps(manifest))
    (made.work / "reply.txt").write_text("The node was full.\n")
    return made


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, run: questions.Run, session: console_sessions.Session) -> None:
    shown = [*how_to_pages.blocks(page, "json"), ""][0]
    (session.work / "cluster.json").write_text(shown)
    urls = dict.fromkeys(
        ("https://topolog.example:8443", "https://EXTENDER:8443", "https://VIEW:8444"), run.url
    )
    session.run(PAGES[page], NAMES | urls)
