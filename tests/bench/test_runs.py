"""The processes of a benchmark start, on a small cluster."""

import pathlib
from unittest import mock

from app.serving.tls import certificate_issuer
from tests.bench import runs


def test_the_extender_of_a_benchmark_gets_ready(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path / "tls", ["127.0.0.1", "localhost"])
    bench = runs.Bench(tmp_path, tmp_path / "tls", mock.sentinel.programs)
    with bench.ours(3, 3) as extender:
        extender.await_ready()
