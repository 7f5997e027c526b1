"""This process: its lag, settings, paths and what its plugins declare; the store with its other readers."""

import flask
from marshmallow import Schema, fields

from app.api.introspection import blueprints, pages, queries, schemas, services, times
from app.domain import events
from app.framework import supposed_operations, transformer_chain
from app.store.bundles import layout
from app.verbs.questions import operations

routes = blueprints.create("process", "/apis/v1", "The process that answers.")


class Bundle(Schema):
    """A bundle that `topolog bundle open` shows."""

    cluster = schemas.text("The cluster that it was made of.")
    first = schemas.number("The oldest offset that it holds.")
    last = schemas.number("The last one.")
    from_ = schemas.text("When the event at first was appended (RFC 3339); empty before it.", data_key="from")
    to = schemas.text("When the last one was.")
    created = schemas.text("When it was made.")
    clock = schemas.text(
        "The present of its clock: when it was made; if events follow the last one, when that was."
    )
    by = schemas.text("Who made it.")
    around = schemas.text("The pod that it was made for; empty without one.")


class Lag(Schema):
    """The lag of this process."""

    position = schemas.text("The position of its snapshot, INCARNATION/OFFSET.")
    began = schemas.number("The offset of the event that began this incarnation; 0 for the first.")
    head = schemas.number("The last offset of the log that it has seen.")
    behind = schemas.number("Events between the two.")
    seconds = schemas.real("Seconds since the snapshot was last known to be the head.")
    error = schemas.optional("Why it cannot follow, or null.")
    decisionsDropped = schemas.number("Decision records dropped since it started.")
    listed = schemas.mapping("For each kind, the resourceVersion of its latest list.")
    identity = schemas.text("The identity of the caller.")
    version = schemas.text("The version of Topolog.")
    bundle = fields.Nested(
        Bundle,
        required=True,
        allow_none=True,
        metadata={"description": "The bundle that is shown; null where the log is that of a live cluster."},
    )


@blueprints.get(routes, "/lag", Lag, query=queries.Empty)
def lag(_: pages.Query) -> pages.Body:
    """How far this process is behind the log; answered without the store."""
    return lag_shown()


def lag_shown() -> pages.Body:
    """The lag of this process."""
    given = services.current()
    follower = given.follower
    snapshot = follower.snapshot
    head = max(follower.head_seen, snapshot.offset)
    return {
        "position": str(snapshot.position),
        "began": snapshot.version(events.INCARNATION),
        "head": head,
        "behind": head - snapshot.offset,
        "seconds": round(max(0.0, follower.lag_seconds), 3),
        "error": str(follower.error) if follower.error is not None else None,
        "decisionsDropped": given.decisions.dropped,
        "listed": dict(sorted(snapshot.listed.items())),
        "identity": given.identity(),
        "version": given.version,
        "bundle": _bundle(given.bundle),
    }


def _bundle(about: layout.About | None) -> pages.Body | None:
    if about is None:
        return None
    return {
        "cluster": about.cluster,
        "first": about.first,
        "last": about.last,
        "from": _time(about.first_ms),
        "to": _time(about.last_ms),
        "created": _time(about.created_ms),
        "clock": _time(about.clock_ms),
        "by": about.by,
        "around": about.around,
    }


def _time(at_ms: int) -> str:
    return times.rfc3339(at_ms / 1000) if at_ms else ""


class Settings(Schema):
    """The settings in force."""

    settings = schemas.anything("The settings, with secrets hidden.")
    configuration = schemas.text("A digest of everything that decisions depend on.")
    plugins = schemas.texts("The plugins, in order.")
    weights = schemas.counts("Weights other than 1.")


@blueprints.get(routes, "/settings", Settings, query=queries.Empty)
def settings(_: pages.Query) -> pages.Body:
    """The settings in force, without secrets."""
    return settings_shown()


def settings_shown() -> pages.Body:
    """The settings of this process, without secrets."""
    given = services.current()
    return {
        "settings": given.settings,
        "configuration": given.registry.digest,
        "plugins": [plugin.name for plugin in given.registry.plugins],
        "weights": given.registry.weights,
    }


class Phase(Schema):
    """The transformers of one phase."""

    phase = schemas.text("filter: before filter and reserve; node: for single nodes; score: before score.")
    plugins = schemas.texts("The plugins in the order in which they are called.")


class Phases(Schema):
    """The transformers of each phase."""

    items = fields.List(
        fields.Nested(Phase), required=True, metadata={"description": "The phases, in order."}
    )


