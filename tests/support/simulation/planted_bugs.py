"""Planted bugs, which show whether the simulation would find real ones.

Each replaces one piece of text, in the Redis function or in the source of one Python function, while a
context lasts. If the text no longer exists, planting fails: adapt the bug to the code.
"""

import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from unittest import mock

from app.store import schemas

LUA = "lua"


@dataclass(frozen=True)
class Bug:
    """One plausible mistake."""

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
        "no writer notices a lost tail",
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
        "workers.recorder.leader_terms:resumed",
        'if name.removeprefix("rv:") not in again',
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
        "app.store.log.appenders:Appender.append",
        "session.sequence += 1",
        "session.sequence = 1",
    ),
    Bug(
        "a gone subject keeps a version",
        "app.store.log.batches:arguments",
        "touched[subject] = 0 if event_subjects.ends(event, subject) else place",
        "touched[subject] = place",
    ),
    # Reading it.
    Bug(
        "a follower takes its snapshot along to another incarnation",
        "app.store.state.log_cursors:LogCursor.switch_incarnation",
        "snapshots.empty(schema=former.schema, indexed=former.indexed, incarnation=found)",
        "__import__('dataclasses').replace(self.snapshot, position=model.Position(found, 0))",
    ),
    Bug(
        "a reader asks for the incarnation before",
        "app.store.state.log_cursors:LogCursor.switch_incarnation",
        "self._reader.incarnation = found",
        "pass",
    ),
    # The fold.
    Bug(
        "any observation of a pod ends its placement",
        "app.domain.projections:Projection._pod_seen",
        "if settles(pod):",
        "if True:",
    ),
    Bug(
        "a pod that is gone stays placed",
        "app.domain.projections:Projection._pod_gone",
        "self._placements.pop(uid, None)",
        "pass",
    ),
    Bug(
        "a new node label does not move its pods' counts",
        "app.domain.projections:Projection._node_changed",
        "if moved else ()",
        "if False else ()",
    ),
    Bug(
        "a terminating pod goes on counting",
        "app.domain.projections:Projection._counted_apart",
        "read(before) != read(after)",
        "read(before)[:3] != read(after)[:3]",
    ),
    Bug(
        "finished pods count",
        "app.plugins.workload_policy.policy_counts:_contributions",
        "or not pod.counted",
        "",
    ),
    # From the watch to the log.
    Bug(
        "what a new list lacks is not missed",
        "workers.recorder.batch_builder:steps",
        "if identity not in change.identities",
        "if False",
    ),
    Bug(
        "only the last page of a list is remembered",
        "app.kube.watch.reflectors:Reflector._list",
        "identities.update(self.kind",
        "identities = set(self.kind",
    ),
    Bug(
        "a 410 is answered by the same watch again",
        "app.kube.watch.reflectors:Reflector._judge",
        "http.HTTPStatus.GONE, ",
        "",
    ),
    Bug(
        "labels of nodes change while others write",
        "workers.recorder.batch_builder:BatchBuilder._observe",
        "self._shared |= kind.shared(self._schema, before, seen)",
        "self._shared |= kind is not kinds.NODES and kind.shared(self._schema, before, seen)",
    ),
    Bug(
        "policies change while others write",
        "workers.recorder.batch_builder:BatchBuilder._observe",
        "self._shared |= kind.shared(self._schema, before, seen)",
        "self._shared |= kind in (kinds.NODES, kinds.PODS) and kind.shared(self._schema, before, seen)",
    ),
    Bug(
        "a node goes while others write",
        "workers.recorder.batch_builder:BatchBuilder._end",
        "self._shared |= kind.shared(self._schema, known, None)",
        "pass",
    ),
    Bug(
        "facts expect no versions",
        "workers.recorder.batch_builder:BatchBuilder.guard",
        "versions = {subject: version(subject) for subject in subjects}",
        "versions = {}",
    ),
    Bug(
        "a lost race loses the facts",
        "workers.recorder.log_writer:LogWriter.append",
        "unanswered = built = self._build(waiting, at, optimistic=optimistic)",
        "unanswered = built = self._build(waiting, at, optimistic=optimistic); at = built.end",
    ),
    Bug(
        "the recorder overlooks what others wrote",
        "workers.recorder.log_writer:LogWriter._send",
        "if builder.facts and appended.first == builder.snapshot.offset + 1:",
        "if builder.facts:",
    ),
    # Who records.
    Bug(
        "a recorder does not read the note of its predecessor",
        "workers.recorder.loss_recovery:LossRecovery._missed",
        "elif not self._log.report_loss(one):",
        "elif False:",
    ),
    Bug(
        "Bindings of the lost part are not waited for",
        "workers.recorder.leadership:RecorderLeadership._settled",
        "self._stopped.wait(rest)",
        "pass",
    ),
    Bug(
        "only who recorded a loss waits for its Bindings",
        "workers.recorder.leadership:RecorderLeadership._settled",
        "settle_time.remaining(self._log, snapshot, self._settle)",
        "(self._settle if self._recovery.relist_reason != loss_recovery.FIRST_LIST else 0.0)",
    ),
    Bug(
        "the notes of others about an incarnation of one's own are not read",
        "workers.recorder.loss_recovery:LossRecovery.begin_incarnation",
        'self.relist_reason = "the store lost events"',
        'self.relist_reason = "the store lost events"; missed = self._missed; self._missed = lambda known,'
        " state: None if state.incarnation == begun else missed(known, state)",
    ),
    Bug(
        "a recorder accepts any server",
        "workers.recorder.settle_time:restarted",
        "if not state.restarted:",
        "if True:",
    ),
    Bug(
        "a state that was read outlasts the data that it describes",
        "workers.recorder.leadership:RecorderLeadership._enter",
        "self._log.note(state.end)",
        "pass",
    ),
    Bug(
        "appends continue in a server run that no leader recorded",
        LUA,
        "(needed and needed ~= server_run())",
        "(false)",
    ),
    Bug(
        "what was decided before a restart is appended after it",
        "app.framework.plans:_Merge.__init__",
        "{events.RUN}",
        "set()",
    ),
    Bug(
        "verbs do not wait for the first lists",
        "app.verbs.contexts:Context.present",
        "if snapshot.unlisted:",
        "if False:",
    ),
    Bug(
        "what was listed before a loss counts as listed",
        "app.domain.projections:Projection.apply",
        "self._unlisted = self._schema.names",
        "pass",
    ),
    # Binding.
    Bug(
        "a second placement is appended beside the first",
        "app.verbs.placer:Placer._find_or_place",
        "if existing is None:",
        "if True:",
    ),
    Bug(
        "a placement expects no versions",
        "app.verbs.placer:_guard",
        "versions={subject: snapshot.version(subject) for subject in subjects}",
        "versions={}",
    ),
    Bug(
        "a placement has no ceiling",
        "app.verbs.placer:_guard",
        "if projection.increments.get(key, 0) > 0",
        "if False",
    ),
    Bug(
        "with selected only the policy that a pod names limits it",
        "app.plugins.workload_policy.limits:required",
        'if rules.enforce == "named":',
        "if True:",
    ),
    Bug(
        "only the policy that a pod names sets a ceiling",
        "app.plugins.workload_policy.limits:plan",
        "if policy.required]",
        "if policy.required and policy.name == logic.named(cycle.pod)]",
    ),
    Bug(
        "a placement is released while its Binding is under way",
        "app.verbs.placer:Placer._resolve_stale",
        "if not void:",
        "if False:",
    ),
    Bug(
        "two calls send a Binding for one placement",
        "app.verbs.placer:Placer._find_or_place",
        "elif existing.placement.planned or existing.position == self._void:",
        "elif True:",
    ),
    Bug(
        "a repeated Binding has more time than is left",
        "app.kube.writes.binding:ApiBinder.bind",
        "min(timeout * share, left)",
        "timeout * share",
    ),
    Bug(
        "an answer that is lost counts as a refusal",
        "app.kube.writes.binding:ApiBinder._read_outcome",
        'return Unknown(f"{pod}',
        'return NotBound(f"{pod}',
    ),
    Bug(
        "a repetition of a Binding is not marked",
        "app.kube.client.fast_client:FastClient.exchange",
        "repeated=repeated)",
        "repeated=False)",
    ),
    Bug(
        "any answer below 400 is success",
        "app.kube.writes.binding:ApiBinder._outcome",
        "if reply.status in _SUCCESS and clients.success(reply.body):",
        "if reply.status < 400:",
    ),
    Bug(
        "a proxy's refusal counts as the API server's",
        "app.kube.writes.binding:ApiBinder._outcome",
        "refused.original and",
        "True and",
    ),
    Bug(
        "a Binding names neither uid nor version",
        "app.kube.writes.binding:_Wanted.body",
        "_encoded(self.uid))",
        "b'\"\"'); fence = b''",
    ),
    Bug(
        "a Binding does not carry the pod's version",
        "app.kube.writes.binding:_Wanted.body",
        "if carried.version else",
        "if False else",
    ),
    Bug(
        "a Binding carries a later version than the log names",
        "app.verbs.placer:Placer._find_or_place",
        "return self._place_again(snapshot, pod, existing.placement)",
        "return Placed(snapshot, existing.position, msgspec.structs.replace("
        "existing.placement, resource_version=self._version))",
    ),
    # Gangs.
    Bug(
        "a gang goes with fewer members than its minimum",
        "app.plugins.coscheduling.planner.plans:_Planning._enough",
        "return all(",
        "return True or all(",
    ),
    Bug(
        "a bind commits the seat of its member alone",
        "app.plugins.coscheduling.admission:reserve",
        "for pod in found.plan.pods\n        ),",
        "for pod in found.plan.pods if pod.uid == cycle.pod.uid\n        ),",
    ),
    Bug(
        "a seat is kept although its pod is not bound",
        "workers.controller.orphaned_placements:_void",
        "if age >= kept else None",
        "if False else None",
    ),
    Bug(
        "a terminating member lets others of its gang go alone",
        "app.plugins.coscheduling.gangs:Gang.satisfied",
        "return bool(self.seats or self.ran)",
        "return bool(self.seats or self.ran or any(one.node for one in self.others))",
    ),
    Bug(
        "a member that was deleted and has ended lets others go alone",
        "app.plugins.coscheduling.gangs:Gang.ran",
        "if not pod.terminating",
        "if True",
    ),
    Bug(
        "a gang that has lost members needs its minimum again",
        "app.plugins.coscheduling.gangs:Gang.needed",
        "return 0 if self.satisfied else self.minimum",
        "return self.minimum",
    ),
    # Quotas that are divided.
    Bug(
        "a division is kept although a member requests more",
        "app.plugins.elastic_quota.trees.runtimes:TreeResource._requested",
        "self._former.pop(at, None)",
        "pass",
    ),
    Bug(
        "what a member does not need is not divided again",
        "app.plugins.elastic_quota.trees.weighted_shares:divide",
        "left += reached - wanted",
        "pass",
    ),
    Bug(
        "pods without a quota do not reduce what is divided",
        "app.plugins.elastic_quota.trees.usage:_total",
        "(sum([counts.get(key, 0) for key in outside]) << bits)",
        "0",
    ),
    Bug(
        "what is used is not guaranteed",
        "app.plugins.elastic_quota.trees.runtimes:TreeResource._used",
        "self._guarantee(at)",
        "pass",
    ),
    # Preemption for gangs.
    Bug(
        "a group that preempts takes any nodes",
        "app.plugins.coscheduling.planner.plans:_Planning.plan",
        "self._with_least_harm() or ",
        "",
    ),
    Bug(
        "a group that preempts overlooks budgets",
        "app.plugins.coscheduling.planner.plans:_Planning._with_least_harm",
        "limits = budgets.recorded(self._snapshot)",
        "limits = ()",
    ),
    Bug(
        "a group that preempts breaks up a gang",
        "app.plugins.coscheduling.planner.evictions:Evictions._occupancy",
        "stay = stay or not self._may_go(pod)",
        "stay = False",
    ),
    Bug(
        "a pod that preempts breaks up a gang",
        "app.plugins.coscheduling.admission:veto",
        "if left and len(left) < gang.minimum <= len(members):",
        "if False:",
    ),
    Bug(
        "pods are evicted for a gang that has no capacity without them",
        "app.framework.pipeline:veto",
        "return refusals[0].reason if refusals else None",
        "return None",
    ),
    Bug(
        "a bind commits a gang as if less important pods were gone",
        "app.plugins.coscheduling.admission:_can_preempt",
        "bool(cycle.offered and in_form)",
        "bool(in_form)",
    ),
    Bug(
        "a group that is disrupted as a whole is put back pod by pod",
        "app.plugins.coscheduling.planner.evictions:Evictions._whole_group",
        "if group is not None and group.disrupted_whole else",
        "if False else",
    ),
    Bug(
        "a group that is disrupted as a whole has to stay",
        "app.plugins.coscheduling.planner.evictions:_expendable",
        "or gang.disrupted_whole ",
        "",
    ),
    Bug(
        "a group that is disrupted as a whole is put back where a part of it fits",
        "app.plugins.coscheduling.planner.reprieves:Reprieves.outcome",
        "if all(left[name].takes(one)",
        "if any(left[name].takes(one)",
    ),
    Bug(
        "a node is kept whose victims run elsewhere, too",
        "app.verbs.preempting:_Judging.of",
        'if any(snapshot.node_of(uid) not in ("", node) for uid in uids):',
        "if False:",
    ),
    Bug(
        "pods of a node that is gone use up budgets",
        "app.plugins.coscheduling.planner.evictions:Evictions._has_less_important",
        "if name not in snapshot.nodes:",
        "if False:",
    ),
    Bug(
        "a plan with evictions is kept although a running pod has changed",
        "app.plugins.coscheduling.planner.kept_plans:_same_pods",
        "if kept.compared is None or kept.pods is snapshot.pods:",
        "if True:",
    ),
    # Evictions for quotas.
    Bug(
        "a pod that is not preemptible is evicted for its quota",
        "app.plugins.elastic_quota.trees.overuse:excess_pods",
        "(one for one in found if membership.preemptible(one.pod))",
        "found",
    ),
    Bug(
        "pods are evicted for what is about to be free",
        "app.plugins.elastic_quota.evictions:without_terminating",
        "cycles.without_terminating(snapshot) if",
        "snapshot if",
    ),
    Bug(
        "another pod is evicted before the state shows the former one",
        "workers.controller.evictions:Evictor._seen",
        "(EVERY if going else SEEN)",
        "EVERY",
    ),
    Bug(
        "a quota that uses its max counts as over it",
        "app.plugins.elastic_quota.trees.overuse:over",
        "- quota_counts.ceiling(resource, most)",
        "- quota_counts.ceiling(resource, most) + 1000",
    ),
    Bug(
        "a gang takes the capacity of nominated pods",
        "app.plugins.coscheduling.planner.nominations:of_others",
        "if not snapshot.nominated:",
        "if True:",
    ),
    Bug(
        "less important nominated pods hold their capacity",
        "app.plugins.coscheduling.planner.nominations:of_others",
        "snapshot.nominated_before(least)",
        "map(snapshot.pods.__getitem__, snapshot.nominated)",
    ),
    # Elastic quotas.
    Bug(
        "the max of the quotas above does not hold",
        "app.plugins.elastic_quota.admission:_tests",
        "grown.chains[name] if rules.check_parents else (name,)",
        "(name,)",
    ),
    Bug(
        "the quotas above that of a pod set no ceiling",
        "app.plugins.elastic_quota.families:ceilings",
        "if test.request",
        "if test.quota == one.quota and test.request",
    ),
    Bug(
        "non-preemptible pods may use what their quota borrows",
        "app.plugins.elastic_quota.admission:_tests",
        "if above == name and not membership.preemptible(pod):",
        "if False:",
    ),
    Bug(
        "placements do not expect the version of the quotas",
        "app.domain.schema:Schema.footprint",
        "*further)",
        "*(one for one in further if not one.startswith('quotas:')))",
    ),
    Bug(
        "a change of a quota is not a version",
        "app.plugins.elastic_quota.kinds:moves",
        "return (MOVED,)",
        "return ()",
    ),
    Bug(
        "a pod counts in its own quota alone",
        "app.plugins.elastic_quota.quota_counts:_both",
        "grown.chains.get(name, (name,))",
        "(name,)",
    ),
    Bug(
        "a terminating pod gives its share of the quota back",
        "app.plugins.elastic_quota.quota_counts:_selects",
        "not pod.finished",
        "pod.counted",
    ),
    # Plans.
    Bug(
        "a plan commits a part",
        "app.framework.plans:_Merge.run",
        "placements, tuple(sorted(self._subjects))",
        "placements[:2], tuple(sorted(self._subjects))",
    ),
    Bug(
        "a plan places a pod that changed after it was planned",
        "app.framework.plans:_Merge._decide",
        "schema.footprint(draft.pod, draft.node)",
        "schema.footprint(self._cycle.pod, self._node)",
    ),
    Bug(
        "the quotas of others do not hold for a planned pod",
        "app.framework.plans:_Merge._admitted_there",
        "if trace.refusals:",
        "if False:",
    ),
    Bug(
        "a repeated placement is decided again",
        "app.verbs.placer:Placer._find_or_place",
        "return self._place_again(snapshot, pod, existing.placement)",
        "return self._place(snapshot, pod)",
    ),
    Bug(
        "a retried Binding computes its annotations again",
        "app.verbs.placer:Placer._place_again",
        "again = msgspec.structs.replace(placement, pod=pod,",
        "made = plans.commitment(self._context.plugins, self._cycle(snapshot, pod), placement.node);"
        " again = msgspec.structs.replace(getattr(made, 'placements', (placement,))[0], pod=pod,",
    ),
    Bug(
        "a Binding does not carry its annotations",
        "app.kube.writes.binding:_Wanted.body",
        "if carried.annotations else",
        "if False else",
    ),
    Bug(
        "a pod that was planned is bound without a placement of its own",
        "app.verbs.placer:Placer._find_or_place",
        "elif existing.placement.planned or existing.position == self._void:",
        "elif existing.placement.planned:\n"
        "                return Placed(snapshot, existing.position, existing.placement)\n"
        "            elif existing.position == self._void:",
    ),
    Bug(
        "all placements of a commitment are ready to be bound",
        "app.framework.plans:_Merge.run",
        "planned=draft is not own",
        "planned=False",
    ),
    Bug(
        "an old placement is released although the pod runs",
        "workers.controller.orphaned_placements:_void",
        "if found.pod.node:",
        "if False:",
    ),
    Bug(
        "an old placement is released without a fence",
        "workers.controller.orphaned_placements:OrphanedPlacements._evidence",
        "self._fence(placement)",
        "return 'unbound', 'it is old'",
    ),
    Bug(
        "a fence counts as evidence whatever it was answered",
        "workers.controller.orphaned_placements:OrphanedPlacements._evidence",
        "self._fence(placement)",
        "self._fence(placement); return 'unbound', 'it is fenced'",
    ),
    Bug(
        "a release expects no versions",
        "app.verbs.placement_releases:_append",
        "versions={subject: snapshot.version(subject) for subject in sorted(subjects)}",
        "versions={}",
    ),
)
"""Most break one line that a comment or a test of the module describes."""


