"""Secrets: read, created once, and replaced only as they were read."""

import base64
import dataclasses
from collections.abc import Iterator

import pytest

from app.kube import errors
from app.kube.client import clients
from app.kube.writes import secrets
from app.simulation.apiserver import apiservers, faults, objects
from tests.support import declared
from tests.support.kube import plain_access


@pytest.fixture
def server() -> Iterator[apiservers.ApiServer]:
    kind = objects.Resource("secrets", "Secret")
    with apiservers.ApiServer(declared.SCHEMA, further=[kind]) as started:
        yield started


@pytest.fixture
def access(server: apiservers.ApiServer) -> Iterator[secrets.Secrets]:
    client = clients.Client(plain_access.of(server.url))
    yield secrets.Secrets(client, "ns")
    client.close()


def test_a_secret_is_created_once_and_read_as_it_was_written(access: secrets.Secrets) -> None:
    made = secrets.Secret("s", {"a": b"\x00\xff", "b": b""}, labels={"l": "1"})
    assert access.read("s") is None
    assert access.write(made)
    assert not access.write(made)
    found = access.read("s")
    assert found is not None
    assert (found.data, found.type, found.labels) == (made.data, "Opaque", {"l": "1"})


def test_a_secret_that_was_changed_or_deleted_meanwhile_is_not_replaced(
    server: apiservers.ApiServer, access: secrets.Secrets
) -> None:
    assert access.write(secrets.Secret("s", {"a": b"1"}))
    first, second = access.read("s"), access.read("s")
    assert first is not None
    assert second is not None
    assert access.write(dataclasses.replace(first, data={"a": b"2"}))
    assert not access.write(second)
    server.objects.remove("secrets", ("ns", "s"))
    assert not access.write(first)


def test_what_others_wrote_is_kept(server: apiservers.ApiServer, access: secrets.Secrets) -> None:
    data = {"a": base64.b64encode(b"1").decode()}
    metadata = {"name": "s", "namespace": "ns", "annotations": {"k": "v"}, "labels": {"x": "y"}}
    server.objects.create(
        "secrets", {"metadata": metadata, "data": data, "type": "other", "immutable": False}
    )
    found = access.read("s")
    assert found is not None
    assert access.write(found)
    after = server.objects.get("secrets", ("ns", "s"))
    assert (after["type"], after["data"], after["immutable"]) == ("other", data, False)
    assert (after["metadata"]["annotations"], after["metadata"]["labels"]) == ({"k": "v"}, {"x": "y"})


@pytest.mark.parametrize(
    "body", [b"{", b'{"metadata": {"name": "s", "uid": "u"}, "data": {"a": "c2VjcmV0!"}}', b"[]"]
)
def test_an_undecodable_secret_is_reported_without_its_content(
    server: apiservers.ApiServer, access: secrets.Secrets, body: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    server.faults.add(faults.FaultKind.RAW, lambda _: True, raw=head + body)
    with pytest.raises(errors.Undecodable) as caught:
        access.read("s")
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_representation_contains_no_data() -> None:
    assert "hidden" not in repr(secrets.Secret("s", {"a": b"hidden"}, manifest={"data": "hidden"}))
