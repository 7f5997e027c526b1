"""Two worlds in a store, a view process on each, and a browser."""

import pathlib
import secrets
from collections.abc import Iterator

import pytest

from app.domain import events
from app.store.server import embedded
from tests.support.browser import browsers, large_worlds, shown, viewers
from tests.support.extender import api_worlds


@pytest.fixture(scope="session", autouse=True)
def chromium() -> None:
    """Skip everything here without Chromium."""
    if browsers.MISSING:
        pytest.skip(browsers.MISSING)


@pytest.fixture(scope="module")
def small(
    chromium: None, store_server: embedded.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[shown.Shown]:
    """Six nodes, two full domains, pods that wait, and decisions about them."""
    cluster = f"small{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.filled(start())
        # As an extender does when it starts: another process computes under recorded configurations only.
        world.append(events.ConfigurationApplied(world.registry.configuration()))
        world.append(*(api_worlds.pod_seen(f"late-{at}") for at in range(3)))
        api_worlds.decide(world, api_worlds.pod("web-3"), *(api_worlds.pod(f"late-{at}") for at in range(3)))
        with viewers.running(store_server.url, cluster, tmp_path_factory.mktemp("small")) as viewer:
            yield shown.Shown(world, viewer)


@pytest.fixture(scope="module")
def large(
    chromium: None, store_server: embedded.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[shown.Shown]:
    """5,000 nodes in three zones, with pods."""
    cluster = f"large{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.world(start())
        large_worlds.append(world, large_worlds.history(shown.NODES, shown.PODS))
        with viewers.running(store_server.url, cluster, tmp_path_factory.mktemp("large")) as viewer:
            yield shown.Shown(world, viewer)


@pytest.fixture
def on_small(small: shown.Shown, tmp_path: pathlib.Path) -> Iterator[browsers.Browser]:
    """A browser for the small world; what it must not do fails the test."""
    with browsers.browser(small.viewer.url, tmp_path / "profile") as found:
        yield found


@pytest.fixture
def on_large(large: shown.Shown, tmp_path: pathlib.Path) -> Iterator[browsers.Browser]:
    """A browser for the large world; what it must not do fails the test."""
    with browsers.browser(large.viewer.url, tmp_path / "profile") as found:
        yield found
