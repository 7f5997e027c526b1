"""Schedules the pods of a GPU cluster trace, with jobs and services among them.

The trace has no jobs, services or zones, so they are added: a third of the pods are workers of jobs, a third
are replicas of services with hard quotas per zone, and the rest is not subject to any policy.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from app.plugins.workload_policy import samples
from app.simulation import populations, scenes, stages, traces

Json = dict[str, Any]

_NAMESPACE = "crowd"
_ZONE = "topology.kubernetes.io/zone"
_SERVICES = 8
_JOB_SIZE = 8
_TITLE = "at scale"


@dataclass(frozen=True, slots=True)
class Crowd:
    """The results: outcomes, pods and durations."""

    outcomes: tuple[scenes.Outcome, ...]
    placed: int
    pending: tuple[Json, ...]
    seconds: float
    calls: dict[str, list[float]]
    """Verb -> duration of each call in seconds, measured by the scheduler."""


def play(
    stage: stages.Stage,
    trace: traces.Trace,
    *,
    pods: int,
    clock: Callable[[], float],
    progress: Callable[[int], None],
) -> Crowd:
    """Schedule the first ``pods`` of the trace; ``progress`` is called with the number of pods done."""
    nodes = list(traces.node_objects(trace))
    known = len(stage.server.objects.all("nodes"))
    for node in nodes:
        stage.create("nodes", node)
    _policies(stage, pods)
    stage.wait_for_nodes(known + len(nodes))
    scheduler = stage.scheduler(nodes, seed=5)
    began = clock()
    placed: list[tuple[Json, str]] = []
    pending: list[Json] = []
    for done, pod in enumerate(_pods(stage, trace, pods), start=1):
        attempt = stage.attempt(scheduler, pod)
        if attempt.node is None:
            pending.append(pod)
        else:
            placed.append((pod, attempt.node))
        progress(done)
    seconds = clock() - began
    zones = {node["metadata"]["name"]: node["metadata"]["labels"].get(_ZONE, "") for node in nodes}
    return Crowd(
        outcomes=tuple(_outcomes(stage, placed, pending, zones)),
        placed=len(placed),
        pending=tuple(pending),
        seconds=seconds,
        calls=scheduler.calls,
    )


def _outcomes(
    stage: stages.Stage, placed: list[tuple[Json, str]], pending: list[Json], zones: dict[str, str]
) -> Iterator[scenes.Outcome]:
    services = Counter(
        f"{service}|{zones[node]}"
        for pod, node in placed
        if (service := pod["metadata"]["labels"].get(samples.LABEL))
    )
    quota = {
        f"{made['metadata']['name']}|{domain}": replicas
        for made in stage.server.objects.all(samples.COLLECTION)
        if made["metadata"]["namespace"] == _NAMESPACE
        for domain, replicas in samples.quotas(made).items()
    }
    over = sum(count > quota.get(key, 0) for key, count in services.items())
    yield scenes.Outcome(_TITLE, "quotas exceeded", "0", str(over))
    yield scenes.Outcome(
        _TITLE,
        "quotas not filled",
        "0",
        str(sum(services[key] < replicas for key, replicas in quota.items())),
    )
    others = sum(samples.LABEL not in pod["metadata"]["labels"] for pod in pending)
    yield scenes.Outcome(_TITLE, "pods pending for a reason other than a quota", "0", str(others))
    jobs: dict[str, set[str]] = {}
    for pod, node in placed:
        if job := pod["metadata"]["labels"].get("rl-job-group"):
            jobs.setdefault(job, set()).add(node)
    together = sum(len(nodes) <= _JOB_SIZE // 2 for nodes in jobs.values())
    # A nearly full node may take only the first worker of a job, so not every job stays together.
    packed = "yes" if together >= 0.9 * len(jobs) else f"{together} of {len(jobs)}"
    yield scenes.Outcome(
        _TITLE, f"nine in ten jobs of {_JOB_SIZE} on at most {_JOB_SIZE // 2} nodes", "yes", packed
    )


def _policies(stage: stages.Stage, pods: int) -> None:
    """Create hard quotas that leave a tenth of the replicas of each service pending."""
    replicas = len(range(1, pods, 3)) // _SERVICES
    for number in range(_SERVICES):
        quotas = {zone: int(0.9 * replicas * share) for zone, share in traces.ZONES}
        spec = samples.spec(_ZONE, f"service-{number}", quotas, kind="Required")
        stage.create(samples.COLLECTION, samples.policy(_NAMESPACE, f"service-{number}", spec))


def _pods(stage: stages.Stage, trace: traces.Trace, count: int) -> Iterator[Json]:
    for number, shape in enumerate(itertools.islice(itertools.cycle(trace.pods), count)):
        kind = number % 3
        labels: dict[str, str] = {}
        if kind == 0:
            labels = {"rl-job-group": f"job-{number // 3 // _JOB_SIZE:03}"}
        elif kind == 1:
            service = f"service-{number // 3 % _SERVICES}"
            labels = {"app": service, samples.LABEL: service}
        pod = populations.pod(_NAMESPACE, f"{shape.name}-{number}", labels)
        pod["spec"]["containers"][0]["resources"] = {"requests": traces.requests(shape)}
        yield stage.create("pods", msgspec.to_builtins(pod))


def percentile(values: list[float], share: float) -> float:
    """A percentile of durations: ``values`` in seconds, the result in milliseconds."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def figures(crowd: Crowd) -> Iterator[tuple[str, str]]:
    """Lines of the summary: name, value."""
    yield (
        "pods placed",
        f"{crowd.placed:,} ({crowd.placed / crowd.seconds:,.0f} per second, everything on this machine)",
    )
    yield "pods pending", f"{len(crowd.pending):,}"
    for verb in ("filter", "prioritize", "bind"):
        calls = crowd.calls.get(verb, [])
        middle, last = percentile(calls, 0.5), percentile(calls, 0.99)
        latency = f"{len(calls):,} calls, p50 {middle:.1f} ms, p99 {last:.1f} ms"
        yield f"{verb}, measured by the scheduler", latency
