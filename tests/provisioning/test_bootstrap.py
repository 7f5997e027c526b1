"""What ``topolog bootstrap`` keeps, renews and refuses, and what an operator reads of it."""

import datetime
import json
import pathlib

import pytest
import yaml
from click import testing

from app import cli
from app.serving.tls import certificate_issuer
from app.simulation.apiserver import faults
from tests.support import commands
from tests.support.provisioning import namespaces, secrets_of


def test_the_first_run_reports_what_it_made(namespace: namespaces.Namespace) -> None:
    done = namespace.bootstrap()
    assert (done.returncode, done.stderr) == (0, "")
    secrets_of.check_complete(namespace.secrets())
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["SECRET", "OUTCOME", "DETAIL"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [name, "created"] for name in (*secrets_of.STORE, "topolog-ca", *secrets_of.CERTIFICATES)
    ]
    shown = [*secrets_of.confidential(namespace.secrets())]
    assert [each for each in shown if each in done.stdout] == []


def test_nothing_confidential_is_shown_by_any_outcome(namespace: namespaces.Namespace) -> None:
    namespace.bootstrap()
    shown = secrets_of.confidential(namespace.secrets())
    namespace.put("topolog-operator-tls", {"tls.crt": b"no certificate", "tls.key": b"k", "ca.crt": b"c"})
    runs = [
        namespace.bootstrap(*each)
        for each in (["-o", "json"], ["--dry-run"], ["--host", "10.0.0.7"], ["--dry-run", "-o", "yaml"])
    ]
    assert [each.returncode for each in runs] == [1, 1, 1, 1]
    for each in runs:
        assert [one for one in shown if one in each.stdout + each.stderr] == []


