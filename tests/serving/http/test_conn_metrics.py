"""Connections that end in their TLS handshake are counted; those that a client closes are no warning."""

import ssl

import pytest
from structlog import testing

from app.serving.http import conn_metrics


@pytest.mark.parametrize(
    "failure",
    [
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
)
def test_a_client_that_closes_the_connection_is_no_warning(failure: Exception) -> None:
    counted = conn_metrics.ConnectionMetrics()
    with testing.capture_logs() as lines:
        counted.refused(("10.0.0.1", 40000), failure)
        counted.refused(("10.0.0.2", 40000), ValueError("no certificate"))
    assert [(line["log_level"], line["client"]) for line in lines] == [
        ("debug", "10.0.0.1"),
        ("warning", "10.0.0.2"),
    ]
    assert counted.counts()["refused"] == 2