class Stale(LookupError):
    """The code that the bug changes has changed."""


@contextlib.contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The code has the bug while the context lasts."""
    if bug.where == LUA:
        text = _changed(bug, schemas.library())
        with mock.patch.object(schemas, "library", return_value=text):
            yield
        return
    name, _, path = bug.where.partition(":")
    module = importlib.import_module(name)
    *outer, last = path.split(".")
    owner: object = module
    for part in outer:
        owner = getattr(owner, part)
    function = _code(getattr(owner, last))
    source = _changed(bug, textwrap.dedent(inspect.getsource(function)))
    made: dict[str, object] = {}
    exec(compile(source, f"<{bug.name}>", "exec"), vars(module), made)
    changed = _code(made[last])
    if isinstance(function, FunctionType) and isinstance(changed, FunctionType):
        # In place: declarations of plugins hold the function itself.
        former, function.__code__ = function.__code__, changed.__code__
        try:
            yield
        finally:
            function.__code__ = former
        return
    with mock.patch.object(owner, last, changed):
        yield


def named(name: str) -> Bug:
    """The bug whose name begins with this."""
    return next(bug for bug in BUGS if bug.name.startswith(name))


def _code(found: object) -> Callable[..., object]:
    """The function of a property, or the function itself."""
    function = found.fget if isinstance(found, property) else found
    assert callable(function)
    return function


def _changed(bug: Bug, text: str) -> str:
    if text.count(bug.old) != 1:
        raise Stale(f"bug {bug.name!r}: {bug.old!r} is {text.count(bug.old)} times in {bug.where}")
    return text.replace(bug.old, bug.new)
