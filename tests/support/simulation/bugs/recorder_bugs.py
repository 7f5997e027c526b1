"""Bugs of the recorder: from the watch to the log, and in who records."""

from tests.support.simulation.bugs.planted_bugs import LUA, Bug

BUGS = (
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
        "a batch that was overtaken counts what others appended once more",
        "workers.recorder.batch_builder:BatchBuilder.batch",
        " - others.get(key, 0)",
        "",
    ),
    Bug(
        "a lost race loses the facts",
        "workers.recorder.log_writer:LogWriter.append",
        "self._send(built)",
        "at = built.end; self._send(built)",
    ),
    Bug(
        "the recorder overlooks what others wrote",
        "workers.recorder.log_writer:LogWriter._send",
        "if builder.facts and appended.first == builder.snapshot.offset + 1:",
        "if builder.facts:",
    ),
    Bug(
        "a watch goes on after a restart as if nothing were missing",
        "workers.recorder.leader_terms:resumed",
        " and name not in snapshot.unlisted",
        "",
    ),
    Bug(
        "changes of objects that no count depends on are dropped",
        "workers.recorder.batch_builder:BatchBuilder._observe",
        "self.facts.extend(kind.observe(before, seen))",
        "self.facts.extend(kind.observe(before, seen) if before is None or kind in (kinds.NODES, kinds.PODS)"
        " or kind.shared(self._schema, before, seen) else ())",
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
        "app.domain.fold.list_fold:ListFold.apply",
        "self.unlisted = self._declared",
        "pass",
    ),
)
