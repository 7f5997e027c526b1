"""The order of steps around reading the body of a call."""

import contextlib
import io
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator

import pytest

from app.api.extender import mount, verb_handlers
from tests.support.extender import replicas


class Body(io.BytesIO):
    """A body that records when it is read."""

    def __init__(self, happened: list[str]) -> None:
        super().__init__(b"no JSON")
        self._happened = happened

    def read(self, size: int | None = -1, /) -> bytes:
        self._happened.append("read")
        return super().read(size)


class State:
    """In place of the follower: records its calls."""

    def __init__(self, happened: list[str]) -> None:
        self._happened = happened

    def request(self) -> int:
        self._happened.append("asked")
        return 7

    @contextlib.contextmanager
    def prefetch(self, ticket: int | None = None) -> Iterator[None]:
        self._happened.append(f"answering {ticket}")
        yield
        self._happened.append("answered")


@pytest.mark.parametrize(
    ("verb", "asks"), [("filter", True), ("filter_onlyone", True), ("prioritize", False), ("bind", False)]
)
def test_the_state_is_requested_before_the_body_arrives(
    shop: replicas.Cluster, verb: str, asks: bool
) -> None:
    happened: list[str] = []
    replica = shop.replica()

    def nothing(_: wsgiref.types.WSGIEnvironment, __: wsgiref.types.StartResponse) -> Iterable[bytes]:
        raise AssertionError("a verb was handed on")

    def start(status: str, _: list[tuple[str, str]], __: object = None, /) -> Callable[[bytes], object]:
        happened.append(status)
        return lambda _: None

    verbs = verb_handlers.Extender(replica.context, replica.clock.monotonic, State(happened))
    mounted = mount.Mounted(nothing, verbs, names_limit=1_000, nodes_limit=1_000)
    environ = {"PATH_INFO": f"/{verb}", "REQUEST_METHOD": "POST", "wsgi.input": Body(happened)}
    mounted.coming(environ)
    assert happened == ["asked"] * asks
    mounted(environ, start)
    assert happened == [
        *(["asked", "answering 7"] * asks),
        "read",
        *(["answered"] * asks),
        "400 Bad Request",
    ]


def test_preempt_with_whole_pods_may_be_larger_than_with_names(shop: replicas.Cluster) -> None:
    replica = shop.replica()
    verbs = verb_handlers.Extender(replica.context, replica.clock.monotonic)

    def nothing(_: wsgiref.types.WSGIEnvironment, __: wsgiref.types.StartResponse) -> Iterable[bytes]:
        raise AssertionError("a verb was handed on")

    mounted = mount.Mounted(nothing, verbs, names_limit=100, nodes_limit=1_000)
    limits = {path: mounted.limit(path) for path in ("/preempt", "/api/preempt", "/bind")}
    assert limits == {"/preempt": 1_000, "/api/preempt": 1_000, "/bind": 100}
    pod = b'{"Pod":{"metadata":{"name":"p","namespace":"n","uid":"u"}},'
    victims = b'{"n1":{"Pods":%b,"NumPDBViolations":0}}'
    whole = pod + b'"NodeNameToVictims":' + victims % b'[{"metadata":{"uid":"a"}}]' + b"}"
    meta = pod + b'"NodeNameToMetaVictims":' + victims % b'[{"UID":"a"}]' + b"}"
    neither = pod + b'"NodeNameToVictims":null,"NodeNameToMetaVictims":null}'
    answered = [verbs.answer("preempt", body, names_limit=100) for body in (whole, meta, neither)]
    assert [reply.status for reply in answered] == [200, 413, 413]
    assert b"a call with node names has at most 100 bytes" in answered[1].body
