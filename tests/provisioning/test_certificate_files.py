"""``topolog bootstrap --from``: the Secrets of certificates are made of the files of ``topolog certs``."""

import datetime
import itertools
import pathlib
import shlex

import pytest
import yaml
from click import testing

from app import cli
from app.serving.tls import certificate_issuer
from tests.support import commands, how_to_pages
from tests.support.provisioning import namespaces, secrets_of

PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
FILES = {"topolog-tls": "server", **{f"topolog-{role}-tls": role for role in secrets_of.CLIENTS}}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    certificate_issuer.issue(tmp_path / "certs", [namespaces.SERVICE])
    return tmp_path / "certs"


def made(namespace: namespaces.Namespace, folder: pathlib.Path, *arguments: str) -> dict[str, str]:
    done = namespace.bootstrap("--from", str(folder), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    return {name: outcome for name, outcome, *_ in lines}


def check(namespace: namespaces.Namespace, folder: pathlib.Path) -> None:
    """Check that the Secrets are the files."""
    for name, file in FILES.items():
        found = namespace.secrets()[name]
        assert found["type"] == "kubernetes.io/tls"
        assert secrets_of.data(found) == {
            "tls.crt": (folder / f"{file}.crt").read_bytes(),
            "tls.key": (folder / f"{file}.key").read_bytes(),
            "ca.crt": (folder / "ca.crt").read_bytes(),
        }


def test_each_secret_is_made_of_its_files_and_the_ca_stays_where_it_is(
    namespace: namespaces.Namespace, folder: pathlib.Path
) -> None:
    (folder / "ca.key").unlink()
    assert made(namespace, folder) == dict.fromkeys((*secrets_of.STORE, *FILES), "created")
    check(namespace, folder)
    assert "topolog-ca" not in namespace.secrets()
    before = namespace.versions()
    assert set(made(namespace, folder).values()) == {"kept"}
    # The hourly run uses them as they are.
    assert set(namespace.provision().values()) == {"kept"}
    assert namespace.versions() == before


def test_the_commands_of_the_page_name_both_services() -> None:
    """One certificate is that of extender and view, and a renewed one keeps its names."""
    text = "".join(how_to_pages.blocks("certificates.md", "console"))
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("topolog certs ")]
    issuing = [words for words in commands if "--renew" not in words]
    assert (len(commands), len(issuing)) == (3, 2)
    services = {f"topolog-{name}.topolog-system.svc" for name in ("extender", "view")}
    for words in issuing:
        assert {word for option, word in itertools.pairwise(words) if option == "--host"} == services


def test_renewed_files_replace_what_was_made_of_files(
    namespace: namespaces.Namespace, folder: pathlib.Path
) -> None:
    made(namespace, folder)
    certificate_issuer.issue(folder, [namespaces.SERVICE], replace=certificate_issuer.Replace.SIGNED)
    found = made(namespace, folder)
    assert {name for name, outcome in found.items() if outcome == "updated"} == FILES.keys()
    check(namespace, folder)


@pytest.mark.parametrize("by", ["bootstrap", "cert-manager"])
def test_a_secret_of_others_is_not_replaced(
    namespace: namespaces.Namespace, folder: pathlib.Path, by: str
) -> None:
    namespace.provision()
    if by == "cert-manager":
        data = secrets_of.data(namespace.secrets()["topolog-tls"])
        namespace.delete(*namespace.secrets())
        namespace.put("topolog-tls", data, type="kubernetes.io/tls")
    before = namespace.versions()
    done = namespace.bootstrap("--from", str(folder))
    assert done.returncode == 1
    assert "topolog-tls was not made of files: delete it" in done.stderr
    assert before.items() <= namespace.versions().items()
    namespace.delete(*FILES)
    made(namespace, folder)
    check(namespace, folder)


def test_manifests_for_a_repository_are_shown_and_nothing_is_written(
    namespace: namespaces.Namespace, folder: pathlib.Path
) -> None:
    done = namespace.bootstrap("--from", str(folder), "--dry-run", "-o", "yaml")
    assert done.returncode == 0
    shown = {each["metadata"]["name"]: each for each in yaml.safe_load_all(done.stdout)}
    assert namespace.secrets() == {}
    for each in shown.values():
        namespace.server.objects.create("secrets", each)
    assert set(made(namespace, folder).values()) == {"kept"}
    check(namespace, folder)


def broken(folder: pathlib.Path, case: str) -> None:
    match case:
        case "server.crt: No such file":
            (folder / "server.crt").unlink()
            (folder / "server.key").unlink()
        case "ca.crt: No such file":
            (folder / "ca.crt").unlink()
        case "viewer.key: No such file":
            (folder / "viewer.key").unlink()
        case "is not of the key":
            (folder / "scheduler.key").write_bytes((folder / "viewer.key").read_bytes())
        case "is not signed by a CA":
            other = certificate_issuer.issue(folder.parent / "other", [namespaces.SERVICE]).directory
            (folder / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
        case "or its key":
            (folder / "server.key").write_text("no key")
        case "expired":
            certificate_issuer.issue(
                folder, [namespaces.SERVICE], now=PAST, replace=certificate_issuer.Replace.ALL
            )


@pytest.mark.parametrize(
    "case",
    [
        "server.crt: No such file",
        "ca.crt: No such file",
        "viewer.key: No such file",
        "is not of the key",
        "is not signed by a CA",
        "or its key",
        "expired",
    ],
)
def test_files_that_no_process_could_use_are_refused(
    namespace: namespaces.Namespace, folder: pathlib.Path, case: str
) -> None:
    broken(folder, case)
    done = namespace.bootstrap("--from", str(folder))
    assert done.returncode == 1
    assert case in done.stderr
    assert "PRIVATE KEY" not in done.stdout + done.stderr


def test_a_role_without_files_is_skipped(namespace: namespaces.Namespace, folder: pathlib.Path) -> None:
    for end in ("crt", "key"):
        (folder / f"operator.{end}").unlink()
    assert made(namespace, folder)["topolog-operator-tls"] == "skipped"
    assert "topolog-operator-tls" not in namespace.secrets()


def test_a_chain_of_another_authority_is_taken(namespace: namespaces.Namespace, folder: pathlib.Path) -> None:
    """The CA that signed is in the file of the certificate, and ca.crt has that CA's own."""
    chain = (folder / "ca.crt").read_bytes()
    for file in FILES.values():
        path = folder / f"{file}.crt"
        path.write_bytes(path.read_bytes() + chain)
    other = certificate_issuer.issue(folder.parent / "root", [namespaces.SERVICE]).directory
    (folder / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
    made(namespace, folder)
    check(namespace, folder)


@pytest.mark.parametrize("further", [["--every", "60"], ["--ca", "drop"], ["--no-certificates"]])
def test_files_are_read_by_one_run(folder: pathlib.Path, further: list[str]) -> None:
    environ = {"TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(folder)}
    done = testing.CliRunner().invoke(
        cli.topolog, ["bootstrap", "--from", str(folder), *further], env=environ
    )
    assert done.exit_code == 2
    assert "--from reads certificates" in done.output
