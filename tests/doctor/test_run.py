"""``topolog doctor run`` on real processes: a healthy installation is ok, and each fault is found."""

import pathlib
import time
from collections.abc import Iterator, Mapping

import pytest

from app.doctor import api_reader
from app.doctor.run import checks, process_facts, processes
from app.telemetry import metrics
from tests.support import child_processes, polling
from tests.support.doctor import altered, runs
from tests.support.extender import server_processes, stages
from tests.support.monitoring import installations


def health(process: stages.Extender) -> str:
    return f"http://127.0.0.1:{process.health}"


def urls(found: installations.Installation, **instead: str | None) -> dict[str, str]:
    """Role -> URL of its health port; None leaves a role out."""
    usual = {role: health(one) for role, one in found.processes.items()}
    return {role: url for role, url in {**usual, **instead}.items() if url is not None}


def client_options(found: installations.Installation, name: str = "viewer") -> list[str]:
    """The options for the extender of an installation."""
    tls = found.stage.folder / "tls"
    port = found.processes[metrics.EXTENDER].port
    files = {"cert": f"{name}.crt", "key": f"{name}.key", "ca": "ca.crt"}
    named = [part for option, file in files.items() for part in (f"--{option}", str(tls / file))]
    return ["--server", f"https://127.0.0.1:{port}", *named]


def doctor(found: installations.Installation, given: Mapping[str, str]) -> runs.Run:
    named = [part for url in given.values() for part in ("--process", url)]
    return runs.doctor("run", *named, *client_options(found))


def audited(found: installations.Installation) -> None:
    """Wait until the auditor has compared everything once."""
    name = "topolog_consistency_last_check_timestamp_seconds"
    polling.eventually(lambda: found.value(metrics.AUDITOR, name), "an audit", within=60.0)


RIGHT = {
    "R01",
    "R02",
    "R03",
    "R04",
    "R05",
    "R06",
    "R07",
    "R08",
    "R09",
    "R10",
    "R11",
    "R12",
    "R13",
    "R14",
    "R15",
}
"""Checks that a healthy installation passes."""


def test_a_healthy_installation_has_nothing_wrong(healthy: installations.Installation) -> None:
    audited(healthy)
    run = doctor(healthy, urls(healthy))
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT


def test_the_role_of_a_process_follows_from_its_metrics(healthy: installations.Installation) -> None:
    for role, url in urls(healthy).items():
        (found,) = processes.by_urls([url])
        assert (found.role, found.ready) == (role, True)


@pytest.mark.parametrize(
    ("role", "verdict"),
    [
        (metrics.EXTENDER, "problem"),
        (metrics.RECORDER, "problem"),
        (metrics.CONTROLLER, "problem"),
        (metrics.AUDITOR, "warning"),
    ],
)
def test_a_missing_process_is_found(healthy: installations.Installation, role: str, verdict: str) -> None:
    audited(healthy)
    assert doctor(healthy, urls(healthy, **{role: None})).wrong() == {"R02": verdict}


def test_a_port_without_a_process_is_described_in_words() -> None:
    (found,) = processes.by_urls([f"http://127.0.0.1:{child_processes.free_port()}"])
    assert found.problems == ("does not answer: Connection refused",)


def test_without_a_compactor_an_archive_is_not_seen(healthy: installations.Installation) -> None:
    audited(healthy)
    assert doctor(healthy, urls(healthy, compactor=None)).wrong() == {"R02": "warning", "R11": "unsure"}


UNSEEN = api_reader.Unseen("pods may not be listed", "another kubeconfig")
SEEN: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {"up": (({}, 1.0),)}
ARCHIVING: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {"topolog_archived_offset": (({}, 41.0),)}


@pytest.mark.parametrize(
    ("found", "verdict", "fix"),
    [
        (UNSEEN, "unsure", "another kubeconfig"),
        ([], "unsure", "topolog compact"),
        ([process_facts.Process("a", metrics.COMPACTOR, unseen="403", fix="a right")], "unsure", "a right"),
        ([process_facts.Process("a", metrics.COMPACTOR, problems=("away",))], "unsure", "topolog compact"),
        ([process_facts.Process("a", metrics.COMPACTOR, samples=SEEN)], "ok", ""),
        (
            [process_facts.Process("a", metrics.COMPACTOR, samples=ARCHIVING)],
            "warning",
            "set compaction.archive",
        ),
    ],
)
def test_that_there_is_no_archive_is_seen_from_a_compactor(
    found: list[process_facts.Process] | api_reader.Unseen, verdict: str, fix: str
) -> None:
    result = checks.archive({"compaction.archive": ""}, found)
    assert (result.verdict, result.fix.startswith(fix)) == (verdict, True)
    assert checks.archive({"compaction.archive": "s3://a"}, found).verdict == "ok"


