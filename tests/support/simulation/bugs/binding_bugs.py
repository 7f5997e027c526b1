"""Bugs of binding, of plans of several placements, and of releases."""

from tests.support.simulation.bugs.planted_bugs import Bug

BUGS = (
    # Binding.
    Bug(
        "a second placement is appended beside the first",
        "app.verbs.placer:Placer._find_or_place",
        "existing = _existing(snapshot, request.uid)",
        "existing = None",
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
        "a pod is bound without a placement on an unknown node",
        "app.verbs.contexts:Context.needs_no_record",
        "not snapshot.schema.selects(pod, snapshot.objects)",
        "True",
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
        "if existing is None or self._without_binding(existing):",
        "if True:",
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
        "app.verbs.placer:Placer._place_unless_bound",
        "return self._place_again(snapshot, seen, existing.placement)",
        "return Placed(snapshot, existing.position, existing.placement, seen.version)",
    ),
    Bug(
        "bind judges the pod of the log, and sends the version that it has seen",
        "app.verbs.placer:Placer._place_unless_bound",
        "seen.unbound()",
        "seen._replace(pod=snapshot.pods.get(request.uid, seen.pod))",
    ),
    Bug(
        "a relabelled pod is placed while the log counts it as it was",
        "app.verbs.placer:Placer._place_unless_bound",
        "if not latest_pods.shown(snapshot, seen.pod, request.node):",
        "if False:",
    ),
    Bug(
        "a placement is repeated for a pod that a policy limits since",
        "app.framework.registry:Registry.outdated",
        "if found is None and",
        "if False and",
    ),
    Bug(
        "without the store only the pod of the log is judged",
        "app.verbs.placer:Placer._without_store",
        "each = (seen.pod,) if known is None else (seen.pod, known)",
        "each = (seen.pod,) if known is None else (known,)",
    ),
    Bug(
        "a Binding without a record carries no version",
        "app.verbs.binding:_Attempt._send_binding",
        "else binding.Carried(placed.version)",
        "else binding.NOTHING",
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
        "app.verbs.placer:Placer._place_unless_bound",
        "return self._place_again(snapshot, seen, existing.placement)",
        "return self._commit(snapshot, self._judged(snapshot, seen.pod), seen.version)",
    ),
    Bug(
        "a retried Binding computes its annotations again",
        "app.verbs.placer:Placer._place_again",
        "again = msgspec.structs.replace(placement, pod=seen.pod,",
        "made = plans.commitment(self._context.plugins, self._cycle(snapshot, seen.pod), placement.node);"
        " again = msgspec.structs.replace(getattr(made, 'placements', (placement,))[0], pod=seen.pod,",
    ),
    Bug(
        "a Binding does not carry its annotations",
        "app.kube.writes.binding:_Wanted.body",
        "if carried.annotations else",
        "if False else",
    ),
    Bug(
        "a pod that was planned is bound without a placement of its own",
        "app.verbs.placer:Placer._place_unless_bound",
        "elif outdated:",
        "elif existing.placement.planned:\n"
        "        return Placed(snapshot, existing.position, existing.placement)\n"
        "    elif outdated:",
    ),
    Bug(
        "all placements of a commitment are ready to be bound",
        "app.framework.plans:_Merge.run",
        "planned=draft is not own",
        "planned=False",
    ),
    # Releases.
    Bug(
        "an old placement is released although the pod runs",
        "workers.controller.placements.orphaned_placements:_void",
        "if found.pod.node:",
        "if False:",
    ),
    Bug(
        "an old placement is released without a fence",
        "workers.controller.placements.orphaned_placements:OrphanedPlacements._evidence",
        "self._fence(placement)",
        "return 'unbound', 'it is old'",
    ),
    Bug(
        "a fence counts as evidence whatever it was answered",
        "workers.controller.placements.orphaned_placements:OrphanedPlacements._evidence",
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
