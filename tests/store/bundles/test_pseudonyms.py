"""A bundle with pseudonyms holds no name of its source, and explains as its source did."""

import io
import json
import re
import secrets
from collections.abc import Iterator

import msgspec
import pytest

from app.domain import events, model, schema
from app.framework import manifests
from app.plugins.coscheduling import endpoints, gang_model, gangs, kinds
from app.plugins.node_label_priority.plugin import NodeLabelPriority
from app.store.bundles import bundle_reader, field_rewriter, layout, pseudonymizer, pseudonyms, rules
from app.store.server import embedded
from tests.support import declared
from tests.support.decisions import gang_effects, small_gangs
from tests.support.extender import api_worlds, bundled

REAL = [f"zq{at}{secrets.token_hex(4)}" for at in range(30)]
"""Names that no other text contains."""


def distinctive() -> list[events.AnyEvent]:
    """Events with a name of their own in every field that holds one."""
    name = iter(REAL)
    node = model.Node(
        name=next(name),
        uid=next(name),
        labels={"acme.example/pool": next(name), "role": "10"},
        annotations={"acme.example/team": next(name)},
        taints=(model.Taint("acme.example/only", "NoSchedule", next(name)),),
        ready=True,
    )
    pod = model.Pod(
        uid=next(name),
        namespace=next(name),
        name=next(name),
        labels={"app": next(name), "gang.scheduling.koordinator.sh/mode": "NonStrict"},
        annotations={"gang.scheduling.koordinator.sh/groups": json.dumps([f"{next(name)}/{next(name)}"])},
        owners=(model.Owner("Job", next(name), next(name)),),
        node=node.name,
        unscheduled=f"pods {next(name)!r} is forbidden by {next(name)}.example.com",
        group=f"{next(name)}/{next(name)}",
        constraints=model.Constraints(
            node_selector={"pool": next(name)},
            tolerations=(model.Toleration("acme.example/only", "Equal", next(name)),),
            pod_affinity=(
                model.PodTerm(
                    "zone",
                    model.Selector(expressions=(model.Requirement("app", "In", (next(name),)),)),
                    (next(name),),
                ),
            ),
        ),
    )
    return [
        events.NodeSeen(node=node),
        events.PodSeen(pod=pod),
        events.PlacementReleased(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=node.name,
            reason=f"the API server refused it: {next(name)}",
            cause="refused",
        ),
        events.RecorderElected(by=next(name), epoch="1"),
        events.Quarantined(kind="pods", object=f"{next(name)}/{next(name)}", reason=f"field {next(name)}"),
        events.ShadowSet(
            shadow=model.Shadow(name=next(name), overrides=({"a": next(name)},), note=next(name), by="x")
        ),
    ]


