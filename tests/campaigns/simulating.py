"""One seed, one history: everything that can happen to Topolog between a cluster and its store.

One thread, one die, one clock that only the simulation moves; the store's function is the real one in
a real server. Recorders, extenders and a controller are the real code, stepped; while one of them
waits for the store or the API server, others take steps. In the end all faults stop, and what the
log says must be what the cluster is.

    python -m tests.campaigns.simulating SEED [BUG]     # repeats a seed, and tells what happened
"""

import contextlib
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from unittest import mock

from structlog import testing

from app.domain import model
from app.kube import reflecting
from app.store import connecting, embedded, errors, keys, opening
from tests.campaigns import clocks, clusters, parts, planting, promises, wires

STEPS = 70
COMPARED = 3
"""Steps between two comparisons of everything."""
DEPTH = 2
"""So deep may steps be taken within steps."""
_CALM = 400


class Simulation:
    """One history."""

    def __init__(self, seed: int, url: str, *, tell: Callable[[str], None] = lambda _: None) -> None:
        self.seed = seed
        self.die = random.Random(seed)
        self.clock = clocks.Clock()
        self.cluster = clusters.Cluster()
        self.steady = self.die.random() < 0.5
        self.faults = clusters.Faults(self.die, self.die.choice((0.0, 0.05, 0.12)))
        self._tell = tell
        self._url = url
        self._name = f"s{secrets.token_hex(6)}"
        self._depth = 0
        self._busy: set[parts.Recorder] = set()
        """Recorders at work: each is one thread, and takes no other step meanwhile."""
        self._sheltered = False
        """Nothing goes wrong just now."""
        self._quiet: object = None
        """The watchdog's connections: with them, nothing ever goes wrong."""
        self._lost: dict[connecting.Wire, connecting.Packed] = {}
        """Appends that were carried out and whose answer was lost."""
        self._calm = True
        self._outage = 0.0
        self._owners: dict[int, object] = {}
        self._latest: object = None
        """The recorder that claimed last."""
        self._stores: list[opening.Store] = []
        self._extenders: list[parts.Extender] = []
        self._recorders: list[parts.Recorder] = []

    # -- a whole history ---------------------------------------------------------------------

    def run(self) -> None:
        """Raises Broken if a promise does not hold."""
        with self._installed():
            try:
                self._begin()
                for number in range(STEPS):
                    self._step()
                    if number % COMPARED == 0:
                        self.watchdog.compare()
                self._end()
            finally:
                for store in self._stores:
                    store.close()

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        small = self.die.random() < 0.5
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(clocks.installed(self.clock))
            stack.enter_context(wires.watched(self._watch))
            stack.enter_context(mock.patch("workers.recording.LINGER", 0.0))
            stack.enter_context(mock.patch("workers.recording._PAUSE", 0.0))
            # Knobs that large clusters reach by themselves.
            stack.enter_context(mock.patch("workers.drafting.ALONE", 3 if small else 64))
            stack.enter_context(mock.patch("workers.drafting._ROOM", 4 if small else 254))
            yield

    def _begin(self) -> None:
        client = connecting.connect(self._url)
        opening.migrate(client, keys.Keys(self._name))
        client.close()
        for name, role in clusters.NODES.items():
            self.cluster.node(name, role=role)
        self.cluster.policy({"host": self.die.randint(1, 2), "member": self.die.randint(1, 3)})
        for name in clusters.NAMES[: self.die.randint(2, 6)]:
            self.cluster.pod(name)
        self.cluster.pod("plain", {"app": "plain"})
        mine = self._opened()
        self._quiet = mine.client.connection_pool
        self.watchdog = promises.Watchdog(mine.log, self.cluster, steady=self.steady)
        for number in range(2):
            self._extenders.append(self._extender(f"extender-{number}"))
        self.settler = parts.settler(self._extenders[0], self.clock)
        self._start_recorder()
        self._calm = False

    def _end(self) -> None:
        """Faults stop; everything that is under way arrives, everything that is waiting is done."""
        self.tell("calm")
        self._calm = True
        self._outage = 0.0
        self.faults.quiet()
        self.clock.advance(10.0)
        self._drain()
        for _ in range(3):
            self.clock.advance(40.0)
            self.settler.turn()
        self._drain()
        self.watchdog.converged()

    def _drain(self) -> None:
        """Until the recorder has heard of everything."""
        for _ in range(_CALM):
            if self._latest not in self._recorders:
                self._start_recorder()
            recorder = self._recorders[-1]
            if self._heard(recorder):
                return
        raise promises.Broken("end: the recorder never comes to an end of what it hears")

    def _heard(self, recorder: parts.Recorder) -> bool:
        """Whether nothing is left to be heard; the recorder may have ended by it."""
        quiet = True
        for kind in clusters.RESOURCES:
            for _ in range(_CALM):
                change = recorder.hear(kind)
                version = getattr(change, "version", "")
                if type(change).__name__ == "Bookmark" and int(version) >= self.cluster.objects.version:
                    break
                quiet = quiet and type(change).__name__ == "Bookmark"
            self._turn(recorder)
            if recorder not in self._recorders:
                return False
        return quiet

    # -- steps -------------------------------------------------------------------------------

    def _step(self) -> None:
        self._depth += 1
        try:
            step = self.die.choices([step for step, _ in self._steps()], [share for _, share in self._steps()])
            step[0]()
        finally:
            self._depth -= 1

    def _steps(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._record, 9.0),
            (self._bind, 6.0),
            (self._people, 3.0),
            (self._kubelets, 2.0),
            (self._settle, 0.7),
            (self._time, 1.5),
            (self._restart_recorder, 0.3),
            (self._restart_extender, 0.3),
            (self._trouble, 0.3),
        ]

    def between(self, what: str) -> None:
        """Others take their steps while somebody waits."""
        if self._calm or self._depth > DEPTH or self.die.random() > 0.25:
            return
        self.tell(f"meanwhile ({what}):")
        for _ in range(self.die.randint(1, 3)):
            self._step()

    def tell(self, text: str) -> None:
        self._tell(f"{self.clock.now:9.3f} {'  ' * self._depth}{text}")

    def _record(self) -> None:
        idle = [recorder for recorder in self._recorders if recorder not in self._busy]
        if not idle:
            return
        recorder = self.die.choice(idle)
        for _ in range(self.die.randint(1, 5)):
            change = recorder.hear(self.die.choice(clusters.RESOURCES))
            self.tell(f"recorder {self._recorders.index(recorder)} hears {_short(change)}")
        if self.die.random() < 0.8:
            self._turn(recorder)

    def _turn(self, recorder: parts.Recorder) -> None:
        self._busy.add(recorder)
        try:
            recorder.turn()
        except errors.Fenced as fenced:
            self.tell(f"recorder ends: {fenced}")
            promises.demand(recorder is not self._latest, "P5", "the recorder that claimed last is fenced")
            self._recorders.remove(recorder)
        except wires.Crashed:
            self.tell("recorder crashed")
            self._recorders.remove(recorder)
        finally:
            self._busy.discard(recorder)
        if not self._recorders:
            self._start_recorder()

    def _start_recorder(self) -> None:
        while True:
            store = self._opened()
            recorder = parts.Recorder(store, self._client(), self.clock, self.die)
            self._owners[id(store.client.connection_pool)] = recorder
            with contextlib.suppress(wires.Crashed):
                recorder.begin()
                break
        self._recorders.append(recorder)
        self.tell("a recorder starts")

    def _restart_recorder(self) -> None:
        idle = [recorder for recorder in self._recorders if recorder not in self._busy]
        if idle and self.die.random() < 0.5:
            self.tell("a recorder is killed")
            self._recorders.remove(self.die.choice(idle))
        self._start_recorder()

    def _restart_extender(self) -> None:
        which = self.die.randrange(len(self._extenders))
        self.tell(f"extender {which} is killed")
        self._extenders[which] = self._extender(f"extender-{which}")

    def _trouble(self) -> None:
        if self.faults.share:
            self._outage = self.clock.now + self.die.uniform(0.1, 6.0)
            self.tell(f"the store is away until {self._outage:.3f}")

    def _time(self) -> None:
        self.clock.advance(self.die.choice((0.01, 0.5, 2.0, 5.0)))

    def _settle(self) -> None:
        if self.die.random() < 0.5:
            self.clock.advance(31.0)
        with contextlib.suppress(errors.StoreError, wires.Crashed):
            self.tell(f"settled {self.settler.turn()}")

    def _bind(self) -> None:
        pods = [pod for pod in self.cluster.all("pods") if "deletionTimestamp" not in pod["metadata"]]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        if self.die.random() < 0.85:
            pods = waiting
        if not pods:
            return
        pod, node = self.die.choice(pods), self.die.choice(sorted(clusters.NODES))
        meta, which = pod["metadata"], self.die.randrange(len(self._extenders))
        self.tell(f"extender {which}: bind {meta['name']} ({meta['uid'][-4:]}) to {node}")
        try:
            error = self._extenders[which].bind(meta["namespace"], meta["name"], meta["uid"], node)
        except wires.Crashed:
            self._extenders[which] = self._extender(f"extender-{which}")
            error = "crashed"
        self.tell(f"extender {which}: {meta['name']} -> {node}: {error or 'bound'}")
        if not error:
            was = self.cluster.bound.get(meta["uid"], set())
            promises.demand(was == {node}, "P7", f"{meta['name']} is said to be on {node}, is on {was}")

    # -- the cluster's own life --------------------------------------------------------------

    def _people(self) -> None:
        acts: list[Callable[[], None]] = [self._create, self._create, self._delete, self._recreate, self._echo]
        if not self.steady:
            acts += [self._relabel, self._renew_node, self._edit_policy, self._renew_policy, self._relabel_pod]
        self.die.choice(acts)()

    def _create(self) -> None:
        names = {pod["metadata"]["name"] for pod in self.cluster.all("pods")}
        free = [name for name in clusters.NAMES if name not in names]
        if free:
            made = self.cluster.pod(self.die.choice(free))
            self.tell(f"people create {made['metadata']['name']}")

    def _one(self, resource: str) -> clusters.Json | None:
        found = self.cluster.all(resource)
        return self.die.choice(found) if found else None

    def _delete(self) -> None:
        pod = self._one("pods")
        if pod is None:
            return
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.tell(f"people delete {key[1]}")
        if pod["spec"].get("nodeName") and self.die.random() < 0.5:
            self.cluster.edit("pods", key, _terminate)
        else:
            self.cluster.objects.remove("pods", key)

    def _recreate(self) -> None:
        pod = self._one("pods")
        if pod is not None:
            meta = pod["metadata"]
            self.tell(f"people recreate {meta['name']}")
            self.cluster.objects.remove("pods", (meta["namespace"], meta["name"]))
            self.cluster.pod(meta["name"], meta["labels"])

    def _echo(self) -> None:
        """A change that scheduling does not depend on, or a line that nobody understands."""
        if self.die.random() < 0.3:
            self.cluster.objects.say("pods", b'{"type":"MODIFIED","object":{"metadata":{"name":5}}}')
            return
        pod = self._one("pods")
        if pod is not None:
            noise = str(self.die.random())
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            self.cluster.edit("pods", key, lambda made: made["status"].update(message=noise))

    def _relabel(self) -> None:
        node = self._one("nodes")
        if node is not None:
            role = self.die.choice(("host", "member", "spare"))
            self.tell(f"people make {node['metadata']['name']} a {role}")
            key = ("", node["metadata"]["name"])
            self.cluster.edit("nodes", key, lambda made: made["metadata"]["labels"].update(role=role))

    def _relabel_pod(self) -> None:
        pod = self._one("pods")
        if pod is not None:
            app = self.die.choice(("web", "other"))
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            self.tell(f"people label {key[1]} app={app}")
            self.cluster.edit("pods", key, lambda made: made["metadata"]["labels"].update(app=app))

    def _renew_node(self) -> None:
        node = self._one("nodes")
        if node is not None:
            name, labels = node["metadata"]["name"], node["metadata"]["labels"]
            self.tell(f"node {name} is made anew")
            self.cluster.objects.remove("nodes", ("", name))
            if self.die.random() < 0.7:
                self.cluster.node(name, **{clusters.KEY: labels.get(clusters.KEY, "host")})
        missing = sorted(clusters.NODES.keys() - {made["metadata"]["name"] for made in self.cluster.all("nodes")})
        if missing and self.die.random() < 0.5:
            self.cluster.node(missing[0], role=clusters.NODES[missing[0]])

    def _edit_policy(self) -> None:
        policy = self._one("workloadpolicies")
        if policy is not None:
            spec = clusters.Cluster.spec({"host": self.die.randint(0, 3), "member": self.die.randint(0, 3)})
            self.tell("people edit the policy")
            key = (clusters.NAMESPACE, policy["metadata"]["name"])
            self.cluster.edit("workloadpolicies", key, lambda made: made.update(spec=spec))

    def _renew_policy(self) -> None:
        if self.cluster.all("workloadpolicies"):
            self.tell("people delete the policy")
            self.cluster.objects.remove("workloadpolicies", (clusters.NAMESPACE, clusters.POLICY))
        if self.die.random() < 0.7:
            self.cluster.policy({"host": self.die.randint(1, 2), "member": self.die.randint(1, 3)})

    def _kubelets(self) -> None:
        for pod in self.cluster.all("pods"):
            meta = pod["metadata"]
            key = (meta["namespace"], meta["name"])
            if "deletionTimestamp" in meta:
                self.cluster.objects.remove("pods", key)
            elif pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
                phase = "Succeeded" if self.die.random() < 0.1 else "Running"
                self.cluster.edit("pods", key, lambda made, phase=phase: made["status"].update(phase=phase))

    # -- calls of the store ------------------------------------------------------------------

    def _watch(
        self, wire: connecting.Wire, call: wires.Call, packed: connecting.Packed, ask: wires.Ask
    ) -> connecting.Reply:
        if call is wires.Call.OTHER or self._sheltered or wire._pool is self._quiet:
            return ask()
        if self.clock.now < self._outage:
            self.clock.advance(0.3)
            raise wires.away("the store does not answer")
        if call is wires.Call.READ:
            if self.faults.strike(0.3):
                raise wires.away("a read was cut off")
            return ask()
        self.between("before a call of the store")
        way = self.die.choice((*wires.WAYS, "lost", "lost")) if self.faults.strike() else ""
        if way == "before":
            self._fail("before the call")
        reply = ask()
        self._called(wire, call, packed, reply)
        self.between("after a call of the store")
        if way == "lost":
            self.tell("the answer of the store is lost")
            if self.die.random() < 0.3:
                self._outage = self.clock.now + 4.0
            elif call is wires.Call.APPEND and isinstance(reply, list) and reply[0] in (b"OK", b"REPEATED"):
                self._lost[wire] = packed
            raise wires.away("the answer was lost")
        if way == "after":
            self._fail("after the call")
        return reply

    def _fail(self, when: str) -> None:
        """A crash, or only a call that was lost."""
        if self.die.random() < 0.5:
            self.tell(f"crash {when}")
            raise wires.Crashed(when)
        if when.startswith("before"):
            raise wires.away("the call was lost")

    def _called(
        self, wire: connecting.Wire, call: wires.Call, packed: connecting.Packed, reply: connecting.Reply
    ) -> None:
        """Who has lost the epoch must not have written."""
        before = self._lost.pop(wire, None)
        if before is packed:
            repeated = isinstance(reply, list) and reply[0] == b"REPEATED"
            promises.demand(repeated, "P3", f"an append that was carried out is answered {reply!r} when repeated")
        owner = self._owners.get(id(wire._pool))
        if owner is None or not isinstance(reply, list) or reply[0] != b"OK":
            return
        if call is wires.Call.CLAIM:
            self._latest = owner
        else:
            promises.demand(owner is self._latest, "P5", "a recorder wrote after another had claimed the epoch")

    def _opened(self) -> opening.Store:
        sheltered, self._sheltered = self._sheltered, True
        try:
            store = parts.opened(self._url, self._name)
        finally:
            self._sheltered = sheltered
        self._stores.append(store)
        return store

    def _client(self) -> clusters.Client:
        return clusters.Client(self.cluster, self.clock, self.faults, self.between)

    def _extender(self, name: str) -> parts.Extender:
        return parts.extender(self._opened(), self._client(), self.clock, name)


