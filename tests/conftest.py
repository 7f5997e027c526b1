"""What every test may ask for: a real server, and a fresh store on it."""

import gc
import logging
import secrets
from collections.abc import Iterator
from unittest import mock

import hypothesis
import pytest
import structlog

from app import settings, telemetry
from app.store import schemas, stores
from app.store.server import connections, embedded
from app.telemetry import calls
from tests.support import declared

pytest_plugins = ("tests.support.reaper", "tests.support.run_order", "tests.support.scenario_report")

# Tests create many objects and few cycles: by its usual thresholds the collector takes a tenth of their time.
gc.set_threshold(100_000, 50, 50)

# How long one example takes is a matter of what else the machine does. A profile that was chosen stays.
hypothesis.settings.register_profile("unhurried", deadline=None)
if hypothesis.settings.get_current_profile_name() == "default":
    hypothesis.settings.load_profile("unhurried")


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection: none of them is garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _nothing_hidden() -> Iterator[None]:
    """A process hides from the collector what it reads at its start; here thousands of them start in one."""
    with mock.patch("gc.freeze"):
        yield


@pytest.fixture(autouse=True)
def _call_lines() -> Iterator[None]:
    """The lines of calls are written a moment later: pytest captures them only before the test ends."""
    yield
    calls.out.flush()


@pytest.fixture(autouse=True)
def _telemetry_as_before() -> Iterator[None]:
    """A command that a test runs in its own process configures logging for all tests behind it."""
    root = logging.getLogger()
    before, level, handlers = structlog.get_config(), root.level, root.handlers[:]
    yield
    if structlog.get_config() != before:
        telemetry.close()
        structlog.configure(**before)
        root.setLevel(level)
        root.handlers = handlers


@pytest.fixture(scope="session")
def store_server() -> Iterator[embedded.Server]:
    """One server process for the whole run; each test has a cluster of its own in it."""
    server = embedded.Server()
    yield server
    server.stop()


@pytest.fixture
def cluster() -> str:
    """A cluster name that no other test has."""
    return f"t{secrets.token_hex(6)}"


@pytest.fixture
def store(store_server: embedded.Server, cluster: str) -> Iterator[stores.Store]:
    """A fresh store, migrated and opened; its threads are not started."""
    client = connections.connect(store_server.url)
    schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.close()
    opened = stores.open_store(
        settings.Store(url=store_server.url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=("app", "rl-job-group"),
    )
    yield opened
    opened.close()
