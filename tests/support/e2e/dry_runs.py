"""Has the API server admit objects without storing them.

Server-side apply also refuses an element that is twice in a list.
"""

import concurrent.futures
import functools

from tests.support import manifests
from tests.support.e2e import api_client

_APPLY = "application/apply-patch+yaml"
_QUERY = "dryRun=All&fieldValidation=Strict&fieldManager=dry-run&force=true"


def refusals(api: api_client.Api, objects: list[manifests.Object]) -> dict[str, str]:
    """KIND/NAME -> why it is refused, of every object that is."""

    @functools.cache
    def resources(version: str) -> list[api_client.Object]:
        """The kinds of a group and version that are served."""
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        found: list[api_client.Object] = api.get(root)["resources"]
        return found

    def path(one: manifests.Object) -> str:
        version, metadata = one["apiVersion"], one["metadata"]
        (kind,) = [
            each for each in resources(version) if each["kind"] == one["kind"] and "/" not in each["name"]
        ]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        # An object without a namespace goes into that of the command.
        space = f"/namespaces/{metadata.get('namespace', 'default')}" if kind["namespaced"] else ""
        return f"{root}{space}/{kind['name']}/{metadata['name']}?{_QUERY}"

    def refusal(one: manifests.Object) -> str:
        try:
            api.patch(path(one), one, content=_APPLY)
        except api_client.ApiError as error:
            return error.message
        return ""

    with concurrent.futures.ThreadPoolExecutor(4) as hands:
        found = zip(objects, hands.map(refusal, objects), strict=True)
        return {f"{one['kind']}/{one['metadata']['name']}": reason for one, reason in found if reason}
