"""The part of every kubelet, played by one thread: there are no machines behind the nodes.

A pod that was bound starts to run, and a pod that is to be deleted ends at once, as far as the API
server can tell. What a real kubelet would only do in its own time happens when a test says so.
"""

import concurrent.futures
import contextlib
import datetime
import http
import threading

import urllib3

from tests.e2e import clients

PODS = "/api/v1/pods"


class Kubelet:
    """Keeps the status of bound pods, on all nodes, until it is stopped."""

    def __init__(self, api: clients.Api) -> None:
        self._api = api
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._hands = concurrent.futures.ThreadPoolExecutor(4, "kubelet")
        self._ended = threading.Event()
        self._watch: clients.Watch | None = None
        self._done: set[tuple[str, str]] = set()  # what was asked for, by uid: once is enough
        self._ignored: set[str] = set()

    def start(self) -> None:
        """Begin with the pods that are there."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the pods as they are."""
        self._ended.set()
        if self._watch is not None:
            self._watch.close()
        self._thread.join()
        self._hands.shutdown(cancel_futures=True)

    def ignore(self, namespace: str, name: str) -> None:
        """Leave one pod alone: bound it stays Pending, deleted it stays Terminating."""
        self._ignored.add(f"{namespace}/{name}")

    def attend(self, namespace: str, name: str) -> None:
        """Take up a pod again that was left alone."""
        self._ignored.discard(f"{namespace}/{name}")
        pod = self._api.find(_path(namespace, name))
        if pod is not None:
            self._see(pod)

    def finish(self, namespace: str, name: str, *, phase: str = "Succeeded") -> None:
        """Let a running pod end by itself: Succeeded or Failed."""
        pod = self._api.get(_path(namespace, name))
        code = 0 if phase == "Succeeded" else 1
        state = {"terminated": {"exitCode": code, "reason": "Completed", "finishedAt": _now()}}
        self._report(pod, phase, ready=False, state=state)

    def _run(self) -> None:
        while not self._ended.is_set():
            # An API server that is away, or that has forgotten where we were, is asked again.
            with contextlib.suppress(urllib3.exceptions.HTTPError, clients.ApiError, OSError):
                self._follow()
            self._ended.wait(0.1)

    def _follow(self) -> None:
        pods = self._api.get(PODS)
        for pod in pods["items"]:
            self._see(pod)
        self._watch = self._api.watch(PODS, pods["metadata"]["resourceVersion"])
        if self._ended.is_set():  # `stop` may have looked for a watch just before there was one
            self._watch.close()
        for change in self._watch:
            if change.kind in ("ADDED", "MODIFIED"):
                self._see(change.object)
            elif change.kind == "ERROR":
                return

    def _see(self, pod: clients.Object) -> None:
        meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
        if not spec.get("nodeName") or f"{meta['namespace']}/{meta['name']}" in self._ignored:
            return
        if meta.get("deletionTimestamp"):
            self._once("end", pod)
        elif status.get("phase") == "Pending":
            self._once("run", pod)

    def _once(self, deed: str, pod: clients.Object) -> None:
        key = (deed, pod["metadata"]["uid"])
        if key not in self._done and not self._ended.is_set():
            self._done.add(key)
            self._hands.submit(self._do, deed, pod)

    def _do(self, deed: str, pod: clients.Object) -> None:
        while not self._ended.is_set():
            try:
                if deed == "end":
                    meta = pod["metadata"]
                    path = _path(meta["namespace"], meta["name"])
                    self._api.delete(path, grace=0, uid=meta["uid"])
                else:
                    state = {"running": {"startedAt": _now()}}
                    self._report(pod, "Running", ready=True, state=state)
            except (urllib3.exceptions.HTTPError, clients.ApiError, OSError) as error:
                if not _is_gone(error):
                    self._ended.wait(0.2)
                    continue
            return

    def _report(self, pod: clients.Object, phase: str, *, ready: bool, state: clients.Object) -> None:
        meta, now = pod["metadata"], _now()
        said = "True" if ready else "False"
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": now}
            for kind, value in (("Initialized", "True"), ("ContainersReady", said), ("Ready", said))
        ]
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": ready,
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
        if ready:
            status["startTime"] = now
        # The uid is a precondition here as well: the name may have gone to another pod by now.
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        path = _path(meta["namespace"], meta["name"]) + "/status"
        self._api.patch(path, body, content=clients.STRATEGIC)


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _is_gone(error: Exception) -> bool:
    gone = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT)
    return isinstance(error, clients.ApiError) and error.status in gone


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