def test_a_process_that_does_not_answer_is_found(healthy: installations.Installation) -> None:
    audited(healthy)
    run = doctor(healthy, urls(healthy, other="http://127.0.0.1:9"))
    assert run.wrong() == {"R01": "problem"}


ALTERED: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "another version": (
        metrics.CONTROLLER,
        r'(topolog_build_info\{.*version=")[^"]+',
        r"\g<1>0.0.9",
        {"R04": "warning"},
    ),
    "a stale watch": (
        metrics.RECORDER,
        r'^(topolog_watch_last_progress_timestamp_seconds\{kind="pods"\}) .*$',
        r"\1 1000",
        {"R06": "problem"},
    ),
    "an object that cannot be decoded": (
        metrics.RECORDER,
        r'^(topolog_quarantined_total\{kind="pods"\}) .*$',
        r"\1 2",
        {"R15": "warning"},
    ),
    "an extender that is behind": (
        metrics.EXTENDER,
        r"^topolog_snapshot_lag_seconds .*$",
        "topolog_snapshot_lag_seconds 7.5",
        {"R07": "warning"},
    ),
    "a replica that has read nothing": (
        metrics.CONTROLLER,
        r"^topolog_snapshot_lag_seconds .*$",
        "",
        {"R07": "unsure"},
    ),
    "a difference": (
        metrics.AUDITOR,
        r'^(topolog_consistency_differences\{kind="count"\}) .*$',
        r"\1 2",
        {"R08": "problem"},
    ),
    "a field of a later version": (
        metrics.AUDITOR,
        r'^(topolog_consistency_differences\{kind="unknown"\}) .*$',
        r"\1 2",
        {"R08": "warning"},
    ),
    "an old audit": (
        metrics.AUDITOR,
        r"^(topolog_consistency_last_check_timestamp_seconds) .*$",
        r"\1 1000",
        {"R08": "warning"},
    ),
    "no audit so far": (
        metrics.AUDITOR,
        r"^(topolog_consistency_last_check_timestamp_seconds) .*$",
        "",
        {"R08": "unsure"},
    ),
    "dropped records": (
        metrics.EXTENDER,
        r"^topolog_decisions_dropped_total .*$",
        "topolog_decisions_dropped_total 3",
        {"R09": "warning"},
    ),
    "a store that does not answer": (
        metrics.AUDITOR,
        r"^topolog_store_up .*$",
        "topolog_store_up 0",
        {"R12": "problem"},
    ),
    "a process that has not asked the store": (
        metrics.AUDITOR,
        r"^topolog_store_up .*$",
        "",
        {"R12": "unsure"},
    ),
    "a certificate that expires soon": (
        metrics.EXTENDER,
        r'^(topolog_certificate_expiry_timestamp_seconds\{file="server"\}) .*$',
        rf"\1 {time.time() + 86_400}",
        {"R13": "warning"},
    ),
    "a certificate that has expired": (
        metrics.EXTENDER,
        r'^(topolog_certificate_expiry_timestamp_seconds\{file="ca"\}) .*$',
        r"\1 1000",
        {"R13": "problem"},
    ),
    "certificate files that are invalid": (
        metrics.EXTENDER,
        r"^topolog_certificate_files_bad .*$",
        "topolog_certificate_files_bad 1",
        {"R13": "warning"},
    ),
    "a store that is full": (
        metrics.COMPACTOR,
        r"^topolog_store_memory_limit_bytes .*$",
        "topolog_store_memory_limit_bytes 1000",
        {"R14": "warning"},
    ),
    "a compactor that has not asked the store": (
        metrics.COMPACTOR,
        r"^topolog_store_memory_used_bytes .*$",
        "",
        {"R14": "unsure"},
    ),
    "an archive that the extender does not read": (
        metrics.COMPACTOR,
        r"\Z",
        "# TYPE topolog_archived_offset gauge\ntopolog_archived_offset 41\n",
        {"R11": "warning"},
    ),
}


@pytest.mark.parametrize("name", ALTERED)
def test_each_fault_of_a_process_is_found_and_nothing_else(
    healthy: installations.Installation, name: str
) -> None:
    audited(healthy)
    role, pattern, replacement, expected = ALTERED[name]
    with altered.served(urls(healthy)[role], pattern, replacement) as url:
        assert doctor(healthy, urls(healthy, **{role: url})).wrong() == expected


