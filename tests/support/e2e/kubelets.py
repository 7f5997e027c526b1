"""Simulates the kubelets of all nodes in one thread; the nodes have no machines.

A bound pod starts to run, and a deleted pod ends at once, as far as the API server can observe. A test can
delay either.
"""

import concurrent.futures
import contextlib
import datetime
import http
import threading

import urllib3

from tests.support.e2e import api_client

PODS = "/api/v1/pods"


class Kubelet:
    """Keeps the status of bound pods, on all nodes, until it is stopped."""

    def __init__(self, api: api_client.Api, *, except_in: str = "") -> None:
        """``except_in``: a namespace whose pods are left alone."""
        self._api = api
        self._except = except_in
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._executor = concurrent.futures.ThreadPoolExecutor(4, "kubelet")
        self._ended = threading.Event()
        self._watch: api_client.Watch | None = None
        self._done: set[tuple[str, str]] = set()  # actions that were started, by uid
        self._ignored: set[str] = set()
        self.grace = 0.0
        """Seconds that a pod takes to end."""

    def start(self) -> None:
        """Start with the existing pods."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; the pods stay as they are."""
        self._ended.set()
        if self._watch is not None:
            self._watch.close()
        self._thread.join()
        self._executor.shutdown(cancel_futures=True)

    def ignore(self, namespace: str, name: str) -> None:
        """Ignore a pod: if bound it stays Pending, if deleted it stays Terminating."""
        self._ignored.add(f"{namespace}/{name}")

    def attend(self, namespace: str, name: str) -> None:
        """Stop ignoring a pod."""
        self._ignored.discard(f"{namespace}/{name}")
        pod = self._api.find(_path(namespace, name))
        if pod is not None:
            self._sync(pod)

    def finish(self, namespace: str, name: str, *, phase: str = "Succeeded") -> None:
        """End a running pod: Succeeded or Failed."""
        pod = self._api.get(_path(namespace, name))
        code = 0 if phase == "Succeeded" else 1
        state = {"terminated": {"exitCode": code, "reason": "Completed", "finishedAt": _now()}}
        self._report(pod, phase, ready=False, state=state)

    def _run(self) -> None:
        while not self._ended.is_set():
            # Retry after an outage of the API server, or a compacted version.
            with contextlib.suppress(urllib3.exceptions.HTTPError, api_client.ApiError, OSError):
                self._follow()
            self._ended.wait(0.1)

    def _follow(self) -> None:
        pods = self._api.get(PODS)
        for pod in pods["items"]:
            self._sync(pod)
        self._watch = self._api.watch(PODS, pods["metadata"]["resourceVersion"])
        if self._ended.is_set():  # `stop` may have run just before the watch was opened
            self._watch.close()
        for change in self._watch:
            if change.kind in ("ADDED", "MODIFIED"):
                self._sync(change.object)
            elif change.kind == "ERROR":
                return

    def _sync(self, pod: api_client.Object) -> None:
        meta, spec, status = pod["metadata"], pod["spec"], pod["status"]
        if meta["namespace"] == self._except:
            return
        if not spec.get("nodeName") or f"{meta['namespace']}/{meta['name']}" in self._ignored:
            return
        if meta.get("deletionTimestamp"):
            self._once("end", pod)
        elif status.get("phase") == "Pending":
            self._once("run", pod)

    def _once(self, action: str, pod: api_client.Object) -> None:
        key = (action, pod["metadata"]["uid"])
        if key not in self._done and not self._ended.is_set():
            self._done.add(key)
            self._executor.submit(self._do, action, pod)

    def _do(self, action: str, pod: api_client.Object) -> None:
        while not self._ended.is_set():
            try:
                if action == "end":
                    meta = pod["metadata"]
                    self._ended.wait(self.grace)
                    path = _path(meta["namespace"], meta["name"])
                    self._api.delete(path, grace=0, uid=meta["uid"])
                else:
                    state = {"running": {"startedAt": _now()}}
                    self._report(pod, "Running", ready=True, state=state)
            except (urllib3.exceptions.HTTPError, api_client.ApiError, OSError) as error:
                if not _is_gone(error):
                    self._ended.wait(0.2)
                    continue
            return

    def _report(self, pod: api_client.Object, phase: str, *, ready: bool, state: api_client.Object) -> None:
        meta, now = pod["metadata"], _now()
        value_of_ready = "True" if ready else "False"
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": now}
            for kind, value in (
                ("Initialized", "True"),
                ("ContainersReady", value_of_ready),
                ("Ready", value_of_ready),
            )
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
        # The uid is a precondition here as well: another pod may have the name by now.
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        path = _path(meta["namespace"], meta["name"]) + "/status"
        self._api.patch(path, body, content=api_client.STRATEGIC)


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _is_gone(error: Exception) -> bool:
    gone = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT)
    return isinstance(error, api_client.ApiError) and error.status in gone


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