@blueprints.get(routes, "/transformers", Phases, query=queries.Empty)
def transformers(_: pages.Query) -> pages.Body:
    """Which plugins change a decision's input before the others are asked, by phase and in order."""
    phases = transformer_chain.order(services.current().registry)
    return {"items": [{"phase": phase, "plugins": list(names)} for phase, names in phases.items()]}


class OverrideField(Schema):
    """A field of an override."""

    name = schemas.text("Its name.")
    about = schemas.text("What it is.")
    example = schemas.text("An example; empty if none is declared.")
    required = schemas.truth("Whether it is required.")
    shape = schemas.text("value, list or map.")
    text = schemas.truth("Whether a value, or each part of a list or map, may be text; else it is JSON.")


class DeclaredOverride(Schema):
    """An override that a hypothetical question may name."""

    op = schemas.text("Its name.")
    plugin = schemas.text("The plugin that declares it; empty for those on nodes, pods and declared kinds.")
    about = schemas.text("What it does.")
    fields_ = fields.List(
        fields.Nested(OverrideField),
        required=True,
        attribute="fields",
        data_key="fields",
        metadata={"description": "Its fields, in order."},
    )


class DeclaredOverrides(Schema):
    """The overrides."""

    items = schemas.nested(DeclaredOverride, "The overrides, in order.", many=True)


@blueprints.get(routes, "/overrides", DeclaredOverrides, query=queries.Empty)
def overrides(_: pages.Query) -> pages.Body:
    """The overrides of hypothetical questions: those of every cluster, and those of the enabled plugins."""
    declared = [(plugin.name, plugin.operations()) for plugin in services.current().registry.supposes]
    return {
        "items": [
            {
                "op": one.op,
                "plugin": plugin,
                "about": one.about,
                "fields": [field._asdict() for field in one.fields],
            }
            for plugin, found in (("", operations.CORE), *declared)
            for one in map(supposed_operations.described, found)
        ]
    }


class Listing(Schema):
    """Every path by method."""

    GET = schemas.texts("Paths, sorted; a parameter begins with a colon.")
    POST = schemas.texts("The same.")
    PUT = schemas.texts("The same.")
    DELETE = schemas.texts("The same.")


@blueprints.get(routes, "/__services__", Listing, query=queries.Empty)
def listing(_: pages.Query) -> dict[str, list[str]]:
    """Every path under /apis/v1/ that this process answers, by method, in Koordinator's shape."""
    found: dict[str, set[str]] = {method: set() for method in Listing().fields}
    for rule in flask.current_app.url_map.iter_rules():
        # A path outside of the blueprints is that of another process.
        mounted = rule.endpoint.partition(".")[0] in flask.current_app.blueprints
        if mounted and rule.rule.startswith("/apis/v1/"):
            path = rule.rule.replace("<", ":").replace(">", "")
            for method in found.keys() & (rule.methods or ()):
                found[method].add(path)
    return {method: sorted(paths) for method, paths in found.items()}


class LogReader(Schema):
    """A process that follows the log."""

    reader = schemas.text("HOST/PROCESS/NUMBER.")
    offset = schemas.number("The offset that it reported last.")
    behind = schemas.number("Events between that and the last one: those of the last 5 seconds are usual.")
    at = schemas.text("When, by the store's clock (RFC 3339).")
    age = schemas.real("Seconds since then. A report is due every 5 seconds.")


class StoreShown(Schema):
    """The store."""

    head = schemas.number("The last offset of the log.")
    recorder = schemas.text("The recorder that wrote last; empty if none has.")
    recorded = schemas.text("When it last wrote (RFC 3339); empty if never.")
    recordedAge = schemas.real("Seconds since then; -1 if never.")
    problem = schemas.text("Why the store may lose what it acknowledged; empty without a finding.")
    readers = schemas.nested(LogReader, "The processes that follow the log, by name.", many=True)


@blueprints.get(routes, "/store", StoreShown, query=queries.Empty)
def store(_: pages.Query) -> pages.Body:
    """Who reads the log, who writes to it, and whether the store keeps it."""
    given = services.current()
    state = given.log.state()
    head = state.head

    def age(at_ms: int) -> float:
        return round(max(0, state.now_ms - at_ms) / 1000, 3)

    return {
        "head": head,
        "recorder": state.writer,
        "recorded": times.rfc3339(state.recorded_ms / 1000) if state.recorded_ms else "",
        "recordedAge": age(state.recorded_ms) if state.recorded_ms else -1.0,
        "problem": given.durability() or "",
        "readers": [
            {
                "reader": name,
                "offset": offset,
                "behind": max(0, head - offset),
                "at": times.rfc3339(at_ms / 1000),
                "age": age(at_ms),
            }
            for name, (offset, at_ms) in sorted(given.log.consumers().items())
        ],
    }
