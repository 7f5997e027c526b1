"""Credentials of kubeconfigs, tokens and service accounts, over real TLS."""

import json
import pathlib
from collections.abc import Callable

import pytest

from app.kube import errors
from app.kube.client import clients, credentials
from app.serving.tls import certificate_issuer
from app.simulation.apiserver import apiservers, faults
from tests.support import commands
from tests.support.kube import kubeconfigs, plain_access

TOKEN = kubeconfigs.TOKEN


def test_a_token(secured: apiservers.ApiServer, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", secured.url, folder / "ca.crt", {"token": TOKEN})
    assert kubeconfigs.reads(credentials.find(path))


def test_a_client_certificate(
    mutual: apiservers.ApiServer, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    user: dict[str, object] = {
        "client-certificate": str(folder / "viewer.crt"),
        "client-key": str(folder / "viewer.key"),
    }
    assert kubeconfigs.reads(
        credentials.find(kubeconfigs.write(tmp_path / "config", mutual.url, folder / "ca.crt", user))
    )


def test_an_exec_plugin(secured: apiservers.ApiServer, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    answer = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": TOKEN},
    }
    user: dict[str, object] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/echo",
            "args": [json.dumps(answer)],
            "interactiveMode": "Never",
        }
    }
    assert kubeconfigs.reads(
        credentials.find(kubeconfigs.write(tmp_path / "config", secured.url, folder / "ca.crt", user))
    )


@pytest.mark.parametrize("by", ["environment", "kubeconfig"])
@pytest.mark.parametrize("scheme", ["", "http://", "socks5://"])
def test_a_proxy_that_is_away_is_an_api_server_that_is_not_reached(
    secured: apiservers.ApiServer,
    folder: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    by: str,
) -> None:
    proxy = f"{scheme}127.0.0.1:9"
    path = kubeconfigs.write(tmp_path / "config", secured.url, folder / "ca.crt", {"token": TOKEN})
    if by == "environment":
        monkeypatch.setenv("HTTPS_PROXY", proxy)
    else:
        text = json.loads(pathlib.Path(path).read_text())
        text["clusters"][0]["cluster"]["proxy-url"] = proxy
        pathlib.Path(path).write_text(json.dumps(text))
    with pytest.raises(errors.Unreachable):
        kubeconfigs.reads(credentials.find(path))


@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        ("ftp://me:secret@10.0.0.9:3128", "not by ftp"),
        ("http://me:secret@10.0.0.9:port", "SCHEME://HOST:PORT"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_reported_without_its_password(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, proxy: str, why: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    path = kubeconfigs.write(tmp_path / "config", "https://10.0.0.1", folder / "ca.crt", {"token": TOKEN})
    with pytest.raises(errors.Misconfigured) as refused:
        credentials.find(path)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)


def test_an_api_server_that_is_exempt_from_the_proxy_is_reached_directly(
    secured: apiservers.ApiServer,
    folder: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    path = kubeconfigs.write(tmp_path / "config", secured.url, folder / "ca.crt", {"token": TOKEN})
    assert not credentials.find(path).direct
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
    access = credentials.find(path)
    assert access.direct
    assert kubeconfigs.reads(access)
    monkeypatch.setenv("HTTPS_PROXY", "ftp://127.0.0.1:9")
    assert credentials.find(path).direct, "a proxy that is not used is not checked"


def test_a_server_with_a_certificate_of_another_authority_is_refused(
    secured: apiservers.ApiServer, tmp_path: pathlib.Path
) -> None:
    certificate_issuer.issue(tmp_path / "other", ["localhost"])
    path = kubeconfigs.write(
        tmp_path / "config", secured.url, tmp_path / "other" / "ca.crt", {"token": TOKEN}
    )
    client = clients.Client(credentials.find(path))
    with pytest.raises(errors.Unreachable, match="certificate"):
        client.get("/api/v1/pods")
    with pytest.raises(errors.Unreachable, match="certificate"):
        client.exchange("GET", "/api/v1/pods", timeout=5.0)


def test_a_wrong_token_is_an_api_error(secured: apiservers.ApiServer, folder: pathlib.Path) -> None:
    client = clients.Client(plain_access.of(secured.url, token="wrong", ca_file=str(folder / "ca.crt")))
    with pytest.raises(errors.ApiError) as refused:
        client.get("/api/v1/pods")
    assert refused.value.status == 401


@pytest.mark.parametrize(
    "content",
    [None, "", "nonsense: [", "a: b", "clusters: " + "[" * 50_000, "clusters: &c [*c]"],
    ids=["none", "empty", "half", "another", "deep", "a circle"],
)
def test_an_unusable_kubeconfig_is_one_sentence(content: str | None, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.Misconfigured, match=str(path)):
        credentials.find(str(path))


@pytest.mark.parametrize(
    "content",
    ['users: [{{user: {{token: "{0}', "users: [{{user: {{token: {0}", "token: !{0} {0}", "token: *{0}"],
)
def test_a_kubeconfig_that_is_not_yaml_shows_no_token(content: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config"
    path.write_text(content.format("s3cret"))
    with pytest.raises(errors.Misconfigured, match="is not YAML in line 1: ") as refused:
        credentials.find(str(path))
    assert "s3cret" not in str(refused.value)


def test_the_password_of_an_address_is_not_shown() -> None:
    client = clients.Client(plain_access.of("http://someone:s3cret@127.0.0.1:1"))
    calls: list[Callable[[], object]] = [
        lambda: client.get("/api/v1/pods"),
        lambda: client.exchange("GET", "/api/v1/pods", timeout=5.0),
    ]
    for call in calls:
        with pytest.raises(errors.Unreachable, match=r"http://127\.0\.0\.1:1") as refused:
            call()
        assert "s3cret" not in str(refused.value)


def test_a_missing_context_is_named(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", "https://127.0.0.1:1", folder / "ca.crt", {"token": TOKEN})
    with pytest.raises(errors.Misconfigured, match="context elsewhere"):
        credentials.find(path, "elsewhere")


def test_a_fast_call_ends_at_its_timeout(server: apiservers.ApiServer, client: clients.Client) -> None:
    server.faults.add(faults.FaultKind.STALL, faults.lists("pods"))
    with pytest.raises(errors.Unreachable):
        client.exchange("GET", "/api/v1/pods", timeout=0.2)


def test_connections_are_kept(server: apiservers.ApiServer, client: clients.Client) -> None:
    for _ in range(5):
        client.exchange("GET", "/api/v1/pods", timeout=5.0)
        client.get("/api/v1/pods")
    assert server.accepted == 2


def test_an_empty_variable_is_the_file_in_the_home_directory(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".kube").mkdir()
    commands.kubeconfig(tmp_path / ".kube", "http://127.0.0.1:7")
    (tmp_path / ".kube/kubeconfig").rename(tmp_path / ".kube/config")
    # The official client reads the variable when it is imported.
    program = "from app.kube.client import credentials; print(credentials.find().host)"
    done = commands.run(["-c", program], environ={"KUBECONFIG": "", "HOME": str(tmp_path)})
    assert done.stdout == "http://127.0.0.1:7\n", done.stderr
