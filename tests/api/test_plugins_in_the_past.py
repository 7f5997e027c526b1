"""The views of a plugin at a position before it was enabled: the log has its objects nevertheless."""

from collections.abc import Mapping

import msgspec
import pytest

from app import plugins
from app.framework import registry
from app.plugins.elastic_quota import kinds
from app.store.server import embedded
from tests.support.decisions import small_quotas
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import body

QUOTAS = "/apis/v1/plugins/ElasticQuota/quotas"


def limits(world: api_worlds.World, **query: object) -> Mapping[str, object]:
    """Quota -> its max, as the list shows it."""
    response = world.client.get(QUOTAS, query_string=query)
    assert response.status_code == 200
    return {one["name"]: one["max"] for one in body(response)["items"] if one["namespace"] == "quotas"}


@pytest.mark.scenario("TR-16")
def test_a_position_before_a_plugin_was_enabled_is_answered_from_the_log(
    store_server: embedded.Server, cluster: str
) -> None:
    quota = small_quotas.quota("team", 1, 2)
    with api_worlds.processes(store_server, cluster) as start:
        before = api_worlds.world(start())
        assert before.client.get(QUOTAS).status_code == 404
        first = before.append(*api_worlds.history(), kinds.QUOTAS.observed(quota))
        larger = msgspec.structs.replace(quota, max={"cpu": 3 * small_quotas.CORE})
        last = before.append(kinds.QUOTAS.observed(larger))
    chosen = registry.Registry([plugin() for plugin in plugins.IN_TREE])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        after = api_worlds.world(start(), chosen)
        after.store.follower.catch_up()
        assert limits(after, at=first) == {"team": {"cpu": "2"}}
        assert limits(after, at=last) == limits(after) == {"team": {"cpu": "3"}}
        paths = [path for path in body(after.client.get("/apis/v1/__services__"))["GET"] if ":" not in path]
        views = [path for path in paths if "/plugins/" in path]
        assert len(views) > len(plugins.IN_TREE) / 2
        found = {path: after.client.get(path, query_string={"at": first}).status_code for path in views}
        assert found == dict.fromkeys(views, 200)
