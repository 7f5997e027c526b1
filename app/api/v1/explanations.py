"""Explains where a pod was placed, or why it waits: the latest attempt, an earlier one, or any decision."""

from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import flask
from marshmallow import Schema, fields

from app.api import errors
from app.api.introspection import blueprints, heavy, moments, pages, queries, schemas, services
from app.api.v1 import decisions
from app.store.decisions import records
from app.verbs.explain import explanations, tables

routes = blueprints.create("explain", "/apis/v1", "Why a pod was placed on its node, or waits.")
_MIMETYPES = {"json": "application/json", "markdown": "text/markdown", "csv": "text/csv"}
_KEPT = 1000
"""Decisions about one pod, up to the moment, that are considered."""


class ExplainedDecision(Schema):
    """The explained decision."""

    id = schemas.text("Its id.")
    verb = schemas.text("The verb.")
    at = schemas.text("When it was answered (RFC 3339).")
    outcome = schemas.text("kept, refused, scored, bound or error.")
    error = schemas.text("The error; empty without one.")
    milliseconds = schemas.real("Duration in milliseconds.")
    configuration = schemas.text("The digest of the configuration that decided it.")


class Group(Schema):
    """Nodes that share a detail."""

    detail = schemas.text("The detail.")
    nodes = schemas.number("Number of nodes.")
    examples = schemas.texts("The first of them by name.")


class Note(Group):
    """The source of a score."""

    plugin = schemas.text("The plugin.")


class Refusal(Schema):
    """The nodes that one plugin refused."""

    plugin = schemas.text("The plugin.")
    reason = schemas.text("Its reason.")
    nodes = schemas.number("Number of nodes.")
    examples = schemas.texts("The first of them by name.")
    details = schemas.nested(Group, "Details that differ from node to node; at most ``limit``.", many=True)
    moreDetails = schemas.number("Details that are not shown.")


class Remark(Schema):
    """A sentence of a plugin that helps to understand the decision."""

    plugin = schemas.text("The plugin.")
    text = schemas.text("The sentence.")


class Transformation(Schema):
    """What a transformer changed before the other plugins were asked."""

    plugin = schemas.text("The plugin.")
    phase = schemas.text("filter, node or score.")
    changed = schemas.texts("Such as ``pod.requests.cpu``, ``candidates -12`` and ``view of n3``.")


class RawAndWeighted(Schema):
    """A score."""

    raw = schemas.number("The plugin's score.")
    weighted = schemas.number("The score times the plugin's weight.")


class Score(Schema):
    """One node."""

    node = schemas.text("The node.")
    kept = schemas.truth("Whether no plugin refused it.")
    plugin = schemas.text("The first plugin that refused it.")
    scores = fields.Dict(
        keys=fields.String(),
        values=fields.Nested(RawAndWeighted),
        required=True,
        metadata={"description": "Plugin -> score."},
    )
    total = schemas.number("The sum that prioritize returns.")


class InFlightPlacement(Schema):
    """A placement that counts although the watch has not confirmed it yet."""

    pod = schemas.text("NAMESPACE/NAME.")
    node = schemas.text("The node.")
    at = schemas.text("When it was placed (RFC 3339).")
    counts = schemas.texts("The counts that it increments.")


class Explained(Schema):
    """Reasons, scores and advice."""

    pod = schemas.nested(schemas.PodReference, "The pod.")
    source = schemas.text("decision, or computed if no decision is recorded: all nodes were evaluated now.")
    decision = schemas.nested(ExplainedDecision, "The decision, or null if computed.", null=True)
    position = schemas.text("The log position that it was computed at.")
    summary = schemas.text("One sentence.")
    fits = schemas.truth("Whether at least one node was kept.")
    difference = schemas.optional("Why this differs from the recorded answer; null if it does not.")
    plugins = schemas.texts("The plugins that the pod concerns.")
    transformed = schemas.nested(Transformation, "Changes by transformers, in their order.", many=True)
    candidates = schemas.number("Nodes offered.")
    kept = schemas.number("Nodes kept.")
    chosen = schemas.optional("The one node, for filter_onlyone and bind.")
    place = schemas.optional("The node that the pod is bound to or placed on at the moment shown, or null.")
    refusals = schemas.nested(Refusal, "Refusals, by reason.", many=True)
    weights = schemas.counts("Plugin -> weight.")
    notes = schemas.nested(Note, "The sources of the scores; at most ``limit`` of each plugin.", many=True)
    moreNotes = schemas.number("Notes that are not shown.")
    scores = schemas.nested(
        Score,
        "The nodes, best first; after the first ``limit`` the node that was chosen, or that the pod is on.",
        many=True,
    )
    more = schemas.number("Nodes that are not in scores.")
    change = schemas.texts("Changes that would let the pod fit, the smallest first.")
    inFlight = schemas.nested(
        InFlightPlacement, "In-flight placements of the namespace, which were counted.", many=True
    )
    moreInFlight = schemas.number("In-flight placements that are not shown.")
    nominated = schemas.texts("Nominated pods that were counted as placed.")
    remarks = schemas.nested(Remark, "What the plugins add about the state of that moment.", many=True)


