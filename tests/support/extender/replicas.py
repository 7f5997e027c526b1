"""A small cluster on real parts, and extenders' verbs over it. ``see`` records a change when a test asks."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app import plugins, settings
from app.domain import events, model, projections, snapshots
from app.framework import registry, registry_builder
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.watch import kinds as watched
from app.kube.writes import binding, fencing
from app.plugins.workload_policy import limits, samples
from app.simulation import populations
from app.simulation.apiserver import apiservers, objects, status_replies
from app.store import errors, schemas, stores
from app.store.log import batches
from app.store.server import connections
from app.store.state import followers
from app.verbs import binding as bind_verb
from app.verbs import candidates, contexts, filtering, placement_releases, placer
from app.verbs import errors as verb_errors
from app.verbs.memory import pod_memo
from tests.support import bind_times, declared
from tests.support.kube import plain_access
from tests.support.store import materialised
from tests.support.workers import listings
from workers.controller.placements import orphaned_placements

NAMESPACE, POLICY, KEY = "shop", "spread", "role"
LABEL = "workload-policy/kosmos.io"
WEB = {"app": "web", LABEL: POLICY}
"""Labels of the pods of the policy."""


class Clock:
    """Monotonic seconds that a test may advance; sleeping takes no time."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.slept: list[float] = []
        self.passes = False
        """Sleeping advances this clock, and nothing else does."""
        self._started = time.monotonic()

    def monotonic(self) -> float:
        return (self._started if self.passes else time.monotonic()) + self.ahead

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ahead += seconds if self.passes else 0.0

    def wait(self, seconds: float) -> bool:
        self.slept.append(seconds)
        return True


@dataclasses.dataclass
class Replica:
    """One extender process: its own view of the store, its own connections."""

    context: contexts.Context
    store: stores.Store
    clock: Clock
    api: apiservers.ApiServer
    fencer: fencing.Fencer

    def offer(self, pod: model.Pod) -> None:
        """kube-scheduler sends the pod as it is now, as it does with filter before each bind."""
        found = [made for made in self.api.objects.all("pods") if made["metadata"]["uid"] == pod.uid]
        version = found[0]["metadata"]["resourceVersion"] if found else self.version(pod)
        self.context.memo.put(pod_memo.RecentPod(spelled=pod.uid.encode(), pod=pod, version=version))

    def version(self, pod: model.Pod) -> str:
        """The pod's resourceVersion as kube-scheduler sent it last."""
        recent = self.context.memo.get(pod.uid)
        return recent.version if recent is not None else ""

    def bind(self, pod: model.Pod, node: str, *, uid: str = "") -> str:
        """The ``Error`` of the reply; empty for success."""
        request = placer.BindRequest(pod.namespace, pod.name, uid or pod.uid, node)
        try:
            bind_verb.run(self.context, request)
        except verb_errors.VerbError as refused:
            return str(refused)
        return ""

    def filter(self, pod: model.Pod) -> filtering.Answer:
        """Over all nodes that are known."""
        self.store.follower.catch_up()
        return self.filter_known(pod)

    def filter_known(self, pod: model.Pod) -> filtering.Answer:
        """Over the nodes that this process has, whatever the store does."""
        names = sorted(self.context.state.snapshot.nodes)
        return filtering.run(self.context, pod, candidates.Candidates(names))

    def snapshot(self) -> snapshots.Snapshot:
        """The head of the log."""
        return self.store.follower.catch_up()

    def count(self, domain: str) -> int:
        """The policy's count, which the store and a recount must agree on."""
        snapshot = self.snapshot()
        key = f"{NAMESPACE}/{POLICY}|{KEY}={domain}"
        assert materialised.counts(self.store) == dict(snapshot.counts)
        return snapshot.counts.get(key, 0)

    def events(self, *, after: int = 0) -> list[str]:
        """The events of the log, by type and subject."""
        return [
            f"{type(entry.event).__name__} {entry.event.subject}"
            for entry in self.store.log.read(after, limit=10_000)
        ]

    def settled(self, after: float = bind_times.OLD) -> int:
        """Run the controller over placements that are ``after`` seconds old; the number that it released."""
        state, log = self.context.state, self.context.log

        def release(uid: str, placement: model.Position, cause: events.Cause, reason: str) -> bool:
            return placement_releases.release(state, log, uid, cause, reason, placement=placement)

        settler = orphaned_placements.OrphanedPlacements(
            self.context.binder, self.fencer, self.snapshot, release, self.clock, old=bind_times.OLD
        )
        settler.run_once()
        self.clock.ahead += after
        return settler.run_once()