@pytest.fixture
def standby(healthy: installations.Installation) -> Iterator[str]:
    """A second recorder, which does not lead."""
    one = healthy.stage.worker("record")
    one.ready()
    yield health(one)
    one.process.stop()


def test_a_leader_that_is_missing_or_doubled_is_found(
    healthy: installations.Installation, standby: str
) -> None:
    audited(healthy)
    assert doctor(healthy, urls(healthy, standby=standby)).wrong() == {}
    pattern, replacement = r"^process_start_time_seconds .*$", "process_start_time_seconds 1"
    with altered.served(standby, pattern, replacement) as aged:
        assert doctor(healthy, urls(healthy, recorder=None, standby=aged)).wrong() == {"R03": "problem"}
    usual = urls(healthy)
    assert doctor(healthy, {**usual, "twice": usual["recorder"]}).wrong() == {"R03": "warning"}


def test_a_leader_is_not_missed_before_the_lease_of_its_predecessor_has_ended(
    healthy: installations.Installation, standby: str
) -> None:
    audited(healthy)
    replacement = f"process_start_time_seconds {time.time() - checks.TAKEOVER / 2}"
    with altered.served(standby, r"^process_start_time_seconds .*$", replacement) as young:
        run = doctor(healthy, urls(healthy, recorder=None, standby=young))
    assert run.wrong() == {"R03": "unsure"}
    assert "repeat the check in " in run.of("R03")[0]["fix"]


def test_another_configuration_is_found(healthy: installations.Installation) -> None:
    audited(healthy)
    other = healthy.stage.extend("other", TOPOLOG_PLUGINS_SCORE_MAX="50")
    other.ready()
    run = doctor(healthy, urls(healthy, other=health(other)))
    other.process.stop()
    assert run.wrong() == {"R05": "problem"}


def test_a_pod_that_was_never_called_about_is_found(
    healthy: installations.Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited(healthy)
    monkeypatch.setattr(checks, "SILENT", -3600.0)
    healthy.stage.pod("shop", "silent", {"workload-policy/kosmos.io": "spread"})
    healthy.stage.seen()

    def found() -> dict[str, str]:
        return doctor(healthy, urls(healthy)).wrong()

    # The process that answers reads the log on its own.
    polling.eventually(lambda: found() == {"R10": "warning"}, "the pod is found", seen=found)
    healthy.stage.api.objects.remove("pods", ("shop", "silent"))


def test_a_process_that_is_not_ready_is_found_with_its_reason(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path) as broken:
        broken.server.stop()

        def reasons() -> list[str]:
            run = doctor(broken, urls(broken))
            return [one["seen"] for one in run.of("R01") if one["verdict"] == "problem"]

        polling.eventually(lambda: len(reasons()) >= 3, "not ready", within=60.0, seen=reasons)
        assert any("store" in reason for reason in reasons())


# -- handshakes with the running extender -------------------------------------------------------


def handshake(found: installations.Installation, name: str, *more: str) -> runs.Run:
    tls = str(found.stage.folder / "tls")
    return runs.doctor("tls", "--dir", tls, *client_options(found, name), *more)


def test_a_handshake_succeeds_or_is_explained(healthy: installations.Installation) -> None:
    folder = healthy.stage.folder / "tls"
    run = handshake(healthy, "viewer")
    assert (run.wrong(), "T06" in run.right()) == ({}, True)
    run = handshake(healthy, "scheduler")
    assert run.wrong() == {"T06": "problem"}
    assert "requires the role viewer" in run.of("T06")[0]["seen"]
    run = handshake(healthy, "viewer", "--server-name", "other.example")
    assert run.wrong() == {"T06": "problem"}
    assert "--server-name" in run.of("T06")[0]["seen"]
    server_processes.sign(folder, "nameless", dns=("x.example",))
    assert handshake(healthy, "nameless").wrong() == {"T06": "problem"}


def test_nothing_running_is_unsure() -> None:
    run = runs.doctor(
        "run", environ={"TOPOLOG_SERVER_HEALTH_PORT": "9", "TOPOLOG_CLIENT_URL": "https://127.0.0.1:9"}
    )
    assert set(run.wrong()) == {f"R{number:02}" for number in range(1, 16)}
    assert set(run.wrong().values()) == {"unsure"}