class Explanation(Explained):
    """One decision with its reasons, scores and advice."""

    attempt = schemas.anything("The number of this attempt, from 1, or null.")
    attempts = schemas.number("Scheduling attempts that were found.")
    attemptsComplete = schemas.truth(
        "False if there are older decisions than the 20,000 scanned, or than 1,000 of this pod, or if there"
        " may be some before the start of a bundle."
    )


@blueprints.get(
    routes,
    "/pods/<namespace>/<name>/explain",
    Explanation,
    query=queries.Explain,
    also=("text/markdown", "text/csv"),
)
def explain(query: pages.Query, namespace: str, name: str) -> object:
    """Why the pod was placed on its node, or why it waits: reasons, scores, and changes that would help."""
    form = query.get("format") or _preferred()
    shown = moments.take(query.get("at") or moments.NOW)
    attempts, complete = _attempts(f"{namespace}/{name}", shown)
    decision, attempt = _chosen(query, f"{namespace}/{name}", attempts)
    explanation = _explained(decision, namespace, name, shown)
    limit = int(query["limit"])
    if form == "json":
        return {
            **tables.structure(explanation, limit=limit),
            "attempt": attempt,
            "attempts": len(attempts),
            "attemptsComplete": complete,
        }
    render = tables.markdown if form == "markdown" else tables.spreadsheet
    return flask.Response(render(explanation, limit=limit), mimetype=_MIMETYPES[form])


def _preferred() -> str:
    """The format that the Accept header prefers; JSON without a preference."""
    accepted = flask.request.accept_mimetypes
    if not accepted:
        return "json"
    best = accepted.best_match([*_MIMETYPES.values(), "text/plain"])
    if best is None:
        raise errors.Problem(406, "NotAcceptable", f"supported formats: {', '.join(_MIMETYPES.values())}")
    return next((form for form, kind in _MIMETYPES.items() if kind == best), "markdown")


class _Attempts(NamedTuple):
    """The attempts of a pod up to a moment (decisions of other verbs if there are none)."""

    ids: list[str]
    """Oldest first."""
    complete: bool
    """Whether there are no older ones."""


def _attempts(pod: str, shown: moments.Moment) -> _Attempts:
    scan = decisions.Scan(records.DecisionQuery(pod=pod), shown.position)
    found = iter(scan)
    past = [(one.id, one.verb) for one in islice(found, _KEPT)]
    bundle = services.current().bundle
    whole = bundle is None or bundle.first == 0
    complete = whole and next(found, None) is None and scan.unfinished is None
    attempts = [one for one in past if one[1] in explanations.ATTEMPTS] or past
    return _Attempts([identity for identity, _ in reversed(attempts)], complete)


def _chosen(query: pages.Query, pod: str, attempts: list[str]) -> tuple[records.Decision | None, int | None]:
    """The decision to explain and its number; None if no decision is recorded and none was requested."""
    if "decision" in query:
        decision = decisions.find(query["decision"])
        if decision.pod.key != pod:
            raise errors.Problem(404, "NotFound", f"decision {decision.id} is about pod {decision.pod.key}")
        return decision, next((at for at, one in enumerate(attempts, 1) if one == decision.id), None)
    number = int(query.get("attempt", len(attempts)))
    if number > len(attempts):
        raise errors.Problem(
            404, "NotFound", f"cannot find attempt {number} of pod {pod}; {len(attempts)} were found"
        )
    return (decisions.find(attempts[number - 1]), number) if attempts else (None, None)


def _explained(
    decision: records.Decision | None, namespace: str, name: str, shown: moments.Moment
) -> explanations.Explanation:
    given, snapshot = services.current(), shown.snapshot
    pod = snapshot.pod_named(namespace, name)
    if decision is not None:
        explanation = explanations.explain(
            decision, given.decisions, given.histories, given.configurations, attended=heavy.attended()
        )
        return replace(explanation, place=snapshot.node_of(decision.pod.uid))
    if pod is None:
        raise errors.missing("pod", f"{namespace}/{name}")
    return replace(explanations.presently(pod, snapshot, given.registry), place=snapshot.node_of(pod.uid))
