"""Loading settings from file and environment, and the errors for invalid ones."""

import contextlib
import inspect
import itertools
import pathlib
import tempfile
import time
from collections.abc import Callable

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from app import settings
from app.settings import declarations
from app.store import errors as store_errors
from app.store.server import urls
from app.telemetry import log_setup
from tests.support.campaigns import sizes

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Write:
    """Write a settings file; return its path."""

    path = tmp_path / "topolog.yaml"

    def _write(text: str) -> str:
        path.write_text(text)
        return str(path)

    return _write


def refused(path: str | None, environ: dict[str, str]) -> dict[str, str]:
    """Name -> message of each invalid setting."""
    with pytest.raises(settings.SettingsRefused) as caught:
        settings.load(path, environ)
    return {problem.name: str(problem) for problem in caught.value.problems}


def test_without_file_and_environment_the_settings_are_the_defaults() -> None:
    assert settings.load(None, {}) == settings.Settings()


def test_the_environment_overrides_the_file(write: Write) -> None:
    path = write("cluster: bonn\nserver: {port: 9443, threads: 32}\nstore:\nplugins: {enabled: [Sorting]}\n")
    loaded = settings.load(path, {"TOPOLOG_SERVER_PORT": "7443", "UNRELATED": "x"})
    assert (loaded.cluster, loaded.server.port, loaded.server.threads) == ("bonn", 7443, 32)
    assert loaded.plugins.enabled == ("Sorting",)
    assert loaded.store == settings.Store()


def test_the_file_can_be_named_by_a_variable(write: Write) -> None:
    path = write("cluster: berlin")
    assert settings.load(None, {settings.FILE_VARIABLE: path}).cluster == "berlin"
    assert settings.load(path, {settings.FILE_VARIABLE: "/nowhere"}).cluster == "berlin"


@pytest.mark.parametrize(
    ("variable", "text", "read"),
    [
        pytest.param("TOPOLOG_CLUSTER", "42", lambda s: s.cluster == "42", id="text stays text"),
        pytest.param("TOPOLOG_SERVER_THREADS", " 9 ", lambda s: s.server.threads == 9, id="whole number"),
        pytest.param("TOPOLOG_BUDGETS_FILTER", "1", lambda s: s.budgets.filter == 1.0, id="number"),
        pytest.param("TOPOLOG_DEBUG_FILTERS", "true", lambda s: s.debug.filters is True, id="flag"),
        pytest.param("TOPOLOG_DEBUG_FILTERS", "1", lambda s: s.debug.filters is True, id="flag as 1"),
        pytest.param(
            "TOPOLOG_STORE_REQUIRE_DURABLE", " 0 ", lambda s: s.store.require_durable is False, id="flag as 0"
        ),
        pytest.param(
            "TOPOLOG_IDENTITIES_VIEWER",
            "DNS:a.example, URI:b://c",
            lambda s: s.identities.viewer == ("DNS:a.example", "URI:b://c"),
            id="list by commas",
        ),
        pytest.param(
            "TOPOLOG_PLUGINS_ENABLED",
            '["A", "B"]',
            lambda s: s.plugins.enabled == ("A", "B"),
            id="list as JSON",
        ),
        pytest.param(
            "TOPOLOG_PLUGINS_WEIGHTS",
            '{"JobAffinity": 3}',
            lambda s: s.plugins.weights == {"JobAffinity": 3},
            id="object as JSON",
        ),
        pytest.param(
            "TOPOLOG_PLUGINS_ARGS",
            "JobAffinity: {topology_keys: [zone]}",
            lambda s: s.plugins.args == {"JobAffinity": {"topology_keys": ["zone"]}},
            id="object as YAML",
        ),
        pytest.param("TOPOLOG_SERVER_PORT", "", lambda s: s.server.port == 8443, id="empty is not set"),
    ],
)
def test_a_variable_is_converted_to_its_type(
    variable: str, text: str, read: Callable[[settings.Settings], bool]
) -> None:
    assert read(settings.load(None, {variable: text}))


