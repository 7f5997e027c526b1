"""Bugs of our own making, to see whether the simulation would find real ones.

Each replaces one piece of text, in the Redis function or in the source of one Python function, for as
long as a context lasts. If the text is not there any more, planting fails: adapt the bug to the code.
"""

import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from app.store import opening

LUA = "lua"


@dataclass(frozen=True)
class Bug:
    """One mistake that somebody could make."""

    name: str
    where: str
    """``lua``, or ``module:function``."""
    old: str
    new: str


BUGS = (
    # The function.
    Bug("a retried append is carried out again", LUA, "if done == sequence then", "if false then"),
    Bug("a lower epoch may write", LUA, "(lower(epoch, stored) or", "(false or"),
    Bug("expected versions are not compared", LUA, "if (version or '0') ~= argv[place + 1]", "if false"),
    Bug("the expected head is not compared", LUA, "conflicts[2] = 'head'", "conflicts[1] = 'CONFLICT'"),
    Bug(
        "one more than the ceiling is let in", LUA, "> tonumber(ceiling) then", "> tonumber(ceiling) + 1 then"
    ),
    Bug(
        "the ceiling is compared before the increment",
        LUA,
        "(by[key] or tonumber(count or '0'))",
        "tonumber(count or '0')",
    ),
    Bug("a count of zero stays", LUA, "if total == 0 then", "if total == -1 then"),
    Bug("versions of what is gone stay", LUA, "write('HDEL', versions, gone)", ""),
    Bug(
        "a lost tail is noticed by nobody who writes",
        LUA,
        "if state[6] or not whole then",
        "if state[6] then",
    ),
    Bug(
        "a tail that has grown again is taken for the old one",
        LUA,
        "if known ~= '' and known ~= state[3] then",
        "if false then",
    ),
    Bug(
        "a writer takes a tail that has grown again for the old one",
        LUA,
        "return head_ms == ms",
        "return true",
    ),
    Bug(
        "a loss is not noted for others",
        LUA,
        "redis.call('HSET', meta, 'lost', table.concat({ incarnation, text(offset), text(kept) }, ' '))",
        "",
    ),
    Bug(
        "a watch goes on after a restart as if nothing were missing",
        "workers.leading:Office._enter",
        'if name.removeprefix("rv:") not in snapshot.unlisted',
        "if True",
    ),
    Bug(
        "trimming takes the entry at the checkpoint along",
        LUA,
        "text(keep) .. '-0')",
        "text(keep + 1) .. '-0')",
    ),
    # Writing to the log.
    Bug(
        "every call of a session has the same number",
        "app.store.logs:Log.append",
        "session.sequence += 1",
        "session.sequence = 1",
    ),
    Bug(
        "a gone subject keeps a version",
        "app.store.batches:arguments",
        "touched[subject] = 0 if projecting.ends(event, subject) else place",
        "touched[subject] = place",
    ),
    # Reading it.
    Bug(
        "a follower takes its snapshot along to another incarnation",
        "app.store.heads:Head._follow_on",
        "snapshots.empty(indexed=self._snapshot.indexed, incarnation=found)",
        "__import__('dataclasses').replace(self._snapshot, position=model.Position(found, 0))",
    ),
    Bug(
        "a reader asks for the incarnation before",
        "app.store.heads:Head._follow_on",
        "self._tail.incarnation = found",
        "pass",
    ),
    # The fold.
    Bug(
        "any sight of a pod ends its promise",
        "app.domain.projecting:Projection._pod_seen",
        "if settles(pod):",
        "if True:",
    ),
    Bug(
        "a pod that is gone stays promised",
        "app.domain.projecting:Projection._pod_gone",
        "self._placements.pop(uid, None)",
        "pass",
    ),
    Bug(
        "a new node label does not move its pods' counts",
        "app.domain.projecting:Projection._node_changed",
        "if moved else ()",
        "if False else ()",
    ),
    Bug(
        "a terminating pod goes on counting",
        "app.domain.projecting:_counts_alike",
        "and before.terminating == after.terminating",
        "",
    ),
    Bug("finished pods count", "app.domain.counting:contributions", "or not pod.counted", ""),
    # From the watch to the log.
    Bug(
        "what a new list lacks is not missed",
        "workers.drafting:steps",
        "if identity not in change.identities",
        "if False",
    ),
    Bug(
        "only the last page of a list is remembered",
        "app.kube.reflecting:Reflector._list",
        "identities.update(self.kind",
        "identities = set(self.kind",
    ),
    Bug(
        "a 410 is answered by the same watch again",
        "app.kube.reflecting:Reflector._judge",
        "http.HTTPStatus.GONE, ",
        "",
    ),
    Bug(
        "labels of nodes change while others write",
        "workers.drafting:Draft._see",
        "self.common |= node is None or node.labels != seen.labels or node.uid != seen.uid",
        "pass",
    ),
    Bug(
        "facts expect no versions",
        "workers.drafting:Draft.guard",
        "versions = {subject: version(subject) for subject in subjects}",
        "versions = {}",
    ),
    Bug(
        "a lost race loses the facts",
        "workers.recording:Recorder._append",
        "draft, end, alone = self._drafted(waiting, at, bet=attempt == 0)",
        "draft, at, alone = self._drafted(waiting, at, bet=attempt == 0); end = at",
    ),
    Bug(
        "the recorder overlooks what others wrote",
        "workers.recording:Recorder._write",
        "if draft.facts and appended.first == draft.snapshot.offset + 1:",
        "if draft.facts:",
    ),
    # Who records.
    Bug(
        "a recorder does not ask what its predecessor knew",
        "workers.leading:Office._missed",
        "or not self._log.doubt(one)",
        "or False",
    ),
    Bug(
        "nobody waits for Bindings of the lost part",
        "workers.leading:Office._settled",
        "self._stopped.wait(rest)",
        "pass",
    ),
    Bug(
        "only who recorded a loss waits for its Bindings",
        "workers.leading:Office._settled",
        "doubting.remaining(self._log, snapshot, self._settle)",
        "(self._settle if self._reason != _FIRST_LIST else 0.0)",
    ),
    Bug(
        "nobody asks what others knew of an incarnation that one began oneself",
        "workers.leading:Office._begin",
        'self._reason = "the store lost events"',
        'self._reason = "the store lost events"; missed = self._missed; self._missed = lambda known,'
        " standing: None if standing.incarnation == begun else missed(known, standing)",
    ),
    Bug(
        "a recorder vouches for any server",
        "workers.doubting:restarted",
        "if not standing.restarted:",
        "if True:",
    ),
    Bug(
        "appends go on in a server that nobody vouches for",
        LUA,
        "(needed and needed ~= server_run())",
        "(false)",
    ),
    Bug(
        "what was decided before a restart is appended after it",
        "app.framework.running:claim",
        "{*counting.footprint(cycle.pod, node), events.RUN}",
        "{*counting.footprint(cycle.pod, node)}",
    ),
    Bug(
        "verbs do not wait for the first lists",
        "app.verbs.contexts:Context.present",
        "if snapshot.unlisted:",
        "if False:",
    ),
    Bug(
        "what was listed before a loss counts as listed",
        "app.domain.projecting:Projection.apply",
        "self._unlisted = model.KINDS",
        "pass",
    ),
    # Binding.
    Bug(
        "a second promise is given beside the first",
        "app.verbs.binding:_Attempt._placed",
        "if standing is None:",
        "if True:",
    ),
    Bug(
        "a promise is expected to stand on nothing",
        "app.verbs.binding:_guard",
        "versions={subject: snapshot.version(subject) for subject in claim.subjects}",
        "versions={}",
    ),
    Bug(
        "a promise knows no ceiling",
        "app.verbs.binding:_guard",
        "if projection.increments.get(key, 0) > 0",
        "if False",
    ),
    Bug(
        "with selected only the policy that a pod names limits it",
        "app.plugins.workload_policy.limiting:required",
        'if rules.enforce == "named":',
        "if True:",
    ),
    Bug(
        "only the policy that a pod names sets a ceiling",
        "app.plugins.workload_policy.limiting:claim",
        "if policy.required]",
        "if policy.required and policy.name == logic.named(cycle.pod)]",
    ),
    Bug(
        "a promise is given up while its Binding is under way",
        "app.verbs.binding:_Attempt._supersede",
        "if not void:",
        "if False:",
    ),
    Bug(
        "two calls bind one promise beside each other",
        "app.verbs.binding:_Attempt._placed",
        "elif standing.made == self._void:",
        "elif True:",
    ),
    Bug(
        "a repeated Binding has more time than is left",
        "app.kube.binding:ApiBinder.bind",
        "min(timeout * share, left)",
        "timeout * share",
    ),
    Bug(
        "an answer that is lost counts as a refusal",
        "app.kube.binding:ApiBinder._resolved",
        'return Unknown(f"{pod}',
        'return Refused(f"{pod}',
    ),
    Bug(
        "a repetition of a Binding is not marked",
        "app.kube.connecting:Connections.exchange",
        "repeated=repeated)",
        "repeated=False)",
    ),
    Bug(
        "any answer below 400 is success",
        "app.kube.binding:ApiBinder._judged",
        "if reply.status in _DONE and clients.success(reply.body):",
        "if reply.status < 400:",
    ),
    Bug(
        "a proxy's refusal counts as the API server's",
        "app.kube.binding:ApiBinder._judged",
        "refused.original and",
        "True and",
    ),
    Bug(
        "a Binding names neither uid nor version",
        "app.kube.binding:_Asked.body",
        "_string(self.uid), fence,",
        "b'\"\"', b'',",
    ),
    Bug(
        "a Binding does not carry the pod's version",
        "app.kube.binding:_Asked.body",
        "if self.version else",
        "if False else",
    ),
    Bug(
        "a Binding carries a later version than the log names",
        "app.verbs.binding:_Attempt._placed",
        "return self._append(snapshot, pod)",
        "return _Ready(snapshot, standing.made, self._version)",
    ),
    Bug(
        "an old promise is released although the pod runs",
        "workers.settling:Settler._evidence",
        "if found.pod.node:",
        "if False:",
    ),
    Bug(
        "a release expects no versions",
        "app.verbs.releasing:release",
        "versions={subject: snapshot.version(subject) for subject in subjects}",
        "versions={}",
    ),
)
"""Most break one line that a comment or a test of the module speaks of."""


class Stale(LookupError):
    """The code is not what the bug was made for."""


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The bug is there while the context lasts."""
    if bug.where == LUA:
        text = _changed(bug, opening.library())
        with mock.patch.object(opening, "library", return_value=text):
            yield
        return
    name, _, path = bug.where.partition(":")
    module = importlib.import_module(name)
    *outer, last = path.split(".")
    owner: object = module
    for part in outer:
        owner = getattr(owner, part)
    source = _changed(bug, textwrap.dedent(inspect.getsource(getattr(owner, last))))
    made: dict[str, object] = {}
    exec(compile(source, f"<{bug.name}>", "exec"), vars(module), made)
    with mock.patch.object(owner, last, made[last]):
        yield


def named(name: str) -> Bug:
    """The bug of that name, or whose name begins so."""
    return next(bug for bug in BUGS if bug.name.startswith(name))


def _changed(bug: Bug, text: str) -> str:
    if text.count(bug.old) != 1:
        raise Stale(f"bug {bug.name!r}: {bug.old!r} is {text.count(bug.old)} times in {bug.where}")
    return text.replace(bug.old, bug.new)
