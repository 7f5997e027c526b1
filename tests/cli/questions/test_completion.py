"""Names are completed wherever a command takes one, also those far down in a long list."""

from collections.abc import Iterator

import pytest
from click import shell_completion

from app import cli
from tests.support.extender import api_worlds, http_servers


@pytest.fixture
def url(six: api_worlds.World) -> Iterator[str]:
    """F6, with more pods than a page has before z-1, and one in another namespace."""
    six.append(*(api_worlds.pod_seen(f"m-{number:03}") for number in range(120)))
    six.append(api_worlds.pod_seen("z-1"))
    six.client.put("/apis/v1/shadows/strict", json={"configuration": {"weights": {"JobAffinity": 2}}})
    with http_servers.serving_http(six.app) as url:
        yield url


def completed(url: str, words: str) -> list[str]:
    *before, incomplete = words.split(" ")
    shell = shell_completion.ShellComplete(cli.topolog, {}, "topolog", "_TOPOLOG_COMPLETE")
    command, rest = before[:1], before[1:]
    if command[0] in ("flags", "shadow"):
        command, rest = before[:2], before[2:]
    return [one.value for one in shell.get_completions([*command, "--server", url, *rest], incomplete)]


COMPLETED = {
    "explain shop/z": ["shop/z-1"],
    "explain -n shop z": ["z-1"],
    "explain -n other z": [],
    "explain -n sh": ["shop"],
    "simulate shop/a-1 shop/a-6": ["shop/a-6"],
    "simulate --cordon member": ["member-1", "member-2"],
    "simulate --like host-4": ["host-4"],
    "simulate --delete-pod shop/z": ["shop/z-1"],
    "fit shop/z": ["shop/z-1"],
    "fit --remove-node host-1": ["host-1"],
    "bisect shop/z": ["shop/z-1"],
    "get pods shop/z": ["shop/z-1"],
    "get pod -n shop z": ["z-1"],
    "get pods/shop/z": ["pods/shop/z-1"],
    "get node member": ["member-1", "member-2"],
    "get -n s": ["shop"],
    "flags set debugT": ["debugTopNScores"],
    "flags unset debugF": ["debugFilterFailure"],
    "flags set s 5 --pod shop/z": ["shop/z-1"],
    "shadow show st": ["strict"],
    "shadow delete x": [],
}


def test_each_name_is_completed(url: str) -> None:
    assert {words: completed(url, words) for words in COMPLETED} == COMPLETED
