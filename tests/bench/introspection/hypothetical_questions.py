"""The CPU that an extender of a large cluster needs for a hypothetical question, over HTTP.

Of the extender and all its workers: the time by the clock would depend on what else the machine does, since
the process that answers questions gives way to the one that answers calls.
"""

import dataclasses
import json
import pathlib
from collections.abc import Iterator

import urllib3

from tests.bench import rows, runs
from tests.bench.data import bench_cluster
from tests.bench.peer import client
from tests.support import extender_processes

_WARM, _CALLS = 5, 40
_ADDED = 100
NODES, PODS = 5_000, 50_000


def asked(bench: runs.Bench) -> Iterator[rows.Row]:
    """The rows of the case: questions about one pod, against filter and prioritize, as which they decide."""
    caller, load = bench.caller(NODES), client.Load(NODES, bench.calls(300), warm=0)
    with bench.ours(NODES, PODS) as ours:

        def spent(*verbs: str) -> float:
            begun = ours.cpu()
            caller.measure(dataclasses.replace(load, verbs=verbs), {"ours": ours.url})
            return 1000 * (ours.cpu() - begun) / load.calls

        caller.measure(dataclasses.replace(load, calls=50), {"ours": ours.url})
        yield rows.measured(f"filter, {NODES:,} names, CPU", "ms", ours=spent("filter"))
        both, questions, one = spent("filter", "prioritize"), QuestionClient(ours, bench.tls), pod()
        for case, took, bar in (
            ("simulate one pod", questions.simulated(one), 2.0),
            ("simulate one pod, 100 added nodes and a quota", questions.supposed(one), 3.0),
            ("fit of a refused pod", questions.fitted(one), 15.0),
        ):
            case = f"{case}, {NODES:,} nodes, CPU against filter and prioritize"
            yield rows.compared(case, "ms", ours=took, peer=both, bar=bar)


class QuestionClient:
    """A client with the role of a viewer."""

    def __init__(self, extender: extender_processes.Extender, tls: pathlib.Path) -> None:
        self._extender = extender
        self._pool = urllib3.PoolManager(
            ca_certs=str(tls / "ca.crt"),
            cert_file=str(tls / "viewer.crt"),
            key_file=str(tls / "viewer.key"),
            retries=False,
        )

    def simulated(self, pod: dict[str, object]) -> float:
        """Milliseconds of CPU for a simulation of one pod over all nodes."""
        return self._cpu("simulate", {"pod": pod, "candidates": "all", "top": 20})

    def supposed(self, pod: dict[str, object]) -> float:
        """The same with added nodes and a larger quota."""
        overrides: list[dict[str, object]] = [
            {"op": "addNodes", "count": _ADDED, "like": bench_cluster.node_name(1)},
            {
                "op": "scalePolicy",
                "policy": f"{bench_cluster.NAMESPACE}/{bench_cluster.FREE}",
                "allocations": {bench_cluster.rack(1): "+1"},
            },
        ]
        situation = {"overrides": overrides}
        return self._cpu("simulate", {"pod": pod, "candidates": "all", "top": 20, "situation": situation})

    def fitted(self, pod: dict[str, object]) -> float:
        """The same to find the smallest change by which a pod fits that every quota refuses."""
        policy = f"{bench_cluster.NAMESPACE}/{bench_cluster.FREE}"
        none = {bench_cluster.rack(number): 0 for number in range(bench_cluster.RACKS)}
        overrides = [{"op": "scalePolicy", "policy": policy, "allocations": none}]
        return self._cpu("fit", {"pod": pod, "situation": {"overrides": overrides}})

    def _cpu(self, path: str, question: dict[str, object]) -> float:
        for _ in range(_WARM):
            self._ask(path, question)
        begun = self._extender.cpu()
        for _ in range(_CALLS):
            self._ask(path, question)
        return 1000 * (self._extender.cpu() - begun) / _CALLS

    def _ask(self, path: str, question: dict[str, object]) -> None:
        reply = self._pool.request(
            "POST",
            f"{self._extender.url}/apis/v1/{path}",
            body=json.dumps(question),
            headers={"Content-Type": "application/json"},
        )
        assert reply.status == 200, reply.data


def pod() -> dict[str, object]:
    """The manifest of a pod of the policy with capacity in every rack."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "asked",
            "namespace": bench_cluster.NAMESPACE,
            "uid": "asked",
            "labels": {bench_cluster.POLICY_LABEL: bench_cluster.FREE},
        },
        "spec": {"containers": [{"name": "one", "resources": {"requests": {"cpu": "250m"}}}]},
    }
