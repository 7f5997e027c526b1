"""Bugs of the log: of the function that appends, of its callers, of readers and of the fold."""

from tests.support.simulation.bugs.planted_bugs import LUA, Bug

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
    Bug(
        "a checkpoint lacks objects that no count depends on",
        "app.store.snapshot_format:_lines",
        "for kind, found in sorted(held.objects.items())",
        "for kind, found in sorted(held.objects.items()) if snapshot.schema.dependents(kind)",
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
)
