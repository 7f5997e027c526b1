"""What Topolog relies on in gunicorn beyond its documentation, and why its version is pinned.

The worker keeps the loop of gunicorn's threaded worker and replaces what that does with a connection. These
tests read the installed version: which names there are, what calls them, and what they return. The behaviour
is tested by the other modules of tests/serving, on real processes. To raise the pin, see CONTRIBUTING.md.
"""

import ast
import configparser
import inspect
import pathlib
import selectors
import socket
import ssl
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gunicorn
import pytest
from gunicorn import arbiter, config, glogging, sock, util
from gunicorn.http import errors, message, unreader, wsgi
from gunicorn.workers import base, gthread

import app
from app.serving import gunicorn_master, gunicorn_worker, servers

ROOT = pathlib.Path(app.__file__).parent.parent
OURS = gunicorn_worker.ExtenderWorker
IMPORTED = {
    "gunicorn": {"SERVER", "arbiter", "config", "glogging", "sock", "util"},
    "gunicorn.app": {"base"},
    "gunicorn.http": {"errors", "message", "unreader", "wsgi"},
    "gunicorn.workers": {"gthread"},
}
"""Module -> what Topolog imports from it."""
REPLACED = {
    *("accept", "init_process", "murder_keepalived", "murder_pending", "run"),
    *("wait_for_and_dispatch_events", "_cap_keepalive", "get_thread_pool"),
}
"""The methods of gunicorn's worker that ours replaces or extends."""
REPLACED_OF_ITS_BASE = {"init_signals"}
"""The same of the class that gunicorn's workers have in common; its `init_process` calls them."""
KEPT = {
    *("__init__", "check_config", "handle_exit", "handle_quit", "is_parent_alive"),
    "set_accept_enabled",
}
"""Its methods that ours uses as they are."""
UNREACHED = {
    *("enqueue_req", "finish_request", "handle", "handle_request", "on_client_socket_readable"),
    *("on_pending_socket_readable", "handle_h2c_upgrade", "_keepalive_after"),
}
"""Its methods for connections of its own class, of which there are none."""
REPLACED_OF_THE_MASTER = {"handle_hup", "handle_ttin", "handle_ttou", "handle_usr2", "spawn_worker"}
"""The methods of gunicorn's master that ours replaces or extends."""
KEPT_HANDLERS = {
    *("handle_chld", "handle_cld", "handle_int", "handle_quit", "handle_term", "handle_usr1", "handle_winch"),
    "handle_dirty_arbiter_exit",
}
"""Its handlers that change no set of workers; those that gunicorn calls dirty are off."""
HTTP2 = "http2"
"""Part of the name of methods for HTTP/2, which is off."""

Names = set[str]
Source = type | Callable[..., object]


def parsed(thing: Source) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(thing)))


