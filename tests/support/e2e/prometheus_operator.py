"""The definitions of the Prometheus operator, which are in its Go module and are not committed."""

import json
import pathlib
import subprocess

import pytest

from tests.support.e2e import clusters

_MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"


def define(cluster: clusters.Cluster) -> None:
    """Have the API server serve the kinds of deploy/monitoring; skip where the module is not available."""
    asked = ["go", "mod", "download", "-json", _MODULE]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"{_MODULE} cannot be downloaded: {done.stderr or done.stdout}")
    definitions = pathlib.Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    for name in ("podmonitors", "prometheusrules"):
        cluster.kubectl("create", "-f", definitions / f"monitoring.coreos.com_{name}.yaml")
        cluster.await_done("wait", "--for=condition=established", f"crd/{name}.monitoring.coreos.com")
