"""A binder for tests that must not reach a cluster."""

from app.domain import model
from app.kube.writes import binding


class NoCluster:
    """Fails the test at every call."""

    def bind(
        self,
        namespace: str,
        name: str,
        uid: model.Uid,
        node: model.NodeName,
        *,
        carried: binding.Carried = binding.NOTHING,
        timeout: float = 3.0,
    ) -> binding.Outcome:
        raise AssertionError(f"{namespace}/{name} on {node}")

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> binding.Current | None:
        raise AssertionError(f"{namespace}/{name}")
