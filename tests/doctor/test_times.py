"""Times as the doctor reads and writes them: one that cannot be read is unknown, and ends no check."""

import datetime

import pytest

from app import clocks
from app.doctor import times
from app.doctor.cluster import checks
from app.framework import doctor_checks

NOW = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC)


def lease(renewed: object) -> doctor_checks.Result:
    spec = {"holderIdentity": "one", "renewTime": renewed}
    found = {"metadata": {"resourceVersion": "7"}, "spec": spec}
    return checks.lease("l", found, NOW, process="recorder", namespace="topolog")


@pytest.mark.parametrize("renewed", ["soon", "2026-07-01", 7, None])
def test_a_lease_without_a_readable_renewal_is_held_by_no_process(renewed: object) -> None:
    found = lease(renewed)
    assert (found.verdict, found.seen) == ("problem", "is held by no process")


def test_a_lease_that_was_renewed_is_held() -> None:
    assert lease("2026-07-01T11:59:59.123456Z").verdict == "ok"


@pytest.mark.parametrize(
    ("deleted", "verdict"),
    [("2026-07-01T12:00:05Z", "ok"), ("2026-07-01T11:00:00Z", "warning"), ("soon", "unsure")],
)
def test_a_pod_whose_end_is_unknown_is_unsure(deleted: str, verdict: str) -> None:
    metadata = {"name": "p", "namespace": "topolog", "deletionTimestamp": deleted}
    (found,) = checks.pods([{"metadata": metadata}], {}, NOW, revisions={})
    assert found.verdict == verdict


@pytest.mark.parametrize(("text", "seconds"), [("1970-01-01T00:01:00.5Z", 60.5), ("soon", 0.0), ("", 0.0)])
def test_an_unreadable_time_is_0(text: str, seconds: float) -> None:
    assert times.seconds(text) == seconds


@pytest.mark.parametrize("second", ["2026-07-01T12:00:05", "1970-01-01T00:00:01", "9999-12-31T23:59:59"])
def test_a_time_is_written_as_it_is_read_and_cut_to_its_digits(second: str) -> None:
    at = times.seconds(f"{second}.75Z")
    assert clocks.rfc3339(at) == f"{second}Z"
    assert clocks.rfc3339(at, "milliseconds") == f"{second}.750Z"
    assert clocks.rfc3339(at, "microseconds") == f"{second}.750000Z"