def of_self(thing: Source) -> Names:
    """The attributes of ``self`` that a class or function names."""
    return {
        node.attr
        for node in ast.walk(parsed(thing))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def assigned(thing: Source) -> Names:
    """The attributes of ``self`` that a class sets, but for those that it only counts up."""
    return {
        node.attr
        for statement in ast.walk(parsed(thing))
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def methods(kind: type) -> Names:
    return {name for name, each in vars(kind).items() if inspect.isroutine(each)}


def reached(ours: Mapping[str, Any], theirs: Mapping[str, Any], first: Iterable[str]) -> Names:
    """The methods that are called from these, in both classes: ours calls the replaced ones by super()."""
    found: Names = set()
    waiting = set(first)
    while waiting:
        name = waiting.pop()
        found.add(name)
        for source in (ours, theirs):
            if name in source and (source is ours or name not in ours or calls_super(ours[name], name)):
                waiting |= (of_self(source[name]) & {*ours, *theirs}) - found
    return found


def calls_super(method: Source, name: str) -> bool:
    return f"super().{name}(" in inspect.getsource(method)


def functions(kind: type) -> dict[str, Any]:
    return {name: each for name, each in vars(kind).items() if inspect.isfunction(each)}


def parameters(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_version_is_pinned_to_the_one_that_is_tested() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    assert f"gunicorn=={gunicorn.__version__}" in parser["options"]["install_requires"].splitlines()


def test_nothing_else_of_gunicorn_is_imported() -> None:
    found: dict[str, Names] = {}
    for path in [*(ROOT / "app").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "gunicorn" in text else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gunicorn":
                found.setdefault(node.module or "", set()).update(each.name for each in node.names)
            if isinstance(node, ast.Import):
                assert not [each for each in node.names if each.name.startswith("gunicorn")], path
    assert found == IMPORTED


# The worker


def test_every_attribute_that_the_worker_uses_exists() -> None:
    own = assigned(OURS) | set(vars(OURS)) | set(OURS.__annotations__)
    theirs = assigned(base.Worker) | assigned(gthread.ThreadWorker) | set(dir(gthread.ThreadWorker))
    used = of_self(OURS) - own
    assert used >= {"alive", "cfg", "nr_conns", "poller", "tpool", "method_queue", "wsgi", "sockets"}
    assert used - theirs == set()


def test_each_method_of_gunicorns_worker_is_replaced_kept_or_never_reached() -> None:
    theirs = {name for name in methods(gthread.ThreadWorker) if HTTP2 not in name}
    assert theirs == REPLACED | KEPT | UNREACHED
    assert methods(OURS) & (theirs | methods(base.Worker)) == REPLACED | REPLACED_OF_ITS_BASE


def test_the_loop_calls_what_is_replaced_and_reaches_no_connection_of_its_own() -> None:
    # Signals and the arbiter call the handlers; the poller calls what is registered.
    first = ("run", "init_process", "handle_exit", "handle_quit")
    found = reached(functions(OURS), functions(gthread.ThreadWorker), first)
    assert found >= REPLACED
    assert found & UNREACHED == set()
    assert [name for name in found if HTTP2 in name] == []


def test_a_method_of_its_own_connections_that_is_reached_would_be_found() -> None:
    theirs = functions(gthread.ThreadWorker)
    first = ("run", "init_process")
    assert "finish_request" in reached({}, theirs, first), "gunicorn's own accept leads there"
    without = {name: each for name, each in functions(OURS).items() if name != "accept"}
    assert "enqueue_req" in reached(without, theirs, first)


@pytest.mark.parametrize("name", sorted(REPLACED | REPLACED_OF_ITS_BASE))
def test_a_replaced_method_takes_the_same_arguments(name: str) -> None:
    theirs, ours = getattr(gthread.ThreadWorker, name), getattr(OURS, name)
    assert len(parameters(ours)) == len(parameters(theirs))
    keywords = [each for each in ("timeout", "force") if each in parameters(theirs)]
    assert set(keywords) <= set(parameters(ours)), "the loop gives them by name"


def test_callbacks_are_handed_to_the_loop_in_order() -> None:
    queue = gthread.PollableMethodQueue()
    queue.init()
    try:
        seen: list[int] = []
        for number in range(3):
            queue.defer(seen.append, number)
        with selectors.DefaultSelector() as selector:
            descriptor = queue.fileno()
            assert descriptor is not None
            selector.register(descriptor, selectors.EVENT_READ)
            assert selector.select(5)
        queue.run_callbacks(None)
        assert seen == [0, 1, 2]
    finally:
        queue.close()


# The master


def test_the_arbiter_keeps_its_workers_where_the_hooks_look() -> None:
    assert arbiter.Arbiter.WORKERS == {}


def test_each_handler_of_gunicorns_master_is_replaced_or_kept() -> None:
    theirs = methods(arbiter.Arbiter)
    assert methods(gunicorn_master.Master) & theirs == REPLACED_OF_THE_MASTER
    handlers = {name for name in theirs if name.startswith("handle_")}
    assert handlers == (REPLACED_OF_THE_MASTER - {"spawn_worker"}) | KEPT_HANDLERS


def test_the_exit_code_of_a_worker_that_cannot_start_ends_the_master() -> None:
    for method in (arbiter.Arbiter.spawn_worker, arbiter.Arbiter.reap_workers):
        assert of_self(method) >= {"WORKER_BOOT_ERROR", "APP_LOAD_ERROR"}
    ending = {arbiter.Arbiter.WORKER_BOOT_ERROR, arbiter.Arbiter.APP_LOAD_ERROR}
    assert gunicorn_master.REPLACED not in ending


def test_the_logger_is_set_up_by_the_methods_that_ours_replaces() -> None:
    assert parameters(glogging.Logger.setup) == parameters(servers.Logger.setup)
    assert "setup" in of_self(glogging.Logger.__init__)
    assert {"access", "error_log", "access_log"} <= assigned(glogging.Logger) | methods(glogging.Logger)


# Requests

HEAD = b"POST /filter?x=1 HTTP/1.1\r\nHost: h:1\r\nUser-Agent: a\r\nContent-Length: 2\r\nX-A: b\r\n\r\n"
BASE = {
    *("wsgi.errors", "wsgi.version", "wsgi.multithread", "wsgi.multiprocess", "wsgi.run_once"),
    *("wsgi.file_wrapper", "wsgi.input_terminated", "SERVER_SOFTWARE"),
}
OF_A_REQUEST = {
    *("wsgi.input", "wsgi.url_scheme", "gunicorn.socket", "REQUEST_METHOD", "QUERY_STRING", "RAW_URI"),
    *("SERVER_PROTOCOL", "HTTP_HOST", "HTTP_USER_AGENT", "CONTENT_LENGTH", "HTTP_X_A", "REMOTE_ADDR"),
    *("REMOTE_PORT", "SERVER_NAME", "SERVER_PORT", "PATH_INFO", "SCRIPT_NAME", "wsgi.early_hints"),
}


class Unsent:
    def send(self, data: bytes) -> int:
        raise AssertionError("nothing is sent while a head is parsed")


def test_a_head_is_parsed_from_memory_into_this_environment() -> None:
    """The fast path builds the same by hand (fast_path.RequestReader): a key that is new is new to it."""
    cfg = config.Config()
    request: Any = message.Request(cfg, unreader.IterUnreader([HEAD]), ("10.0.0.7", 4711))
    assert request.version == (1, 1)
    assert request.should_close() is False
    sent: Any = Unsent()
    _, environ = wsgi.create(request, sent, ("10.0.0.7", 4711), ("10.0.0.1", 8443), cfg)
    assert set(wsgi.base_environ(cfg)) == BASE
    assert set(environ) == BASE | OF_A_REQUEST
    assert environ["RAW_URI"] == "/filter?x=1"


@pytest.mark.parametrize(
    ("head", "error"),
    [
        (b"GET / SPDY/9\r\n\r\n", errors.ParseException),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", errors.LimitRequestLine),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", errors.LimitRequestHeaders),
        (b"GET / HTTP/1.1\r\nHost", (errors.NoMoreData, StopIteration, errors.ParseException)),
    ],
)
def test_a_head_that_is_refused_raises_one_of_these(head: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        message.Request(config.Config(), unreader.IterUnreader([head]), ("10.0.0.7", 4711))


def test_headers_of_a_connection_are_known_and_a_date_is_formatted() -> None:
    hoppish = ("connection", "Transfer-Encoding", "upgrade", "keep-alive")
    assert [name for name in (*hoppish, "Content-Type") if util.is_hoppish(name)] == [*hoppish]
    assert util.http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_a_socket_is_wrapped_by_the_context_of_the_setting_and_without_a_handshake() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asked: list[tuple[object, object]] = []

    def hook(conf: object, factory: object) -> ssl.SSLContext:
        asked.append((conf, factory))
        return context

    cfg = config.Config()
    for name, value in {"ssl_context": hook, "do_handshake_on_connect": False, "certfile": "x"}.items():
        cfg.set(name, value)
    assert cfg.is_ssl
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        wrapped = sock.ssl_wrap_socket(one, cfg)
        with wrapped:
            assert wrapped.context is context
            assert wrapped.server_side
            with pytest.raises(ssl.SSLWantReadError):
                wrapped.do_handshake()
    assert [one for one, _ in asked] == [cfg]