def test_all_invalid_settings_are_reported_together(write: Write) -> None:
    path = write("cluster: Berlin!\nstoer: {url: redis://x}\nserver: {port: 70000, threads: true, bind: 1}\n")
    problems = refused(path, {"TOPOLOG_BUDGETS_BIND": "nan", "TOPOLOG_SERVER_THREDS": "7"})
    assert set(problems) == {
        "cluster",
        "stoer",
        "server.port",
        "server.threads",
        "server.bind",
        "budgets.bind",
        "TOPOLOG_SERVER_THREDS",
    }
    # Each message has the name, the value, its origin and the allowed values.
    assert problems["server.port"] == f"server.port = 70000 ({path}): must be a whole number from 1 to 65535"
    assert "TOPOLOG_SERVER_THREADS" in problems["TOPOLOG_SERVER_THREDS"]
    assert "TOPOLOG_BUDGETS_BIND" in problems["budgets.bind"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("cluster: |\n  berlin\n", "cluster", id="a newline at the end"),
        pytest.param("debug: {filters: 1}", "debug.filters", id="a number for a flag"),
        pytest.param("server: {threads: 8.0}", "server.threads", id="a fraction for a whole number"),
        pytest.param("budgets: {bind: .nan}", "budgets.bind", id="not a number"),
        pytest.param("budgets: {bind: .inf}", "budgets.bind", id="infinity"),
        pytest.param("budgets: {bind: '3'}", "budgets.bind", id="a text for a number"),
        pytest.param("kube: {context: !!binary aGk=}", "kube.context", id="bytes for a text"),
        pytest.param("kube: {context: }", "kube.context", id="nothing"),
        pytest.param("plugins: {weights: {JobAffinity: true}}", "plugins.weights", id="a flag in an object"),
        pytest.param("plugins: {args: {JobAffinity: {1: 2}}}", "plugins.args", id="a number as a key"),
    ],
)
def test_a_value_of_a_similar_type_is_refused(write: Write, text: str, name: str) -> None:
    (setting,) = (each for each in settings.describe() if each.name == name)
    assert refused(write(text), {})[name].endswith(f": must be {setting.allowed}")


def test_the_error_for_an_unknown_name_suggests_existing_names(write: Write) -> None:
    problems = refused(write("kube: {kubconfig: /x}\nstore: {nonsense: 1}"), {})
    assert "did you mean kube.kubeconfig?" in problems["kube.kubconfig"]
    assert "store.url" in problems["store.nonsense"]


def test_a_group_that_is_not_an_object_is_refused(write: Write) -> None:
    assert set(refused(write("store: 5"), {})) == {"store"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "is not YAML in line", id="not YAML"),
        pytest.param("- a", "must be an object", id="not an object"),
        pytest.param("a: \x00", "is not YAML", id="control characters"),
        pytest.param(
            "a: 1\nb: !word", "in line 2: could not determine a constructor for the tag: quote", id="a tag"
        ),
        pytest.param("a: *word", "in line 1: found undefined alias: quote a text", id="an alias"),
        pytest.param("a:\n  b: 2026-02-30", "in line 2: found a value that cannot be read as", id="a date"),
        pytest.param("a: " + "9" * 101, "in line 1: found an int of more than 100 char", id="many digits"),
        pytest.param("a: !!int", "found a value that cannot be read as int", id="no digits"),
    ],
)
def test_an_unreadable_file_is_reported(write: Write, text: str, message: str) -> None:
    assert message in refused(write(text), {})["settings file"]


