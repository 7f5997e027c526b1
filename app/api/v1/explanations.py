"""Why a pod went where it went, or nowhere: the latest attempt, a former one, or any decision."""

from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import flask
from marshmallow import Schema, fields

from app.api import blueprints, errors, moments, pages, queries, schemas, services
from app.api.v1 import decisions
from app.store import records
from app.verbs import explaining, tabulating

routes = blueprints.create("explain", "/apis/v1", "Why a pod went where it went.")
_MIMETYPES = {"json": "application/json", "markdown": "text/markdown", "csv": "text/csv"}
_KEPT = 1000
"""Decisions about one pod that are looked for."""


class ExplainedDecision(Schema):
    """The decision that is explained."""

    id = schemas.text("Its id.")
    verb = schemas.text("The verb.")
    at = schemas.text("When it was answered (RFC 3339).")
    outcome = schemas.text("kept, refused, scored, bound or error.")
    error = schemas.text("What went wrong.")
    milliseconds = schemas.real("How long it took.")
    configuration = schemas.text("The configuration that decided it.")


class Group(Schema):
    """Nodes that something holds for."""

    detail = schemas.text("What holds.")
    nodes = schemas.number("How many nodes.")
    examples = schemas.texts("The first of them.")


class Note(Group):
    """Where scores come from."""

    plugin = schemas.text("The plugin.")


class Refusal(Schema):
    """The nodes that one plugin refuses."""

    plugin = schemas.text("The plugin.")
    reason = schemas.text("Its sentence.")
    nodes = schemas.number("How many nodes.")
    examples = schemas.texts("The first of them.")
    details = schemas.nested(Group, "What differs from node to node; as many as ``limit``.", many=True)
    moreDetails = schemas.number("Details that are not shown.")


class RawAndWeighted(Schema):
    """A score."""

    raw = schemas.number("As the plugin gave it.")
    weighted = schemas.number("Times the plugin's weight.")


class Score(Schema):
    """One node."""

    node = schemas.text("The node.")
    kept = schemas.truth("No plugin refused it.")
    plugin = schemas.text("The first plugin that refused it.")
    scores = fields.Dict(
        keys=fields.String(),
        values=fields.Nested(RawAndWeighted),
        required=True,
        metadata={"description": "Plugin -> score."},
    )
    total = schemas.number("The sum that prioritize answers.")


class Promise(Schema):
    """A placement that counts although the watch has not shown it yet."""

    pod = schemas.text("NAMESPACE/NAME.")
    node = schemas.text("The promised node.")
    at = schemas.text("When it was promised.")
    counts = schemas.texts("The counts that it adds one to.")


class Explanation(Schema):
    """Everything that can be said about one decision."""

    pod = schemas.nested(schemas.PodReference, "The pod.")
    source = schemas.text("decision, or computed: none is recorded, all nodes were tried for the question.")
    decision = schemas.nested(ExplainedDecision, "The decision, or null if computed.", null=True)
    attempt = schemas.anything("Which attempt this is, from 1, or null.")
    attempts = schemas.number("Scheduling attempts that were found.")
    attemptsComplete = schemas.truth(
        "False if there are older decisions than the 20,000 looked through, or than 1,000 of this pod."
    )
    position = schemas.text("The position that it was computed at.")
    summary = schemas.text("One sentence.")
    fits = schemas.truth("At least one node was kept.")
    difference = schemas.optional("Why this is not what was answered then; null if it is.")
    plugins = schemas.texts("The plugins that have anything to do with the pod.")
    candidates = schemas.number("Nodes offered.")
    kept = schemas.number("Nodes kept.")
    chosen = schemas.optional("The one node, for filter_onlyone and bind.")
    place = schemas.optional("Where the pod is or is promised to be at the moment shown; null if nowhere.")
    refusals = schemas.nested(Refusal, "Reasons with the number of nodes.", many=True)
    weights = schemas.counts("Plugin -> weight.")
    notes = schemas.nested(
        Note, "Where the scores come from; as many as ``limit`` of each plugin.", many=True
    )
    moreNotes = schemas.number("Notes that are not shown.")
    scores = schemas.nested(Score, "The nodes, best first.", many=True)
    more = schemas.number("Nodes that are not in scores.")
    change = schemas.texts("What would let the pod fit, the smallest change first.")
    inFlight = schemas.nested(Promise, "In-flight placements of the namespace, which counted.", many=True)
    moreInFlight = schemas.number("In-flight placements that are not shown.")
    nominated = schemas.texts("Nominated pods that were counted as placed.")


@blueprints.get(
    routes,
    "/pods/<namespace>/<name>/explain",
    Explanation,
    query=queries.Explain,
    also=("text/markdown", "text/csv"),
)
def explain(query: pages.Query, namespace: str, name: str) -> object:
    """Why the pod went where it went, or why it waits: reasons, scores, and what would change it."""
    form = query.get("format") or _preferred()
    shown = moments.take(query.get("at") or moments.NOW)
    attempts, complete = _attempts(f"{namespace}/{name}", shown)
    decision, attempt = _chosen(query, f"{namespace}/{name}", attempts)
    explanation = _explained(decision, namespace, name, shown)
    limit = int(query["limit"])
    if form == "json":
        return {
            **tabulating.structure(explanation, limit=limit),
            "attempt": attempt,
            "attempts": len(attempts),
            "attemptsComplete": complete,
        }
    render = tabulating.markdown if form == "markdown" else tabulating.spreadsheet
    return flask.Response(render(explanation, limit=limit), mimetype=_MIMETYPES[form])


def _preferred() -> str:
    """The form that the Accept header prefers; JSON for those who do not care."""
    accepted = flask.request.accept_mimetypes
    if not accepted:
        return "json"
    best = accepted.best_match([*_MIMETYPES.values(), "text/plain"])
    if best is None:
        raise errors.Problem(406, "NotAcceptable", f"there are {', '.join(_MIMETYPES.values())}")
    return next((form for form, kind in _MIMETYPES.items() if kind == best), "markdown")


class _Attempts(NamedTuple):
    """The attempts of a pod up to a moment (decisions of other verbs if there are none)."""

    ids: list[str]
    """Oldest first."""
    complete: bool
    """No older ones are left out."""


def _attempts(pod: str, shown: moments.Moment) -> _Attempts:
    scan = decisions.Scan(records.Wanted(pod=pod))
    found = iter(scan)
    past = [(one.id, one.verb) for one in islice(found, _KEPT) if moments.upto(one.position, shown.snapshot)]
    complete = next(found, None) is None and scan.unfinished is None
    attempts = [one for one in past if one[1] in explaining.ATTEMPTS] or past
    return _Attempts([identity for identity, _ in reversed(attempts)], complete)


def _chosen(query: pages.Query, pod: str, attempts: list[str]) -> tuple[records.Decision | None, int | None]:
    """The decision to explain and its number; None if none is recorded and none was asked for."""
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
) -> explaining.Explanation:
    given, snapshot = services.current(), shown.snapshot
    pod = snapshot.pod_named(namespace, name)
    if decision is not None:
        explanation = explaining.explain(decision, given.decisions, given.histories, given.registry)
        return replace(explanation, place=snapshot.node_of(decision.pod.uid))
    if pod is None:
        raise errors.missing("pod", f"{namespace}/{name}")
    return replace(explaining.presently(pod, snapshot, given.registry), place=snapshot.node_of(pod.uid))
