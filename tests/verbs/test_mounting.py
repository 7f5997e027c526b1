"""What happens around the body of a verb's call."""

import contextlib
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest

from app.api import extender, mounting
from tests.verbs import replicas


@pytest.mark.parametrize(
    ("verb", "asks"), [("filter", True), ("filter_onlyone", True), ("prioritize", False), ("bind", False)]
)
def test_the_state_is_asked_for_before_the_body_has_come(
    shop: replicas.Cluster, verb: str, asks: bool
) -> None:
    happened: list[str] = []
    replica = shop.replica()

    @contextlib.contextmanager
    def asked() -> Iterator[None]:
        happened.append("asked")
        yield
        happened.append("answered")

    def read(_: wsgiref.types.WSGIEnvironment, __: int) -> bytes:
        happened.append("read")
        return b"no JSON"

    def passing(_: wsgiref.types.WSGIEnvironment) -> AbstractContextManager[None]:
        return nullcontext()

    def nothing(_: wsgiref.types.WSGIEnvironment, __: wsgiref.types.StartResponse) -> Iterable[bytes]:
        raise AssertionError("a verb was handed on")

    def start(status: str, _: list[tuple[str, str]], __: object = None, /) -> Callable[[bytes], object]:
        happened.append(status)
        return lambda _: None

    verbs = extender.Extender(replica.context, replica.clock.monotonic, asked)
    mounted = mounting.Mounted(
        nothing, verbs, read=read, passing=passing, names_limit=1_000, nodes_limit=1_000
    )
    mounted({"PATH_INFO": f"/{verb}", "REQUEST_METHOD": "POST"}, start)
    assert happened == [*(["asked"] * asks), "read", *(["answered"] * asks), "400 Bad Request"]
