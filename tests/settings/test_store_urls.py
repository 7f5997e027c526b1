"""Store URLs: each is either refused with the settings, or redis-py can connect with it."""

import inspect
import pathlib

import hypothesis
import pytest
import redis
from hypothesis import strategies as st
from redis import connection

from app import settings
from app.store import errors
from app.store.server import connections
from tests.support import commands, declared
from tests.support.campaigns import sizes

CANARY = "cAn4ry"

WRONG = {
    "redis://h:1/0?ssl_password=cAn4ry": "has option ssl_password without TLS: write rediss",
    "rediss://h:1/0?ssl_pasword=cAn4ry": "did you mean ssl_password?",
    "rediss://h?ssl_ca_cert=cAn4ry": "did you mean ssl_ca_certs?",
    "redis://h?nonsense=cAn4ry": "has option number 1, which does not exist: possible are username, ",
    "redis://h?cAn4ry": "has option number 1, which does not exist",
    "redis://h?client_name=a&CAN4RY=cAn4ry": "has option number 2",
    "redis://h?socket_timeout=5": "which is a setting of its own here: store.socket_timeout",
    "redis://h?connection_class=cAn4ry": "has option number 1, which does not exist",
    "redis://h?decode_responses=true": "has option number 1, which does not exist",
    "redis://h?db=cAn4ry": "has option db with a wrong value: it must be the number of a database",
    "redis://h?db=": "has option db with a wrong value",
    "redis://h?db=1&db=2": "has option db twice",
    "redis://h/cAn4ry": "has a path that is not the number of a database",
    "redis+cluster://h,i/3": "a Redis Cluster has only database 0",
    "redis+cluster://h,i?db=3": "has option db, which only redis:// and unix:// and redis+sentinel:// may",
    "redis://h?sentinel_password=cAn4ry": "has option sentinel_password, which only redis+sentinel:// may",
    "unix:///run/store?ssl_ca_certs=/ca": "has option ssl_ca_certs, which only",
    "unix:///run/store?socket_keepalive=true": "has option socket_keepalive, which only",
    "rediss://h?ssl_cert_reqs=cAn4ry": "it must be required, optional or none",
    "rediss://h?ssl_check_hostname=flase": "it must be true or false",
    "rediss://h?ssl_min_version=1.2": "it must be 771 (TLS 1.2) or 772 (TLS 1.3)",
    "rediss://h?ssl_ciphers=cAn4ry": "it must be a list of ciphers that OpenSSL has",
    "rediss://h?ssl_ca_certs=": "has option ssl_ca_certs with a wrong value: it must be a file",
    "rediss://h?ssl_keyfile=/k": "has option ssl_keyfile without ssl_certfile",
    "redis://h,i": "names several hosts",
    "redis://h:0": "names a host that is not HOST or HOST:PORT",
    "redis://h:99999": "names a host that is not HOST or HOST:PORT",
    "redis://u:cAn4ry@h?password=p@ss": "written as %23, %2F and %40",
}
RIGHT = (
    "redis://h",
    "redis://u:p%40ss@h:7000/3",
    "redis://h/?db=3&client_name=me&socket_keepalive=true",
    "redis://[::1]:1",
    "redis://h?username=u&password=p%26a+b",
    "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=false&ssl_min_version=772",
    "rediss://h?ssl_ciphers=ECDHE-RSA-AES256-GCM-SHA384",
    "unix:///run/store.sock?db=2&password=p",
    "redis+sentinel://h,i:1,j/main?sentinel_username=u&sentinel_password=p",
    "rediss+sentinel://h,i,j/main?ssl_cert_reqs=optional",
    "redis+cluster://h,i/0",
)


@pytest.mark.parametrize(
    "query", ["password=a&hunter=x", "password=a&hunter=", "password=a&hunter", "hunter=b"]
)
def test_a_part_of_a_password_that_could_be_a_name_is_not_shown(query: str) -> None:
    with pytest.raises(settings.SettingsRefused, match="has option number") as caught:
        settings.load(None, {"TOPOLOG_STORE_URL": f"redis://h?{query}"})
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_url_is_refused_with_the_settings(url: str) -> None:
    with pytest.raises(settings.SettingsRefused) as caught:
        settings.load(None, {"TOPOLOG_STORE_URL": url})
    (problem,) = caught.value.problems
    assert WRONG[url] in str(problem)
    assert (problem.name, problem.source) == ("store.url", "TOPOLOG_STORE_URL")
    assert CANARY.lower() not in str(problem).lower()
    with pytest.raises(errors.StoreError, match=r"^store\.url "):
        connections.connect(url)


@pytest.mark.parametrize("url", RIGHT)
def test_connections_are_made_of_a_right_url(url: str) -> None:
    loaded = settings.load(None, {"TOPOLOG_STORE_URL": url})
    client = connections.connect(loaded.store.url, names=declared.names("c"))
    assert client.connection_pool.make_connection() is not None


def of_redis() -> list[str]:
    """Every option that redis-py has, by its own signatures."""
    classes = (connection.Connection, connection.SSLConnection, connection.AbstractConnection, redis.Redis)
    named = {name for one in classes for name in inspect.signature(one.__init__).parameters}
    return sorted(named | set(connection.URL_QUERY_ARGUMENT_PARSERS) | {"path", "sentinel_username"})


@hypothesis.given(
    scheme=st.sampled_from(
        ["redis://h/0", "rediss://h", "unix:///s", "redis+sentinel://h/m", "rediss+cluster://h"]
    ),
    given=st.lists(
        st.tuples(
            st.sampled_from(of_redis()), st.sampled_from(["", "0", "1", "true", "x", "771", "required"])
        ),
        max_size=3,
    ),
)
@hypothesis.settings(max_examples=sizes.examples(100), deadline=None)
def test_no_option_of_redis_py_ends_in_an_error_of_python(scheme: str, given: list[tuple[str, str]]) -> None:
    url = f"{scheme}?{'&'.join(f'{name}={value}' for name, value in given)}"
    try:
        client = connections.connect(url, names=declared.names("c"))
    except errors.StoreError:
        return
    assert client.connection_pool.make_connection() is not None
    for name, value in given:
        if name == "db":
            assert client.get_connection_kwargs()["db"] == int(value)


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "ca.crt"
    with pytest.raises(errors.StoreError) as caught:
        connections.connect(f"rediss://h?ssl_ca_certs={str(missing).replace('/', '%2F')}")
    assert str(missing) in str(caught.value)
    assert "ssl_ca_certs, which cannot be read: No such file or directory" in str(caught.value)


@pytest.mark.parametrize("command", ["migrate up", "doctor store", "record", "adopt", "settings"])
def test_commands_end_with_one_clear_error(command: str) -> None:
    done = commands.called(*command.split(), TOPOLOG_STORE_URL="redis://h:1/0?ssl_password=cAn4ry")
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines() == [
        "topolog: invalid settings:",
        "  store.url = (hidden) (TOPOLOG_STORE_URL): has option ssl_password without TLS: write rediss in"
        " place of redis, or leave it out",
    ]