@hypothesis.given(
    tag=st.sampled_from(
        ["", "!!int", "!!float", "!!bool", "!!timestamp", "!!binary", "!!null", "!!set", "!!omap"]
    ),
    text=st.one_of(
        st.text("0123456789-:.eE+_xTZ ", max_size=24),
        st.dates().map(str),
        st.text("!&*%@|>{}[]?a ", max_size=8),
    ),
)
@hypothesis.settings(max_examples=sizes.examples(100), deadline=None)
def test_any_text_is_loaded_or_refused(tag: str, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(f"kube:\n  context: {tag} {text}\n")
        file.flush()
        with contextlib.suppress(settings.SettingsRefused):
            settings.load(file.name, {})


def test_a_missing_file_is_reported() -> None:
    assert "No such file" in refused("/nowhere/topolog.yaml", {})["settings file"]


def test_the_service_variables_of_kubernetes_are_ignored() -> None:
    links = {
        "TOPOLOG_EXTENDER_SERVICE_HOST": "10.96.0.7",
        "TOPOLOG_EXTENDER_SERVICE_PORT": "443",
        "TOPOLOG_EXTENDER_SERVICE_PORT_HTTPS": "443",
        "TOPOLOG_EXTENDER_PORT": "tcp://10.96.0.7:443",
        "TOPOLOG_EXTENDER_PORT_443_TCP": "tcp://10.96.0.7:443",
        "TOPOLOG_EXTENDER_PORT_443_TCP_PROTO": "tcp",
        "TOPOLOG_SERVER_PORT": "tcp://10.96.0.8:443",  # a Service of the name topolog-server
        "TOPOLOG_PORT": "tcp://10.96.0.9:443",
    }
    assert settings.load(None, links) == settings.Settings()


def test_topolog_variables_override_those_of_java_key_stores() -> None:
    environ = {
        "TLS_KEYSTORE_PATH": "/etc/tls/server.p12",
        "TLS_KEYSTORE_PASSWORD": "one",
        "TLS_TRUSTSTORE_PATH": "/etc/tls/ca.p12",
        "TLS_TRUSTSTORE_PASSWORD": "two",
        "TOPOLOG_TLS_TRUSTSTORE_PASSWORD": "three",
    }
    tls = settings.load(None, environ).tls
    assert (tls.keystore_path, tls.keystore_password) == ("/etc/tls/server.p12", "one")
    assert (tls.truststore_path, tls.truststore_password) == ("/etc/tls/ca.p12", "three")


@pytest.mark.parametrize(
    ("environ", "name", "message"),
    [
        pytest.param({"TOPOLOG_TLS_KEY": "k"}, "tls.key", "requires tls.cert", id="key alone"),
        pytest.param(
            {"TOPOLOG_ELECTION_RENEW": "15"},
            "election.renew",
            "election.renew (15) must be less than election.lease (15)",
            id="no time between renewals and the end of the lease",
        ),
        pytest.param(
            {"TOPOLOG_AUDIT_INTERVAL": "60"},
            "audit.interval",
            "audit.interval (60) must be less than compaction.reader_timeout (60)",
            id="an auditor that counts as dead",
        ),
        pytest.param(
            {"TOPOLOG_SERVER_INSECURE": "true"},
            "server.insecure",
            "server.bind",
            id="insecure on all interfaces",
        ),
        pytest.param(
            {"TOPOLOG_TLS_CERT": "c", "TLS_KEYSTORE_PATH": "p"},
            "tls.cert",
            "conflicts with",
            id="two server certificates",
        ),
        pytest.param(
            {"TOPOLOG_TLS_CA": "c", "TLS_TRUSTSTORE_PATH": "p"},
            "tls.ca",
            "conflicts with",
            id="two trust stores",
        ),
    ],
)
def test_contradictory_settings_are_refused(environ: dict[str, str], name: str, message: str) -> None:
    assert message in refused(None, environ)[name]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{former}'] * 9)}]\n" for former, name in itertools.pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store: " + "[" * 100_000, "nested more than"),
        ("store: " + "{a: " * 5_000, "nested more than"),
        ("\n".join(" " * at + "a:" for at in range(2_000)), "nested more than"),
        ("- " * 3_000, "nested more than"),
        (BOMB, "has more than"),
        ("store: &s\n  url: *s\n", "has more than"),
        ("x: [" + "1," * 200_000 + "]", "has more than"),
        ("x: " + "y" * 5_000_000, "is larger than"),
    ],
    ids=["lists", "objects", "blocks", "dashes", "aliases", "a cycle", "many", "large"],
)
def test_yaml_that_would_expand_beyond_the_limits_is_refused_early(
    write: Write, text: str, message: str
) -> None:
    started = time.process_time()
    error_text = str(refused(write(text), {}))
    assert message in error_text
    assert len(error_text) < 300
    assert time.process_time() - started < 4
    in_environment = refused(None, {"TOPOLOG_PLUGINS_ARGS": text[:100_000]})
    assert "plugins.args" in in_environment


def test_anchors_and_aliases_are_supported(write: Write) -> None:
    path = write("store: {url: &url 'redis://h'}\nclient: {cert: &c /x, key: *c}\n")
    assert settings.load(path, {}).client.key == "/x"


