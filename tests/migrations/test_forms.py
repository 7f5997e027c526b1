"""Names of one form and of the next have the same meaning."""

import gzip
from typing import Any

import pytest
import redis
from click import testing

from app import cli
from app.plugins.workload_policy import policy_counts, policy_model
from app.store import errors, keys, schemas, snapshot_format
from app.store.server import embedded
from migrations import forms, runner
from tests.support import declared
from tests.support.store import past_stores


def test_counts_of_the_present_form_are_those_of_the_first_without_their_labels() -> None:
    policy = policy_model.WorkloadPolicy(
        uid="p", namespace="blue", name="web", topology_key="example.org/zone"
    )
    present = {policy_counts.key(policy, "a"): 3, policy_counts.key(policy, ""): 1}
    assert present == {"blue/web|example.org/zone=a": 3, "blue/web|example.org/zone=": 1}
    first = forms.counts_in(1, present, int(declared.FIRST.forms))
    assert first == {"blue/web|a": 3, "blue/web|": 1}
    assert forms.labelled(first, {"blue/web": "example.org/zone"}) == present
    assert forms.counts_in(int(declared.FIRST.forms), present, int(declared.FIRST.forms)) == present
    assert set(forms.COUNTS) == set(range(2, int(declared.FIRST.forms) + 1))


def test_a_checkpoint_of_the_first_form_without_the_policy_of_a_count_is_damaged() -> None:
    line = b'{"offset":1,"counts":{"blue/web|a":3}}\n'
    image = snapshot_format.Header(
        kind=snapshot_format.KIND,
        version=1,
        cluster="c",
        incarnation="i",
        offset=1,
        at_ms=1,
        digest="d",
        lines=1,
        items=0,
        size=len(gzip.compress(line)),
    )
    with pytest.raises(errors.Damaged, match="policy that it does not have"):
        snapshot_format.parse(
            image, [line], "d", schema=declared.SCHEMA, incarnation="i", indexed=frozenset()
        )


@pytest.mark.parametrize(
    ("schema", "code", "message"),
    [("1", 1, "run `topolog migrate up`"), ("2", 0, ""), ("3", 1, "use the newer Topolog")],
)
def test_the_command_names_what_to_do(
    store_server: embedded.Server, cluster: str, schema: str, code: int, message: str
) -> None:
    names = keys.Keys(cluster)
    client: Any = redis.Redis.from_url(store_server.url)
    past_stores.restore(client, names)
    if schema == "2":
        schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.hset(names.meta, "schema", schema)
    runner.load(client, schemas.library())
    before = past_stores.contents(client, names)
    environment = {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster}
    found = testing.CliRunner().invoke(cli.topolog, ["migrate", "status"], env=environment)
    assert (found.exit_code, bool(found.stderr)) == (code, bool(message))
    assert message in found.stderr
    assert past_stores.contents(client, names) == before
    client.close()
