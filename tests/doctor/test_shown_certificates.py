"""R13: the files of an extender, and the certificate that a kube-scheduler shows it."""

from app.doctor.run import checks, process_facts
from app.telemetry import metrics


def test_the_certificate_that_a_kube_scheduler_shows_has_a_result_of_its_own() -> None:
    ends = {"server": 9e6, "ca": 9e7, "scheduler": -1.0}

    def found(scheduler: float, server: float) -> list[tuple[str, str, bool]]:
        ends.update(scheduler=scheduler, server=server)
        samples = {
            "topolog_certificate_expiry_timestamp_seconds": tuple(
                ({"file": file}, end) for file, end in ends.items()
            )
        }
        one = process_facts.Process("a", metrics.EXTENDER, samples=samples)
        results = [one for one in checks.of_processes([one], 0.0, "ns") if one.id == "R13"]
        return [(one.verdict, one.seen, "again" in one.fix) for one in results]

    shown = "the certificate that a kube-scheduler shows it"
    assert found(-1.0, 9e6) == [
        ("problem", f"{shown} has expired", True),
        ("ok", "server expires in 104 d, before the others", False),
    ]
    assert found(36_000.0, -1.0) == [
        ("warning", f"{shown} expires in 10 h", True),
        ("problem", "server has expired", False),
    ]
    assert found(7_199.0, 7_199.0) == [
        ("warning", f"{shown} expires in 1 h", True),
        ("warning", "server expires in 1 h", False),
    ]
    assert found(9e6, 365 * 86_400 - 60)[0][1].startswith("server expires in 364 d"), "as in topolog status"
    assert found(9e6, 9e6) == [("ok", "server expires in 104 d, before the others", False)]
