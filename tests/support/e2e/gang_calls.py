"""The calls of an extender for the members of a gang, and the gangs as Topolog shows them.

A sequence is the verbs in the order of their calls: ``f0`` is filter for the first member, ``b0`` is bind.
"""

from collections.abc import Sequence

from tests.support import polling
from tests.support.e2e import api_client, installations
from tests.support.e2e.gang_pods import NAMESPACE, SIZE


def pods_in_log(topolog: installations.Installation) -> list[str]:
    """The gangs of which the log still has pods."""
    found = topolog.ask("/apis/v1/plugins/Coscheduling/gangs?limit=100")["items"]
    return [each["name"] for each in found if each["children"]]


def calls(topolog: installations.Installation, gang: str) -> list[api_client.Object]:
    """The calls for members of the gang."""
    return [
        call for call in topolog.extenders[0].calls() if call["pod"].rpartition("/")[2].startswith(f"{gang}-")
    ]


def binds(topolog: installations.Installation, gang: str) -> int:
    """How many calls of bind there were for members of the gang."""
    return sum(call["verb"] == "bind" for call in calls(topolog, gang))


def spelled(found: Sequence[api_client.Object]) -> list[str]:
    """The calls as in ``f0``."""
    return [call["verb"][0] + call["pod"].rpartition("-")[2] for call in found]


def kept(topolog: installations.Installation, gang: str) -> list[str]:
    """The sequence without refusals."""
    return spelled([call for call in calls(topolog, gang) if call["outcome"] in ("kept", "bound")])


def await_logged_binds(topolog: installations.Installation, gang: str) -> None:
    """Wait for the lines of all binds: a bind is logged after the API server shows the pod as bound."""

    def logged() -> bool:
        return [call["outcome"] for call in calls(topolog, gang)].count("bound") == SIZE

    polling.eventually(logged, f"the binds of {gang} are logged")


def shown(topolog: installations.Installation, gang: str) -> api_client.Object:
    """The gang as Topolog shows it; empty if there is none."""
    return topolog.find(f"/apis/v1/plugins/Coscheduling/gangs/{NAMESPACE}/{gang}") or {}
