"""What each kind of objects means to the log: identity, subject and events."""

import pytest

from app.domain import events, model, projections, snapshots
from app.kube.objects import decoding
from app.kube.watch import kinds
from app.plugins.workload_policy import policy_model
from tests.support import declared

POD = model.Pod(uid="u-pod", namespace="ns", name="p")
NODE = model.Node(name="n", uid="u-node", labels={"zone": "a"})
POLICY = policy_model.WorkloadPolicy(uid="u-policy", namespace="ns", name="q", topology_key="zone")
OBJECTS = pytest.mark.parametrize("found", [POD, NODE, POLICY], ids=lambda found: type(found).__name__)


def project(*happened: events.AnyEvent) -> snapshots.Snapshot:
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), happened)


@OBJECTS
def test_an_observed_object_is_listed_and_found_by_its_identity(found: decoding.Object) -> None:
    kind = kinds.of(declared.SCHEMA, found)
    snapshot = project(*kind.observe(None, found))
    identity = kind.identity(found)
    assert dict(kind.listed(snapshot)) == {identity: found}
    assert kind.find(snapshot, identity) == found
    assert all(not other.listed(snapshot) for other in kinds.watched(declared.SCHEMA) if other is not kind)


@OBJECTS
def test_the_event_of_the_end_removes_the_object(found: decoding.Object) -> None:
    kind = kinds.of(declared.SCHEMA, found)
    namespace = "" if isinstance(found, model.Node) else found.namespace
    seen = kind.observe(None, found)
    gone = kind.gone(namespace, found.name, found.uid, True)
    identity = kind.identity(found)
    assert {event.subject for event in (*seen, gone)} == {kind.subject(identity)}
    assert kind.find(project(*seen, gone), identity) is None


@OBJECTS
def test_an_unchanged_object_implies_no_event(found: decoding.Object) -> None:
    kind = kinds.of(declared.SCHEMA, found)
    assert kind.observe(found, found) == ()
    assert not kind.shared(declared.SCHEMA, found, found)


@OBJECTS
def test_an_object_of_another_kind_is_an_error(found: decoding.Object) -> None:
    for other in (POD, NODE, POLICY):
        if other is not found:
            with pytest.raises(TypeError, match=type(other).__name__):
                kinds.of(declared.SCHEMA, found).observe(None, other)
            with pytest.raises(TypeError, match=type(other).__name__):
                kinds.of(declared.SCHEMA, found).observe(other, found)


def test_a_placed_pod_that_was_not_observed_is_found_but_not_listed() -> None:
    snapshot = project(events.placed(POD, "n"))
    assert kinds.PODS.find(snapshot, POD.uid) == POD
    assert not kinds.PODS.listed(snapshot)


@pytest.mark.parametrize(
    ("before", "after", "shared"),
    [
        (None, POD, False),
        (POD, None, False),
        (None, NODE, True),
        (NODE, None, True),
        (NODE, model.Node(name="n", uid="u-node", labels={"zone": "b"}), True),
        (NODE, model.Node(name="n", uid="u-other", labels={"zone": "a"}), True),
        (NODE, model.Node(name="n", uid="u-node", labels={"zone": "a"}, ready=True), False),
        (None, POLICY, True),
        (POLICY, None, True),
    ],
)
def test_counts_of_many_pods_depend_on_policies_and_on_the_labels_of_nodes(
    before: decoding.Object | None, after: decoding.Object | None, shared: bool
) -> None:
    found = after or before
    assert found is not None
    assert kinds.of(declared.SCHEMA, found).shared(declared.SCHEMA, before, after) is shared
