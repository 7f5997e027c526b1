"""What ``topolog get`` prints of each kind in each format, to a character."""

import json
import secrets
from collections.abc import Iterator

import pytest
import yaml

from app.cli.get import resources
from app.store.server import embedded
from tests.support.extender import shown_kinds


@pytest.fixture(scope="module")
def url(store_server: embedded.Server) -> Iterator[str]:
    with shown_kinds.served(store_server, f"golden{secrets.token_hex(4)}") as url:
        yield url


@pytest.mark.parametrize("kind", resources.RESOURCES)
def test_each_format_of_a_kind_prints_what_is_committed(url: str, kind: str) -> None:
    assert shown_kinds.shown(url, kind) == shown_kinds.path(kind).read_text(), (
        f"if the change is meant, run: {shown_kinds.COMMAND}"
    )


@pytest.mark.parametrize("kind", resources.RESOURCES)
def test_json_and_yaml_of_a_kind_are_the_same_document(url: str, kind: str) -> None:
    one, other = (shown_kinds.printed(url, (kind, "-o", output)) for output in ("json", "yaml"))
    assert json.loads(one) == yaml.safe_load(other)


@pytest.mark.parametrize("kind", resources.RESOURCES)
def test_a_wide_table_of_a_kind_begins_as_the_table(url: str, kind: str) -> None:
    one, other = (shown_kinds.printed(url, (kind, "-o", output)).splitlines() for output in ("table", "wide"))
    for line, wide in zip(one, other, strict=True):
        assert wide.split()[: len(line.split())] == line.split()


def test_each_file_is_of_a_kind() -> None:
    assert {path.stem for path in shown_kinds.FOLDER.iterdir()} == resources.RESOURCES.keys()
