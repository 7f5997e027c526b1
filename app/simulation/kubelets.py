"""The kubelets of all simulated nodes: start bound pods and remove deleted ones."""

import threading
from typing import Any

import msgspec

from app.simulation.apiserver import objects, status_replies

Json = dict[str, Any]


class Kubelets:
    """One thread that acts as every kubelet, directly on the objects and not over HTTP."""

    def __init__(self, store: objects.Objects) -> None:
        self._store = store
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)

    def start(self) -> "Kubelets":
        """Start with the existing pods."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop; the pods stay as they are."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        version = objects.FIRST_VERSION
        while not self._stopped.is_set():
            with self._store.changed:
                version, pods = self._store.version, self._store.all("pods")
            for pod in pods:
                self._sync(pod)
            try:
                for lines, _ in self._store.since("pods", version, tick=0.05):
                    if self._stopped.is_set():
                        return
                    for line in lines:
                        self._sync(msgspec.json.decode(line.text)["object"])
            except status_replies.StatusError:
                continue  # compacted: read all pods again

    def _sync(self, pod: Json) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        try:
            if "deletionTimestamp" in pod["metadata"]:
                self._store.remove("pods", key)
            elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                self._store.change("pods", key, _running)
        except status_replies.StatusError:
            pass  # deleted meanwhile


def _running(pod: Json) -> Json:
    if pod["status"].get("phase") != "Pending":
        return pod
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": objects.now()}
    others = [one for one in pod["status"].get("conditions", []) if one.get("type") != "Ready"]
    pod["status"] |= {"phase": "Running", "startTime": objects.now(), "conditions": [*others, ready]}
    return pod