CANARY = "cAn4ry-hunter2"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        pytest.param(f"store: {{url: 'http://u:{CANARY}@h'}}", {}, id="bad URL"),
        pytest.param(
            f"store: {{url: 'redis://u:{CANARY}@h', urll: 'redis://u:{CANARY}@h'}}", {}, id="misspelt"
        ),
        pytest.param(f"store: {{passwrod: {CANARY}, url: [{CANARY}]}}", {}, id="misspelt password"),
        pytest.param(f"store:\n  url: {CANARY}: [", {}, id="not YAML"),
        pytest.param(f"secrets: {{a: {CANARY}}}\nstore: [{CANARY}]", {}, id="wrong shapes"),
        pytest.param("x: 1", {"TOPOLOG_TLS_KEYSTORE_PASWORD": CANARY}, id="misspelt variable"),
    ],
)
def test_an_error_never_shows_a_secret(write: Write, text: str, environ: dict[str, str]) -> None:
    assert CANARY not in str(refused(write(text), environ))


@hypothesis.given(
    user=st.sampled_from(["", "u", "u:", ":", "a:b@c:", "a@", "u/"]),
    secret=st.text("/@:?#&=%,[]+ a1.", max_size=4),
    scheme=st.sampled_from(
        ["redis://", "rediss://", "unix://", "redis+sentinel://", "http://", "redis:/", ""]
    ),
    rest=st.sampled_from(
        ["@h", "@h:6379/0", "@h,i/m", "@h?db=x", "@[::1]:1", "@h#x", "@a@b", "/x@h", "@/x", "@"]
    ),
    where=st.sampled_from(["store.url", "client.url", "store.ulr", "kube.context", "cluster", "other"]),
)
@hypothesis.settings(max_examples=sizes.examples(80), deadline=None)
def test_no_part_of_a_url_that_could_be_a_secret_is_echoed(
    user: str, secret: str, scheme: str, rest: str, where: str
) -> None:
    # A context may be named user@cluster: there, only a text with :// counts as a URL.
    hypothesis.assume(where != "kube.context" or "://" in scheme)
    url = f"{scheme}{user}{CANARY}{secret}{CANARY}{rest}"
    shown = ""
    environ = {"TOPOLOG_" + where.upper().replace(".", "_"): url}
    try:
        shown += str(settings.current(settings.load(None, environ)))
    except settings.SettingsRefused as problem:
        shown += str(problem)
    try:
        target = urls.parse(url)
        shown += f"{target.addresses} {target.master} {target.options.get('path')}"
    except store_errors.StoreError as problem:
        shown += str(problem)
    if " " not in url and "://" in scheme:
        shown += str(
            log_setup.without_secrets(None, "", {"event": f"the store {url} is away", "more": [url]})
        )
    assert CANARY not in shown


def test_settings_as_shown_and_as_text_hold_no_secret() -> None:
    loaded = settings.load(
        None,
        {"TOPOLOG_STORE_URL": f"redis://u:{CANARY}@h/0?password={CANARY}", "TLS_KEYSTORE_PASSWORD": CANARY},
    )
    shown = settings.current(loaded)
    assert CANARY not in repr(loaded) + str(shown)
    assert (shown["store.url"], shown["tls.keystore_password"]) == (
        "redis://(hidden)@h/0?password=(hidden)",
        "(hidden)",
    )


def test_every_setting_is_documented() -> None:
    described = settings.describe()
    assert len({setting.env for setting in described}) == len(described) > 30
    for setting in described:
        assert setting.doc.endswith("."), setting.name
        assert setting.env == "TOPOLOG_" + setting.name.replace(".", "_").upper()
        assert setting.allowed


def test_settings_load_where_no_source_code_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions are read from the source, which a build of compiled files only does not have."""

    def missing(group: type) -> str:
        raise OSError("could not get source code")

    declarations.docs.cache_clear()
    monkeypatch.setattr(inspect, "getsource", missing)
    try:
        assert settings.load(None, {"TOPOLOG_SERVER_PORT": "7443"}).server.port == 7443
        assert {setting.doc for setting in settings.describe()} == {""}
    finally:
        declarations.docs.cache_clear()


def test_every_default_is_allowed(write: Write) -> None:
    given: dict[str, dict[str, object]] = {}
    for setting in settings.describe():
        default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        if len(setting.path) == 2:
            given.setdefault(setting.path[0], {})[setting.path[1]] = default
    assert settings.load(write(yaml.safe_dump(given)), {}) == settings.Settings()