def test_a_half_made_namespace_gets_its_other_half(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    kept = namespace.versions()
    gone = {"topolog-tls", "topolog-operator-tls", "topolog-valkey-acl"}
    namespace.delete(*gone)
    found = namespace.provision()
    assert {name for name, outcome in found.items() if outcome == "created"} == gone
    secrets_of.check_complete(namespace.secrets())
    after = namespace.versions()
    assert {name: after[name] for name in kept if name not in gone} == {
        name: version for name, version in kept.items() if name not in gone
    }


@pytest.mark.parametrize(("days_later", "outcome"), [(240, "kept"), (245, "renewed"), (400, "renewed")])
def test_a_certificate_is_renewed_after_two_thirds_of_its_life(
    namespace: namespaces.Namespace, days_later: float, outcome: str
) -> None:
    namespace.provision()
    before = namespace.secrets()
    found = namespace.provision(days_later=days_later)
    assert {found[name] for name in secrets_of.CERTIFICATES} == {outcome}
    assert {found[name] for name in ("topolog-ca", *secrets_of.STORE)} == {"kept"}
    authority = secrets_of.certificate(before["topolog-ca"])
    for name in secrets_of.CERTIFICATES:
        held = secrets_of.certificate(namespace.secrets()[name])
        held.verify_directly_issued_by(authority)
        assert secrets_of.names(held) == secrets_of.names(secrets_of.certificate(before[name]))
        left = (held.not_valid_after_utc - secrets_of.certificate(before[name]).not_valid_after_utc).days
        assert left == (days_later if outcome == "renewed" else 0)


def test_a_host_of_an_earlier_run_is_in_the_renewed_certificate(namespace: namespaces.Namespace) -> None:
    namespace.provision(hosts=["Topolog.internal", "10.0.0.7"])
    before = secrets_of.names(secrets_of.certificate(namespace.secrets()["topolog-tls"]))
    assert namespace.provision(days_later=245)["topolog-tls"] == "renewed"
    assert secrets_of.names(secrets_of.certificate(namespace.secrets()["topolog-tls"])) == before
    assert {"topolog.internal", "10.0.0.7"} <= set(before)


def test_a_further_host_renews_the_servers_certificate(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    found = namespace.provision(hosts=["10.0.0.7"])
    assert [name for name, outcome in found.items() if outcome != "kept"] == ["topolog-tls"]
    assert "10.0.0.7" in secrets_of.names(secrets_of.certificate(namespace.secrets()["topolog-tls"]))
    assert set(namespace.provision().values()) == {"kept"}


def test_metadata_of_others_survives_a_renewal(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    key = (secrets_of.HOME, "topolog-tls")

    def annotated(found: secrets_of.Object) -> secrets_of.Object:
        found["metadata"]["annotations"] = {"owner": "platform"}
        return found

    namespace.server.objects.change("secrets", key, annotated)
    assert namespace.provision(hosts=["10.0.0.7"])["topolog-tls"] == "renewed"
    assert namespace.secrets()["topolog-tls"]["metadata"]["annotations"] == {"owner": "platform"}


# Secrets of others


def issued_elsewhere(folder: pathlib.Path, name: str, *, days: int = 90) -> dict[str, bytes]:
    certificate_issuer.issue(
        folder, [namespaces.SERVICE], days=days, replace=certificate_issuer.Replace.SIGNED
    )
    files = {"tls.crt": f"{name}.crt", "tls.key": f"{name}.key", "ca.crt": "ca.crt"}
    return {key: (folder / file).read_bytes() for key, file in files.items()}


def test_certificates_of_another_issuer_are_accepted_and_never_written(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path
) -> None:
    for name in ("server", "scheduler"):
        secret = "topolog-tls" if name == "server" else "topolog-scheduler-tls"
        namespace.put(secret, issued_elsewhere(tmp_path, name), type="kubernetes.io/tls")
    before = namespace.versions()
    found = namespace.provision(days_later=80)
    assert found["topolog-tls"] == found["topolog-scheduler-tls"] == "kept"
    assert "not issued by topolog bootstrap" in namespace.detail("topolog-tls")
    # Nothing is signed by a CA that the extender would not trust.
    assert "topolog-ca" not in found
    assert found["topolog-viewer-tls"] == found["topolog-operator-tls"] == "skipped"
    assert before.items() <= namespace.versions().items()
    expired = namespace.provision(days_later=100)
    assert expired["topolog-tls"] == "refused"
    assert "its issuer has to renew it" in namespace.detail("topolog-tls")


def beside_another_issuer(namespace: namespaces.Namespace, folder: pathlib.Path) -> bytes:
    """All Secrets are made, and topolog-tls is replaced; what the others trust then."""
    namespace.provision(store_hosts=["topolog-valkey"])
    namespace.delete("topolog-tls")
    issued = issued_elsewhere(folder, "server", days=3650)
    both = issued["ca.crt"] + secrets_of.data(namespace.secrets()["topolog-ca"])["tls.crt"]
    namespace.put("topolog-tls", {**issued, "ca.crt": both}, type="kubernetes.io/tls")
    for name in MADE_HERE:
        namespace.put(name, {**secrets_of.data(namespace.secrets()[name]), "ca.crt": both})
    return both


MADE_HERE = (*secrets_of.CERTIFICATES[1:], "topolog-valkey-tls")


@pytest.mark.parametrize(("days_later", "outcome"), [(1, "kept"), (245, "renewed"), (2500, "renewed")])
def test_what_was_made_here_is_renewed_beside_a_server_of_another_issuer(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path, days_later: float, outcome: str
) -> None:
    """Their CA is not replaced by time: the other issuer would not trust the following one."""
    both = beside_another_issuer(namespace, tmp_path)
    before = namespace.versions()
    found = namespace.provision(days_later=days_later, store_hosts=["topolog-valkey"])
    assert {found[name] for name in MADE_HERE} == {outcome}
    assert (found["topolog-ca"], found["topolog-tls"]) == ("kept", "kept")
    authority = secrets_of.certificate(namespace.secrets()["topolog-ca"])
    for name in MADE_HERE:
        secrets_of.certificate(namespace.secrets()[name]).verify_directly_issued_by(authority)
        assert secrets_of.data(namespace.secrets()[name])["ca.crt"] == both
    after = namespace.versions()
    assert {name for name in after if after[name] != before[name]} == (
        set(MADE_HERE) if outcome == "renewed" else set()
    )


def test_a_missing_ca_is_named_beside_a_server_of_another_issuer(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path
) -> None:
    beside_another_issuer(namespace, tmp_path)
    namespace.delete("topolog-ca")
    done = namespace.bootstrap()
    assert done.returncode == 1
    assert f"topolog-ca is missing, but {', '.join(MADE_HERE)} exist" in done.stderr
    assert "topolog-ca" not in namespace.secrets()


def test_a_ca_of_the_operators_own_signs_the_certificates(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path
) -> None:
    certificate_issuer.issue(tmp_path, ["unused"])
    pair = {"tls.crt": (tmp_path / "ca.crt").read_bytes(), "tls.key": (tmp_path / "ca.key").read_bytes()}
    namespace.put("topolog-ca", pair, type="kubernetes.io/tls")
    assert namespace.provision()["topolog-ca"] == "kept"
    secrets_of.check_complete(namespace.secrets())


def test_a_store_of_the_operators_own_is_used_as_it_is(namespace: namespaces.Namespace) -> None:
    urls = {f"{role}-url": b"rediss://u:p@store.internal:6379" for role in secrets_of.USERS}
    namespace.put("topolog-store", urls)
    found = namespace.provision()
    assert (found["topolog-store"], found["topolog-valkey-acl"]) == ("kept", "skipped")
    assert secrets_of.data(namespace.secrets()["topolog-store"]) == urls
    assert "topolog-valkey-acl" not in namespace.secrets()


def test_without_a_bundled_store_only_certificates_are_made(namespace: namespaces.Namespace) -> None:
    assert namespace.provision(store="").keys() == {"topolog-ca", *secrets_of.CERTIFICATES}


def test_without_certificates_only_the_store_is_made(namespace: namespaces.Namespace) -> None:
    done = namespace.bootstrap("--no-certificates")
    assert (done.returncode, done.stderr) == (0, "")
    assert namespace.secrets().keys() == set(secrets_of.STORE)


def test_passwords_survive_a_change_of_cluster_and_address(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    before = secrets_of.passwords(namespace.secrets())
    found = namespace.provision(cluster="east", store="redis://elsewhere:6380")
    assert (found["topolog-store"], found["topolog-valkey-acl"]) == ("updated", "kept")
    assert secrets_of.passwords(namespace.secrets()) == before
    url = secrets_of.data(namespace.secrets()["topolog-store"])["doctor-url"].decode()
    assert url == f"redis://topolog-east-doctor:{before['doctor']}@elsewhere:6380"


def test_a_password_that_was_chosen_is_written_as_it_was(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    urls = secrets_of.data(namespace.secrets()["topolog-store"])
    own = urls["doctor-url"].rpartition(b":")[0].rpartition(b":")[0]
    chosen = b"%b:a%%2Fb%%40c@topolog-valkey:6379" % own
    namespace.put("topolog-store", {**urls, "doctor-url": chosen})
    namespace.provision()
    assert secrets_of.data(namespace.secrets()["topolog-store"])["doctor-url"] == chosen


def test_a_role_of_a_later_version_is_added(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    before = secrets_of.passwords(namespace.secrets())
    urls = secrets_of.data(namespace.secrets()["topolog-store"])
    namespace.put("topolog-store", {key: url for key, url in urls.items() if key != "auditor-url"})
    found = namespace.provision()
    assert (found["topolog-store"], found["topolog-valkey-acl"]) == ("updated", "updated")
    assert "new passwords for auditor: restart the store" in namespace.detail("topolog-valkey-acl")
    secrets_of.check_complete(namespace.secrets())
    after = secrets_of.passwords(namespace.secrets())
    assert {role for role in after if after[role] != before[role]} == {"auditor"}


def test_passwords_that_the_running_store_does_not_accept_are_named(namespace: namespaces.Namespace) -> None:
    """The server reads the access list when it starts."""
    namespace.provision()
    assert "new password" not in namespace.detail("topolog-valkey-acl")
    before = secrets_of.passwords(namespace.secrets())
    namespace.delete("topolog-store")
    found = namespace.provision()
    assert (found["topolog-store"], found["topolog-valkey-acl"]) == ("created", "updated")
    assert namespace.detail("topolog-valkey-acl").endswith(namespaces.RESTART)
    secrets_of.check_complete(namespace.secrets())
    after = secrets_of.passwords(namespace.secrets())
    assert [role for role in before if after[role] == before[role]] == []


# What only an operator may decide


def broken(namespace: namespaces.Namespace, case: str) -> None:
    data = {name: secrets_of.data(each) for name, each in namespace.secrets().items()}
    match case:
        case "certificate lacks a key":
            namespace.put("topolog-tls", {**data["topolog-tls"], "ca.crt": b""})
        case "certificate is not a certificate":
            namespace.put("topolog-tls", {**data["topolog-tls"], "tls.crt": b"x"})
        case "key of another certificate":
            other = {"tls.key": data["topolog-viewer-tls"]["tls.key"]}
            namespace.put("topolog-tls", {**data["topolog-tls"], **other})
        case "another CA":
            namespace.delete("topolog-ca")
            issued = certificate_issuer.new_authority(datetime.datetime.now(datetime.UTC), 10)
            pair = {"tls.crt": issued.certificate_pem(), "tls.key": issued.key_pem()}
            namespace.put("topolog-ca", pair, type="kubernetes.io/tls")
        case "no CA":
            namespace.delete("topolog-ca")
        case "CA is not a CA":
            leaf = data["topolog-viewer-tls"]
            namespace.put("topolog-ca", {key: leaf[key] for key in ("tls.crt", "tls.key")})
        case "CA lacks its key":
            namespace.put("topolog-ca", {**data["topolog-ca"], "tls.key": b""})
        case "URLs of another":
            namespace.delete("topolog-store")
            namespace.put("topolog-store", {"recorder-url": b"redis://h"})
        case "hashes of another":
            namespace.delete("topolog-valkey-acl")
            namespace.put("topolog-valkey-acl", {"recorder": b"x"})


BROKEN = {
    "certificate lacks a key": "topolog-tls lacks ca.crt: delete it, and run topolog bootstrap again; where"
    f" its Deployment runs, `kubectl -n {secrets_of.HOME} rollout restart deployment/topolog-bootstrap`",
    "certificate is not a certificate": "topolog-tls cannot be used",
    "key of another certificate": "does not belong to the certificate): delete it, and run topolog bootstrap",
    "another CA": "topolog-tls is not signed by the CA in topolog-ca: delete it",
    "no CA": "topolog-ca is missing, but topolog-tls, topolog-scheduler-tls, topolog-viewer-tls,"
    " topolog-operator-tls exist: nothing can be issued or renewed",
    "CA is not a CA": "topolog-ca cannot be used: it is not a certificate authority",
    "CA lacks its key": "topolog-ca lacks tls.key",
    "URLs of another": "topolog-store was not made by topolog bootstrap, and lacks controller-url",
    "hashes of another": "topolog-valkey-acl was not made by topolog bootstrap, but topolog-store was",
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_unusable_secret_is_named_and_left_alone(namespace: namespaces.Namespace, case: str) -> None:
    namespace.provision()
    broken(namespace, case)
    before = namespace.secrets()
    done = namespace.bootstrap()
    assert done.returncode == 1
    assert done.stderr.startswith(f"topolog: Secret {secrets_of.HOME}/topolog-")
    assert done.stderr.count("\n") == 1
    assert BROKEN[case] in done.stderr
    after = namespace.secrets()
    assert {name: after[name] for name in before} == before


def test_a_ca_that_has_ended_is_named_with_what_to_delete(namespace: namespaces.Namespace) -> None:
    namespace.provision()
    assert namespace.provision(days_later=4000)["topolog-ca"] == "refused"
    detail = namespace.detail("topolog-ca")
    assert detail.startswith("cannot be used: the certificate expired on ")
    assert "delete it, topolog-tls, topolog-scheduler-tls, topolog-viewer-tls, topolog-operator-tls" in detail
    namespace.delete("topolog-ca", *secrets_of.CERTIFICATES)
    namespace.provision(days_later=4000)
    secrets_of.check_complete(namespace.secrets(), days_later=4000)


def test_a_problem_with_certificates_does_not_keep_the_store_from_its_users(
    namespace: namespaces.Namespace,
) -> None:
    namespace.provision()
    namespace.delete("topolog-ca", *secrets_of.STORE)
    found = namespace.provision()
    assert (found["topolog-ca"], found["topolog-store"]) == ("refused", "created")


# The command


def test_a_dry_run_writes_nothing_and_shows_all(namespace: namespaces.Namespace) -> None:
    done = namespace.bootstrap("--dry-run")
    assert (done.returncode, namespace.secrets()) == (0, {})
    assert done.stdout.count("created") == len(secrets_of.ALL)
    printed = namespace.bootstrap("--dry-run", "-o", "yaml")
    assert namespace.secrets() == {}
    made = {each["metadata"]["name"]: each for each in yaml.safe_load_all(printed.stdout)}
    secrets_of.check_complete(made)
    assert {(each["kind"], each["metadata"]["namespace"]) for each in made.values()} == {
        ("Secret", secrets_of.HOME)
    }


def test_json_names_each_outcome(namespace: namespaces.Namespace) -> None:
    found = json.loads(namespace.bootstrap("-o", "json", TOPOLOG_CLUSTER="east").stdout)
    assert (found["namespace"], found["dryRun"]) == (secrets_of.HOME, False)
    assert {each["secret"]: each["outcome"] for each in found["secrets"]} == dict.fromkeys(
        secrets_of.ALL, "created"
    )
    secrets_of.check_complete(namespace.secrets(), cluster="east")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-o", "yaml"], "add --dry-run"),
        (["--store-url", "redis://user:secret@host:1"], "without a user"),
        (["--store-url", "host:6379"], "redis://HOST:PORT"),
        (["--days", "3000000"], "1<=x<=36500"),
        (["--host", "https://a"], "neither a DNS name nor an address"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: pathlib.Path, arguments: list[str], complaint: str) -> None:
    environ = {"TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path)}
    done = testing.CliRunner().invoke(cli.topolog, ["bootstrap", *arguments], env=environ)
    assert (done.exit_code, complaint in done.output) == (2, True)


def test_a_missing_right_is_named_with_the_role_that_has_it(namespace: namespaces.Namespace) -> None:
    namespace.server.faults.add(faults.FaultKind.FAIL, lambda one: one.method == "POST", status=403)
    done = namespace.bootstrap()
    assert done.returncode == 5
    assert "the Role topolog-bootstrap (deploy/components/bootstrap) has every right" in done.stderr


def test_an_api_server_that_is_away_is_named(namespace: namespaces.Namespace) -> None:
    namespace.server.stop()
    done = namespace.bootstrap()
    assert done.returncode == 5
    assert done.stderr.startswith(f"topolog: cannot connect to {namespace.server.url}")