class Behind:
    """A state that is behind in its first reads: a replica whose rival is faster."""

    def __init__(self, replica: Replica, *, looks: int = 1) -> None:
        self._follower = replica.store.follower
        self._late = self._follower.catch_up()
        self._looks = looks

    @property
    def snapshot(self) -> snapshots.Snapshot:
        return self._follower.snapshot

    @property
    def caught_up(self) -> bool:
        return self._follower.caught_up

    @property
    def lag_seconds(self) -> float:
        return self._follower.lag_seconds

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        self._looks -= 1
        return self._late if self._looks >= 0 else self._follower.catch_up(timeout=timeout)

    def apply_own_append(self, ahead: snapshots.Snapshot, appended: batches.Appended | None = None) -> None:
        self._follower.apply_own_append(ahead, appended)


def with_state(replica: Replica, state: contexts.State) -> contexts.Context:
    """The replica's context with another state."""
    return dataclasses.replace(replica.context, state=state)


def recent(pod: model.Pod) -> pod_memo.RecentPod:
    """The pod as kube-scheduler has just sent it."""
    return pod_memo.RecentPod(spelled=pod.uid.encode(), pod=pod)


class Cluster:
    """An API server, and the log of its observed objects."""

    def __init__(
        self, api: apiservers.ApiServer, url: str, name: str, *, placements: str = "acknowledged"
    ) -> None:
        self.api = api
        self._placements = placements
        self.url = url
        self.name = name
        self._stack = contextlib.ExitStack()
        self._touches = 0
        client = connections.connect(url, names=declared.names(name))
        schemas.migrate(client, declared.names(name), declared.SCHEMA)
        client.close()
        self._recorder = self._opened()

    def close(self) -> None:
        self._stack.close()

    def replica(
        self,
        *,
        state: float = 1.8,
        bind: float = 3.5,
        patience: float = 2.0,
        enforce: limits.Enforce = "named",
        beside: Sequence[type[Any]] = (),
        **arguments: Mapping[str, object],
    ) -> Replica:
        """Another extender; its follower catches up on request only, without its thread.

        ``beside`` are further plugins, and ``arguments`` theirs.
        """
        known = (*plugins.USUAL, *beside)
        store = self._opened(patience, known)
        client = clients.Client(plain_access.of(self.api.url))
        self._stack.callback(client.close)
        clock = Clock()
        chosen = registry_builder.build(
            known,
            enabled=[plugin().name for plugin in known],
            weights={},
            score_max=10,
            args={"WorkloadPolicy": {"enforce": enforce}, **arguments},
        )
        context = contexts.Context(
            plugins=chosen,
            state=store.follower,
            log=store.log,
            decisions=store.decisions,
            binder=binding.ApiBinder(client),
            now=lambda: "2026-07-01T10:00:00.000Z",
            monotonic=clock.monotonic,
            digest=chosen.digest,
            time_limits=contexts.TimeLimits(state=state, bind=bind),
            sleep=clock.sleep,
        )
        fencer = fencing.ApiFencer(client, now=lambda: "2026-07-01T10:00:00Z")
        return Replica(context, store, clock, self.api, fencer)

    def _opened(self, patience: float = 2.0, known: Sequence[type[Any]] = plugins.USUAL) -> stores.Store:
        chosen = registry.Registry([plugin() for plugin in known])
        options = settings.Store(url=self.url, socket_timeout=patience, placements=self._placements)
        store = stores.open_store(
            options,
            schema=declared.SCHEMA,
            cluster=self.name,
            indexed=chosen.indexed(),
        )
        self._stack.callback(store.close)
        return store

    # -- the API server's side -------------------------------------------------------------

    def node(self, name: str, **labels: str) -> None:
        self.api.objects.create("nodes", populations.node(name, labels))

    def policy(self, quotas: Mapping[str, int], *, kind: str = "Required", name: str = POLICY) -> None:
        spec = {
            "topologyKey": KEY,
            "labelSelector": {"matchLabels": {"app": "web"}},
            "allocationPolicy": [{"name": name, "replicas": most} for name, most in quotas.items()],
            "allocationType": kind,
            "allocationMethod": "Fill",
        }
        self.api.objects.create("workloadpolicies", samples.policy(NAMESPACE, name, spec))

    def pod(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        *,
        owner: str = "",
        namespace: str = NAMESPACE,
        **spec: object,
    ) -> model.Pod:
        """Create a pod, of an ``owner`` of that kind; as kube-scheduler has it."""
        made = populations.pod(namespace, name, dict(WEB if labels is None else labels))
        made["spec"] |= spec
        if owner:
            reference = {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "owner"}
            made["metadata"]["ownerReferences"] = [reference]
        return decoding.pod(self.api.objects.create("pods", made))

    def delete(self, pod: model.Pod) -> None:
        self.api.objects.remove("pods", (pod.namespace, pod.name))

    def bound(self, pod: model.Pod) -> str:
        """The node that the API server bound this pod to, by uid; empty without one."""
        try:
            found = self.api.objects.get("pods", (pod.namespace, pod.name))
        except status_replies.StatusError:
            return ""
        return found["spec"].get("nodeName", "") if found["metadata"]["uid"] == pod.uid else ""

    def annotations(self, pod: model.Pod) -> dict[str, str]:
        """The pod's annotations at the API server."""
        metadata = self.api.objects.get("pods", (pod.namespace, pod.name))["metadata"]
        return dict(metadata.get("annotations") or {})

    def put(self, pod: model.Pod, node: str) -> None:
        """Another client binds the pod."""
        self._edited(pod, lambda found: found["spec"].update(nodeName=node))

    def touch(self, pod: model.Pod) -> None:
        """Another client writes to the pod; only its version changes for Topolog."""
        self._touches += 1
        note = f"write {self._touches}"
        self._edited(pod, lambda found: found["status"].update(message=note))

    def nominate(self, pod: model.Pod, node: str) -> None:
        self._edited(pod, lambda found: found["status"].update(nominatedNodeName=node))

    def evict(self, pod: model.Pod) -> None:
        """kube-scheduler evicts the pod, which terminates until it is deleted."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}

        def change(found: objects.Json) -> None:
            found["metadata"]["deletionTimestamp"] = "2026-07-01T10:00:00Z"
            found["status"]["conditions"] = [condition]

        self._edited(pod, change)

    def _edited(self, pod: model.Pod, edit: Callable[[objects.Json], None]) -> None:
        def change(found: objects.Json) -> objects.Json:
            edit(found)
            return found

        self.api.objects.change("pods", (pod.namespace, pod.name), change)

    def asked(self, ending: str) -> int:
        """The number of requests to the API server whose path has this end."""
        return sum(request.path.endswith(ending) for request in self.api.seen)

    def quotas_used(self) -> dict[str, int]:
        """A recount: pods of the policy by the label of the node that the API server has them on."""
        roles = {
            node["metadata"]["name"]: node["metadata"]["labels"].get(KEY)
            for node in self.api.objects.all("nodes")
        }
        found: dict[str, int] = {}
        for pod in self.api.objects.all("pods"):
            role = roles.get(pod["spec"].get("nodeName", ""))
            if pod["metadata"]["labels"].get("app") == "web" and role is not None:
                key = f"{NAMESPACE}/{POLICY}|{KEY}={role}"
                found[key] = found.get(key, 0) + 1
        return found

    # -- the recorder's side ---------------------------------------------------------------

    def see(self, kinds: Collection[str] = declared.SCHEMA.names) -> int:
        """Record a new list of all kinds of the API server in the log; returns the head."""
        follower, log = self._recorder.follower, self._recorder.log
        while True:
            before = follower.catch_up()
            nodes = [decoding.node(msgspec.json.encode(n)) for n in self.api.objects.all("nodes")]
            pods = [decoding.pod(msgspec.json.encode(p)) for p in self.api.objects.all("pods")]
            lists: listings.Lists = {
                watched.NODES: nodes,
                **{
                    watched.declared(kind): [
                        kind.decode(msgspec.json.encode(one)) for one in self.api.objects.all(kind.name)
                    ]
                    for kind in declared.SCHEMA.kinds
                },
                watched.PODS: pods,
            }
            happened = [
                *listings.facts(before, {kind: lists[kind] for kind in lists if kind.name in kinds}),
                *(
                    events.Relisted(kind, "", "1", "first list")
                    for kind in sorted(before.unlisted.intersection(kinds))
                ),
            ]
            if not happened:
                return before.offset
            projection = projections.Projection(before)
            projection.apply_all(happened)
            batch = batches.Batch(events=happened, increments=projection.increments)
            with contextlib.suppress(errors.Conflict):
                return log.append(batch, batches.Guard(head=before.offset)).last

    def recorded(self) -> list[events.AnyEvent]:
        """All events of the log."""
        return [entry.event for entry in self._recorder.log.read(0, limit=100_000)]

    def most(self, domain: str) -> int:
        """The highest count at any offset of the log, recounted event by event."""
        follower = followers.Follower(self._recorder.log, schema=declared.SCHEMA)
        key, highest = f"{NAMESPACE}/{POLICY}|{KEY}={domain}", 0
        snapshot = follower.snapshot
        for event in self.recorded():
            snapshot = projections.project(snapshot, event)
            highest = max(highest, snapshot.counts.get(key, 0))
        return highest


@contextlib.contextmanager
def cluster(url: str, name: str, *, placements: str = "acknowledged") -> Iterator[Cluster]:
    """A cluster with a host and a member node and no policy yet."""
    with apiservers.ApiServer(declared.SCHEMA) as api:
        made = Cluster(api, url, name, placements=placements)
        try:
            yield made
        finally:
            made.close()
