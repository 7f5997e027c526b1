"""The kubelets of all simulated nodes: bound pods start to run, deleted ones end."""

import threading
from typing import Any

import msgspec

from app.simulation import answers, objects

Json = dict[str, Any]


class Kubelets:
    """One thread that plays every kubelet, beside the objects and not over HTTP."""

    def __init__(self, store: objects.Objects) -> None:
        self._store = store
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)

    def start(self) -> "Kubelets":
        """Begin with the pods that are there."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Leave the pods as they are."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        version = objects.FIRST_VERSION
        while not self._stopped.is_set():
            with self._store.changed:
                version, pods = self._store.version, self._store.all("pods")
            for pod in pods:
                self._see(pod)
            try:
                for lines, _ in self._store.since("pods", version, tick=0.05):
                    if self._stopped.is_set():
                        return
                    for line in lines:
                        self._see(msgspec.json.decode(line.text)["object"])
            except answers.Refused:
                continue  # compacted: look at everything again

    def _see(self, pod: Json) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        try:
            if "deletionTimestamp" in pod["metadata"]:
                self._store.remove("pods", key)
            elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                self._store.change("pods", key, _running)
        except answers.Refused:
            pass  # gone meanwhile


def _running(pod: Json) -> Json:
    if pod["status"].get("phase") != "Pending":
        return pod
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": objects.now()}
    others = [one for one in pod["status"].get("conditions", []) if one.get("type") != "Ready"]
    pod["status"] |= {"phase": "Running", "startTime": objects.now(), "conditions": [*others, ready]}
    return pod