def _terminate(made: clusters.Json) -> None:
    made["metadata"]["deletionTimestamp"] = "2026-07-01T10:00:00Z"


def _short(change: reflecting.Change) -> str:
    match change:
        case reflecting.Seen(_, model.Node() | model.WorkloadPolicy() as found, version):
            return f"{type(found).__name__} {found.name} at {version}"
        case reflecting.Seen(_, model.Pod() as pod, version):
            return f"Pod {pod.name} ({pod.uid[-4:]}) on {pod.node or 'no node'}, {pod.phase}, at {version}"
        case reflecting.Gone(_, uid, _, name, version):
            return f"the end of {name} ({uid[-4:]}) at {version}"
        case reflecting.Part(kind, found_):
            return f"a part of {kind.name}: {len(found_)}"
        case reflecting.Listed(kind, _, version, _, reason):
            return f"all {kind.name} at {version}: {reason[:60]}"
        case reflecting.Bookmark(kind, version):
            return f"a bookmark of {kind.name} at {version}"
        case _:
            return type(change).__name__


def check(seed: int, url: str, *, tell: Callable[[str], None] = lambda _: None) -> str:
    """What is broken in this history; empty if nothing is."""
    try:
        Simulation(seed, url, tell=tell).run()
    except promises.Broken as broken:
        return str(broken)
    return ""


def main(words: list[str]) -> int:
    """Repeat one seed aloud."""
    seed = int(words[0])
    with contextlib.ExitStack() as stack:
        if len(words) > 1:
            stack.enter_context(planting.planted(planting.named(" ".join(words[1:]))))
        server = embedded.Server()
        stack.callback(server.stop)
        broken = check(seed, server.url, tell=print)
    print(f"seed {seed}: {broken or 'every promise holds'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
