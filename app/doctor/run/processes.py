"""The processes of an installation as their health ports show them: readiness and metrics."""

import functools
import http
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any

import urllib3
from prometheus_client import core, parser

from app.doctor import api_reader, own_pods
from app.doctor.run import process_facts
from app.kube import errors
from app.kube.client import clients
from app.telemetry import metrics

_SECONDS = 5.0
_AT_ONCE = 16
_BY_URLS = "--process with the URL of each health port"
_ALONE = "set server.workers to 1, and run more replicas"
_DENIED = (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN)
_UNREACHED = (
    http.HTTPStatus.BAD_GATEWAY,
    http.HTTPStatus.SERVICE_UNAVAILABLE,
    http.HTTPStatus.GATEWAY_TIMEOUT,
)
"""What the API server answers, or a proxy before it, if it gets no reply from a pod."""

Fetch = Callable[[str], tuple[int, str]]
"""Path -> status and text. Raises OSError, or Unseen."""


def read(name: str, fetch: Fetch, *, role: str = "") -> process_facts.Process:
    """A process by its health port. ``role``: what it has to be, if that is known."""
    try:
        status, text = fetch("/readyz")
        measured, exposed = fetch("/metrics")
        # Only an extender has several workers.
        several = measured == http.HTTPStatus.NOT_IMPLEMENTED
        if measured != http.HTTPStatus.OK and not several:
            raise ValueError(f"/metrics answers {measured}")
        families = [] if several else list(parser.text_string_to_metric_families(exposed))
    except api_reader.Unseen as unseen:
        return process_facts.Process(name, role, unseen=unseen.reason, fix=unseen.fix)
    except (OSError, ValueError) as problem:
        return process_facts.Process(name, role, problems=(f"does not answer: {problem}",))
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in families:
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    failing = tuple(line[4:] for line in text.splitlines() if line.startswith("[-] "))
    return process_facts.Process(
        name,
        role or (metrics.EXTENDER if several else _role(families)),
        status == 200,
        failing or (() if status == 200 else (f"/readyz answers {status}",)),
        unseen=exposed.strip() if several else "",
        fix=_ALONE if several else "",
        samples={each: tuple(values) for each, values in samples.items()},
    )


def by_urls(urls: Iterable[str]) -> list[process_facts.Process]:
    """The processes at the URLs of health ports."""
    return [read(url, functools.partial(_fetch, url.rstrip("/"))) for url in urls]


def of_cluster(
    reader: api_reader.ApiReader, client: clients.Client, namespace: str, *, inside: bool
) -> list[process_facts.Process]:
    """The processes in pods, through the API server's proxy. Raises Unseen if pods cannot be listed.

    A pod that terminates is no process: it leaves its work to others. ``inside``: this process runs in a pod,
    and asks the other pods itself if it reaches them.
    """
    asked = []
    for pod in own_pods.of_namespace(reader, namespace):
        role = own_pods.component(pod)
        if role not in metrics.ALL or own_pods.terminates(pod):
            continue
        name = pod["metadata"]["name"]
        stopped = _stopped(pod)
        if stopped:
            asked.append(
                functools.partial(process_facts.Process, f"{namespace}/{name}", role, problems=(stopped,))
            )
            continue
        _, port = own_pods.serving(pod)
        fetch = functools.partial(
            _proxied, client, f"/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy", port
        )
        address = (pod.get("status") or {}).get("podIP")
        if inside and address:
            fetch = functools.partial(_direct, _url(address, port), fetch)
        asked.append(functools.partial(read, f"{namespace}/{name}", fetch, role=role))
    # Together, because one that is not reached takes its whole time.
    with futures.ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(lambda one: one(), asked))


def _stopped(pod: Mapping[str, Any]) -> str:
    """Which container does not run, and why; empty if the process runs, or if the status has no state of it.

    An init container that has not succeeded goes first: the others wait for it.
    """
    status = pod.get("status") or {}
    own, _ = own_pods.serving(pod)
    for one in status.get("initContainerStatuses") or ():
        state = one.get("state") or {}
        if "waiting" in state or (state.get("terminated") or {}).get("exitCode"):
            return _reason(one["name"], state)
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        if one["name"] == own and state and "running" not in state:
            return _reason(one["name"], state)
    return ""


def _reason(container: str, state: Mapping[str, Any]) -> str:
    ended = state.get("terminated")
    if ended is not None:
        return (
            f"container {container}: {ended.get('reason', 'ended')}, exit code {ended.get('exitCode', '?')}"
        )
    return f"container {container}: {(state.get('waiting') or {}).get('reason', 'waiting')}"


def _fetch(url: str, path: str) -> tuple[int, str]:
    try:
        reply = urllib3.request("GET", f"{url}{path}", timeout=_SECONDS, retries=False, redirect=False)
    except urllib3.exceptions.HTTPError as problem:
        raise OSError(_cause(problem)) from problem
    return reply.status, reply.data.decode(errors="replace")


def _cause(problem: urllib3.exceptions.HTTPError) -> str:
    """The error of the socket behind that of the library, whose text has the library's own objects."""
    cause: BaseException | None = problem
    while cause is not None and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return str(cause.strerror)
    late = isinstance(problem, urllib3.exceptions.TimeoutError)
    return f"no reply within {_SECONDS:.0f} s" if late else str(problem)


def _url(address: str, port: int) -> str:
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _direct(url: str, otherwise: Fetch, path: str) -> tuple[int, str]:
    try:
        return _fetch(url, path)
    except OSError:
        return otherwise(path)


def _proxied(client: clients.Client, path: str, port: int, inner: str) -> tuple[int, str]:
    try:
        return 200, client.get(f"{path}{inner}", timeout=_SECONDS).decode(errors="replace")
    except errors.ApiError as problem:
        if problem.status in _DENIED:
            raise api_reader.Unseen(
                str(problem),
                f"bind the Role {api_reader.ROLE} of deploy/roles (it may get pods/proxy), or {_BY_URLS}",
            ) from problem
        if not problem.original and _answered(problem, inner):
            return problem.status, problem.message
        if problem.status not in _UNREACHED:
            raise OSError(str(problem)) from problem
        raise _unreached(problem, port) from problem
    except errors.KubeError as problem:  # The API server has just listed the pods: it waits for this one.
        raise _unreached(problem, port) from problem


def _answered(problem: errors.ApiError, path: str) -> bool:
    """Whether it is the pod's own answer: of a process that is not ready, or has several workers."""
    if path == "/readyz":
        return problem.status in _UNREACHED and "] " in problem.message
    return problem.status == http.HTTPStatus.NOT_IMPLEMENTED


def _unreached(problem: errors.KubeError, port: int) -> api_reader.Unseen:
    return api_reader.Unseen(
        f"the API server gets no reply from the pod, as when a NetworkPolicy denies it: {problem}",
        f"admit the API server to port {port} of Topolog's pods, or {_BY_URLS}",
    )


def _role(families: Sequence[core.Metric]) -> str:
    """The role whose own metrics a process exposes, with or without samples."""
    exposed = {family.name for family in families}
    return next((role for role, names in _own().items() if names & exposed), "")


@functools.cache
def _own() -> Mapping[str, frozenset[str]]:
    """Role -> families that no other role exposes."""
    found: dict[str, set[str]] = {role: set() for role in metrics.ALL}
    for collector, roles in metrics.DECLARED:
        if len(roles) == 1 and roles[0] in found:
            found[roles[0]] |= {family.name for family in collector.collect()}
    return {role: frozenset(names) for role, names in found.items()}