@pytest.fixture(scope="module")
def source(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    with api_worlds.processes(store_server, f"ps{secrets.token_hex(4)}") as start:
        world = bundled.lived(start())
        world.append(*distinctive())
        yield world


@pytest.fixture(scope="module")
def bundle(source: api_worlds.World) -> bytes:
    return bundled.exported(source, "?from=120")


@pytest.fixture(scope="module")
def made(bundle: bytes) -> tuple[bytes, pseudonyms.Names]:
    return bundled.renamed(bundle)


def whole(table: pseudonyms.Names, text: str) -> str:
    """The text with the real names; all pseudonyms in it are known."""
    found, unknown = table.translated(text)
    assert not unknown
    return found


def leaked(data: bytes) -> list[str]:
    """The real names in the members."""
    text = b"\n".join(bundled.members(data).values()).decode()
    # Their values were names of the generated history: nodes, pods, their uids, the namespace and the policy.
    words = set(re.findall(r"[\w.-]+", text))
    history = {f"{kind}{at}" for kind in ("n", "p", "uid-n", "uid-p") for at in range(400)}
    history |= {f"new-{at}" for at in range(400)} | {"shop", "spread", "operator@example", "uid-spread"}
    return [name for name in REAL if name in text] + sorted(words & history)


@pytest.mark.scenario("WI-10")
def test_no_member_holds_a_name_of_the_source(bundle: bytes, made: tuple[bytes, pseudonyms.Names]) -> None:
    # All of them are there before, but for the overrides that a shadow is recorded with.
    assert len(leaked(bundle)) > 100
    assert leaked(made[0]) == []
    text = b"\n".join(bundled.members(made[0]).values()).decode()
    # Keys, modes and short numbers stay.
    assert all(one in text for one in ("acme.example/pool", '"role":"10"', '"NonStrict"', "NoSchedule"))


@pytest.mark.scenario("WI-10")
def test_a_field_that_is_left_out_is_found(bundle: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_labelled", lambda _words, _name, value: value)
    assert leaked(bundled.renamed(bundle)[0])


@pytest.mark.scenario("WI-10")
def test_a_bundle_with_pseudonyms_explains_as_its_source_did(
    store_server: embedded.Server, source: api_worlds.World, made: tuple[bytes, pseudonyms.Names]
) -> None:
    data, table = made
    assert bundle_reader.read(io.BytesIO(data)).about.pseudonyms == "kq7x"
    explained = 0
    with bundled.opened(store_server, data) as elsewhere:
        for row in bundled.decisions(elsewhere):
            there = bundled.explanation(
                elsewhere, path := bundled.path_of(row), lambda text: whole(table, text)
            )
            assert there == bundled.explanation(source, whole(table, path))
            explained += 1
    assert explained > 20


def with_pseudonyms(happened: list[events.AnyEvent]) -> list[events.AnyEvent]:
    """The events as a bundle with pseudonyms holds them."""
    census = pseudonyms.Census(bundled.public())
    for event in happened:
        field_rewriter.FieldRewriter(census, declared.SCHEMA).struct(event)
    words = pseudonyms.Replacement(bundled.public(), census.table("kq7x"), census.keys)
    return [field_rewriter.FieldRewriter(words, declared.SCHEMA).struct(event) for event in happened]


def test_a_gang_that_names_layers_is_planned_as_in_its_source() -> None:
    gather: list[dict[str, str | int]] = [
        {"layer": layer, "strategy": "MustGather"} for layer in ("block", "RowOfOurs")
    ]
    gather.append({"layer": "NodeTopologyLayer", "podCountMultiple": 2})
    keys = (("block", "topology.acme.example/block"), ("RowOfOurs", "topology.acme.example/row"))
    topology = gang_model.NetworkTopology(
        uid="t",
        namespace="",
        name="default",
        layers=tuple(gang_model.Layer(name, (one,)) for name, one in keys),
    )
    spec = json.dumps({"gatherStrategy": gather})
    happened: list[events.AnyEvent] = [
        kinds.TOPOLOGIES.observed(topology),
        *(
            events.NodeSeen(node=small_gangs.node(f"n{at}", 4, {one: f"d{at // 2}" for _, one in keys}))
            for at in range(4)
        ),
        *(events.PodSeen(pod=one) for one in small_gangs.gang("g", 4, network_topology_spec=spec)),
    ]
    replaced = with_pseudonyms(happened)
    for each in (happened, replaced):
        small = small_gangs.Cluster()
        small.take(*each)
        for pod in small.snapshot.pods.values():
            assert small.planned(pod)
    assert "RowOfOurs" not in repr(replaced)


def test_a_seat_is_of_the_gang_that_it_was_committed_for_as_in_its_source() -> None:
    pods = small_gangs.gang("RowOfOurs", 2)
    small = small_gangs.Cluster(small_gangs.node("n1"), *pods)
    committed = gang_effects.committed(small, pods)
    small.snapshot = small_gangs.Cluster().snapshot
    small.take(*with_pseudonyms([*(events.PodSeen(pod=one) for one in pods), committed]))
    (key,) = endpoints.keys(small.snapshot)
    gang = gangs.find(small.snapshot, key)
    assert gang is not None
    assert len(gang.seats) == 2


def test_pods_of_a_scheduler_that_arguments_name_are_selected_as_in_their_source() -> None:
    named = NodeLabelPriority(scheduler_names=("acme-scheduler",))
    args = {named.name: {"scheduler_names": list(named.scheduler_names)}}
    configuration = model.Configuration("0123456789ab", (named.name,), args=args)
    pod = model.Pod(uid="u", namespace="shop", name="web", scheduler="acme-scheduler")
    happened = [events.PodSeen(pod=pod), events.ConfigurationApplied(configuration=configuration, by="x")]
    census = pseudonyms.Census(bundled.public())
    for event in happened:
        field_rewriter.FieldRewriter(census, declared.SCHEMA).struct(event)
    words = pseudonyms.Replacement(bundled.public(), census.table("kq7x"), census.keys)
    seen, applied = (field_rewriter.FieldRewriter(words, declared.SCHEMA).struct(one) for one in happened)
    assert isinstance(seen, events.PodSeen)
    assert isinstance(applied, events.ConfigurationApplied)
    assert applied.configuration == configuration
    assert named.interested(seen.pod)


class Partition(model.DeclaredObject, frozen=True):
    """An object of another distribution, with fields named as those of Topolog's own kinds."""

    layers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    parent: dict[str, str] = msgspec.field(default_factory=dict)
    total: str = ""
    created: str = ""


def test_fields_of_another_distribution_are_names_whatever_they_are_called() -> None:
    partition = Partition(
        "u",
        "shop",
        "p",
        layers=("secret-1",),
        groups=("secret-2",),
        options=("secret-3",),
        resources=("secret-4",),
        parent={"secret-5": "secret-6"},
        total="secret-7",
        created="secret-8",
    )
    kind = manifests.kind(Partition, "example.com/v1", "partitions")
    census = pseudonyms.Census(bundled.public())
    field_rewriter.FieldRewriter(census, schema.Schema([kind])).struct(partition)
    words = pseudonyms.Replacement(bundled.public(), census.table("kq7x"), census.keys)
    made = field_rewriter.FieldRewriter(words, schema.Schema([kind])).struct(partition)
    assert b"secret" in bytes(partition.encode())
    assert b"secret" not in bytes(made.encode())
    assert len(made.layers) == len(made.parent) == 1


def test_pseudonyms_sort_as_their_names_do(made: tuple[bytes, pseudonyms.Names]) -> None:
    names = made[1].names
    assert [names[one] for one in sorted(names)] == sorted(names.values())
    assert len(set(names.values())) == len(names)


def test_a_bundle_gets_pseudonyms_once(made: tuple[bytes, pseudonyms.Names]) -> None:
    with pytest.raises(pseudonymizer.RewriteRefused, match="already"):
        pseudonymizer.names_of(io.BytesIO(made[0]), bundled.public(), declared.SCHEMA)


def test_pseudonyms_of_another_bundle_stay_and_are_counted() -> None:
    table = pseudonyms.Names(pseudonyms.KIND, 1, "kq7x", {"kq7x-0001-node": "host-1"})
    assert table.translated("kq7x-0001-node, abcd-0001-node") == ("host-1, abcd-0001-node", 1)
    with pytest.raises(pseudonyms.Unreadable):
        pseudonyms.read(b"{}")
    assert pseudonyms.read(table.encoded()) == table


def test_settings_keep_what_repeats_decisions(made: tuple[bytes, pseudonyms.Names]) -> None:
    shown = msgspec.json.decode(bundled.members(made[0])[layout.SETTINGS])
    assert shown["settings"] == {"store.url": "(removed)", "cluster": "(removed)"}
    assert shown["plugins"]
