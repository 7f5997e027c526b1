"""docs/how-to/what-if.md: every command of the page, asked about F6 beside which a gang waits."""

import json
import pathlib
import shlex
from collections.abc import Iterator

import pytest
import yaml
from click import testing

from app import cli
from app.domain import events
from app.framework import registry
from app.plugins.coscheduling import kinds
from app.plugins.coscheduling.membership import SIGS_LABEL
from app.plugins.coscheduling.plugin import Coscheduling
from app.store.server import embedded
from tests.support import how_to_pages
from tests.support.decisions import small_gangs
from tests.support.extender import api_worlds, questions

PAGE = "what-if.md"
NAMES = {"n7": "host-1", "n1": "host-2", "node:n1": "node:host-2", "41000": "5", "42000": "9", "40000": "3"}
"""Names and offsets of the page -> those of F6."""
COMMANDS = [
    line.partition("  #")[0].strip()
    for block in how_to_pages.blocks(PAGE, "")
    for line in block.splitlines()
    if line.startswith("topolog")
]


@pytest.fixture
def six(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """F6 with its ten decisions; then the gang ml/train, which waits."""
    chosen = registry.Registry([*api_worlds.plugins_of_the_seeds().plugins, Coscheduling()])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        made = api_worlds.world(start(), chosen)
        questions.live(made)
        labels = {SIGS_LABEL: "train"}
        made.append(
            kinds.SIGS.observed(small_gangs.sigs("train", 2, namespace="ml")),
            *(
                events.PodSeen(pod=small_gangs.pod(f"train-{at}", namespace="ml", labels=labels))
                for at in range(2)
            ),
        )
        yield made


def files(folder: pathlib.Path) -> None:
    policy = {
        "topologyKey": "role",
        "allocationType": "Required",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "allocationPolicy": [{"name": "host", "replicas": 2}],
    }
    metadata = {"name": "spread", "namespace": "shop"}
    manifest = {"kind": "WorkloadPolicy", "metadata": metadata, "spec": policy}
    (folder / "new.yaml").write_text(yaml.safe_dump(manifest))
    for name in ("pod", "worker"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(questions.manifest(name)))
    (folder / "one.json").write_text("{}")
    (folder / "other.json").write_text(json.dumps({"overrides": [{"op": "cordon", "nodes": ["host-1"]}]}))


def test_the_commands_of_the_page_are_answered(
    run: questions.Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        _, *words = (NAMES.get(word, word) for word in shlex.split(command))
        found = testing.CliRunner().invoke(cli.topolog, [*words, "--server", run.url])
        assert found.exit_code in (0, 1), f"{command}: {found.output}"
        assert found.exception is None or isinstance(found.exception, SystemExit), command
        assert not any(line.startswith("topolog: ") for line in found.output.splitlines()), found.output
    asked = {"simulate", "fit", "diff", "replay", "bisect", "shadow", "get"}
    assert {command.split()[1] for command in COMMANDS} == asked
