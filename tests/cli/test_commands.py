"""Commands that need neither store nor cluster, and the errors of the others without one."""

import json
import pathlib
import subprocess
import sys

import pytest
from cryptography import x509

from app import __version__, cli, settings
from app.serving.tls import certificate_checks
from app.store import stores
from app.store.server import embedded
from tests.support import commands


def test_every_command_has_a_help_text() -> None:
    done = commands.topolog("--help")
    assert done.returncode == 0
    for name in cli.topolog.list_commands(cli.topolog.make_context("topolog", ["version"])):
        assert f"  {name}" in done.stdout
        text = commands.called(name, "--help")
        assert text.returncode == 0, text.stderr
        assert len(text.stdout.splitlines()) > 4, name
        listed = text.stdout.partition("\nCommands:\n")[2].splitlines()
        assert [line for line in listed if line.endswith("...")] == [], "a sentence that is cut off"


STARTING = """
import sys
from app import cli
try:
    cli.main()
finally:
    heavy = {"cryptography", "flask", "gunicorn", "kubernetes", "marshmallow", "redis", "urllib3"}
    print("imported:", *sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["--help"], {}),
        (["version"], {}),
        ([], {"_TOPOLOG_COMPLETE": "bash_complete", "COMP_WORDS": "topolog ", "COMP_CWORD": "1"}),
    ],
    ids=["help", "version", "completion"],
)
def test_what_needs_no_command_waits_for_none(arguments: list[str], environ: dict[str, str]) -> None:
    program = f"import sys\nsys.argv[0] = 'topolog'\n{STARTING}"
    done = commands.run(["-c", program, *arguments], environ=environ)
    assert (done.returncode, done.stderr) == (0, "imported:\n")
    names = cli.topolog.list_commands(cli.topolog.make_context("topolog", ["version"]))
    assert "version" in arguments or all(name in done.stdout for name in names)


def test_a_check_without_a_store_names_the_command_for_a_cluster() -> None:
    done = commands.called("doctor", "store")
    assert done.returncode == 3
    assert "kubectl -n topolog-system exec deployment/topolog-auditor -- topolog doctor store" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("exlpain", "shop/a"), "No such command 'exlpain'. Did you mean 'explain'?"),
        (("zzz",), "No such command 'zzz'."),
        (("settings", "stor"), "unknown setting stor; did you mean store?"),
        (("settings", "store.ulr"), "unknown setting store.ulr; did you mean store.url?"),
        (("settings", "zzz"), "unknown setting zzz; `topolog settings` lists them all"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(words: tuple[str, ...], message: str) -> None:
    done = commands.called(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_version() -> None:
    assert commands.topolog("version").stdout.startswith(f"topolog {__version__} ")
    assert json.loads(commands.topolog("version", "-o", "json").stdout)["topolog"] == __version__


def test_settings_are_shown_with_their_effective_values(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "topolog.yaml"
    file.write_text("cluster: berlin")
    done = commands.called(
        "--config",
        str(file),
        "settings",
        "-o",
        "json",
        TOPOLOG_STORE_URL="redis://u:hunter2@h",
        TOPOLOG_SERVER_PORT="1",
    )
    shown = {one["name"]: one["value"] for one in json.loads(done.stdout)}
    assert (shown["cluster"], shown["server.port"]) == ("berlin", 1)
    assert shown["store.url"] == "redis://(hidden)@h"
    assert set(shown) == {setting.name for setting in settings.describe()}
    assert "hunter2" not in commands.called("settings", TOPOLOG_STORE_URL="redis://u:hunter2@h").stdout


def test_one_setting_is_shown_with_its_meaning() -> None:
    done = commands.called("settings", "server.port")
    assert "TOPOLOG_SERVER_PORT; a whole number from 1 to 65535; default 8443" in done.stdout
    assert commands.called("settings", "server.prt").returncode == 2
    url = commands.called("settings", "store.url").stdout
    assert url.startswith("store.url = empty\n")
    assert "; default empty\n" in url
    assert "``" not in url
    assert "`topolog up`" in url


@pytest.mark.parametrize("command", ["up", "bootstrap --dry-run"])
def test_a_kubeconfig_that_does_not_exist_is_a_settings_error(command: str) -> None:
    done = commands.called(*command.split(), TOPOLOG_KUBE_KUBECONFIG="/nonexistent/config")
    assert (done.returncode, done.stdout) == (3, "")
    assert "kubeconfig /nonexistent/config: no such file: name another one by kube.kubeconfig" in done.stderr


@pytest.mark.parametrize(
    "command", ["record", "control", "compact", "audit", "extender", "up", "get nodes", "score -", "settings"]
)
def test_an_invalid_setting_stops_every_command(command: str) -> None:
    done = commands.called(*command.split(), stdin="{}", TOPOLOG_SERVER_PORT="0")
    assert done.returncode == 3
    assert "server.port = 0 (TOPOLOG_SERVER_PORT): must be a whole number from 1 to 65535" in done.stderr


@pytest.mark.parametrize("command", ["record", "control", "compact", "audit", "extender", "migrate status"])
def test_a_process_without_a_store_names_the_setting(command: str) -> None:
    done = commands.called(*command.split())
    assert done.returncode == 3
    assert "store.url is not set" in done.stderr


def test_an_unknown_plugin_is_a_settings_error() -> None:
    done = commands.called(
        "score", "-", stdin='{"pod": {"name": "p"}}', TOPOLOG_PLUGINS_ENABLED="JobAffinity,Nonsense"
    )
    assert done.returncode == 3
    assert "Nonsense" in done.stderr


def test_an_unavailable_store_is_exit_code_four(tmp_path: pathlib.Path) -> None:
    done = commands.topolog("migrate", "status", TOPOLOG_STORE_URL=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 4
    assert "store is away" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_extender_that_cannot_start_reports_one_sentence(tmp_path: pathlib.Path) -> None:
    given = {
        "TOPOLOG_STORE_URL": f"unix://{tmp_path}/none.sock",
        "TOPOLOG_KUBE_KUBECONFIG": f"{tmp_path}/none",
    }
    done = commands.topolog("extender", **given)
    assert done.returncode == 3
    assert done.stderr.startswith("topolog: ")
    assert f"{tmp_path}/none" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.scenario("RL-8")
def test_an_extender_without_its_keystore_reports_one_sentence(
    store: stores.Store, store_server: embedded.Server, cluster: str, tmp_path: pathlib.Path
) -> None:
    given = {
        "TOPOLOG_CLUSTER": cluster,
        "TOPOLOG_STORE_URL": store_server.url,
        "TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path),
    }
    keystore = {
        "TLS_KEYSTORE_PATH": f"{tmp_path}/server.p12",
        "TLS_KEYSTORE_PASSWORD": "p",
        "TLS_TRUSTSTORE_PATH": f"{tmp_path}/ca.p12",
        "TLS_TRUSTSTORE_PASSWORD": "p",
    }
    for environ, expected in ((given, "topolog certs"), (given | keystore, f"{tmp_path}/server.p12")):
        done = commands.topolog("extender", **environ)
        assert done.returncode == 3, done.stderr
        assert expected in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_closed_pipe_causes_no_traceback() -> None:
    shell = f"{sys.executable} -m app.cli settings --explain | head -1"
    done = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        text=True,
        env=commands.environment({}),
        check=False,
        timeout=60,
    )
    assert done.stderr == ""


def test_certificates_are_created_and_renewed_under_the_same_ca(tmp_path: pathlib.Path) -> None:
    done = commands.called("certs", str(tmp_path / "c"), "--host", "extender.example", "-o", "json")
    first = json.loads(done.stdout)
    assert first["caKept"] is False
    assert {"ca.crt", "server.crt", "server.key", "scheduler.crt", "viewer.crt", "operator.crt"} <= set(
        first["files"]
    )
    again = json.loads(
        commands.called(
            "certs", str(tmp_path / "c"), "--host", "extender.example", "-o", "json", "--renew"
        ).stdout
    )
    assert again["caKept"] is True
    assert "server.key" in again["replaced"]
    refused = commands.called("certs", str(tmp_path / "c"), "--host", "extender.example")
    assert refused.returncode == 3
    assert "would replace" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_renewed_certificates_keep_their_names_until_the_certificate_is_deleted(
    tmp_path: pathlib.Path,
) -> None:
    def names(*arguments: str) -> set[str]:
        done = commands.called("certs", str(tmp_path), *arguments)
        assert done.returncode == 0, done.stderr
        held = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
        return set(certificate_checks.hosts(held))

    assert names("--host", "extender.example", "--host", "10.0.0.7") == {"extender.example", "10.0.0.7"}
    assert names("--renew") == {"extender.example", "10.0.0.7"}
    assert names("--renew", "--host", "new.example") == {"extender.example", "10.0.0.7", "new.example"}
    for file in ("server.crt", "server.key"):
        (tmp_path / file).unlink()
    assert commands.called("certs", str(tmp_path), "--renew").returncode == 2
    assert names("--renew", "--host", "new.example") == {"new.example"}
    assert names("--force", "--host", "extender.example") == {"extender.example"}


def test_nothing_is_renewed_where_there_is_no_authority(tmp_path: pathlib.Path) -> None:
    """A misspelt directory gets no CA that nothing trusts."""
    misspelt = tmp_path / "misspelt"
    done = commands.called("certs", str(misspelt), "--host", "extender.example", "--renew")
    assert done.returncode == 2
    assert f"{misspelt} has no ca.crt to renew certificates of" in done.stderr
    assert not misspelt.exists()


def test_certificates_need_a_valid_host(tmp_path: pathlib.Path) -> None:
    assert commands.called("certs", str(tmp_path)).returncode == 2
    assert commands.called("certs", str(tmp_path), "--host", "x", "--days", "3000000").returncode == 2
    done = commands.called("certs", str(tmp_path), "--host", "https://x")
    assert done.returncode == 2
    assert "https://x" in done.stderr


def test_a_module_beside_the_commands_is_a_command_or_what_several_of_them_need() -> None:
    names = cli.topolog.list_commands(cli.topolog.make_context("topolog", ["version"]))
    modules = {path.stem for path in pathlib.Path(cli.__file__).parent.glob("*.py")}
    shared = {"exits", "processes", "scenario", "supervisor"}
    assert modules - {"__init__", "__main__", *names} == shared
