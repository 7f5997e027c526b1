"""``topolog explain``: why a pod was placed on its node, or is pending."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from app import plurals
from app.cli.client import api_client, moment_option
from app.cli.completion import items
from app.cli.output import formats, markdown_text, tables

_EXAMPLES = 3
"""Names of nodes that are alike."""
_NODES = 1000
"""Nodes that are requested for a table, which groups them."""
_HEADERS = ("NODE", "DOES NOT FIT BECAUSE", "VICTIMS", "VIOLATIONS", "NO CANDIDATE BECAUSE")


@click.command("explain")
@click.argument("pod", type=items.POD, metavar="[NAMESPACE/]POD")
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="The namespace of a POD that is named without one.",
)
@click.option(
    "--attempt",
    type=click.IntRange(1),
    metavar="N",
    help="The Nth scheduling attempt.  [default: the latest]",
)
@click.option(
    "--decision", metavar="ID", help="The decision with this id, as `topolog get decisions` lists it."
)
@click.option(
    "--at",
    type=moment_option.MOMENT,
    help="Explain with the state at this position instead of the current one.",
)
@click.option(
    "--preemption",
    is_flag=True,
    help="Show which pods kube-scheduler would evict for the pod, and where, instead of an attempt.",
)
@api_client.server_options
@formats.option()
@click.pass_obj
def explain_command(
    config: str | None,
    /,
    pod: str,
    namespace: str | None,
    attempt: int | None,
    decision: str | None,
    at: str | None,
    preemption: bool,
    output: str,
    **options: str | None,
) -> None:
    """Explain why a pod was placed on its node, or why it is pending.

    Shows which plugin refused which nodes and why, the scores of the other nodes, and which changes
    would let the pod fit. The explanation is recomputed from the log at the position of the decision and
    equals the extender's reply. It is Markdown, which a terminal shows as tables. Exit code 1 if the pod
    does not exist.

    With --preemption, a dry run: nothing is evicted.
    """
    if namespace and "/" not in pod:
        pod = f"{namespace}/{pod}"
    if pod.count("/") != 1:
        raise click.BadParameter("must be NAMESPACE/POD, or POD with -n", param_hint="POD")
    if attempt is not None and decision is not None:
        raise click.UsageError("--attempt and --decision exclude each other")
    if preemption and (attempt is not None or decision is not None):
        raise click.UsageError("--preemption concerns a state, not an attempt: use it with --at")
    extender = api_client.extender(config, options)
    if preemption:
        _preemption(extender, pod, at, output)
        return
    form = "json" if formats.is_document(output) else "markdown"
    query = {"attempt": attempt, "decision": decision, "at": at or None, "format": form}
    accept = "application/json" if formats.is_document(output) else "text/markdown, application/json"
    reply = extender.get(f"/apis/v1/pods/{pod}/explain", query, accept=accept)
    if isinstance(reply, str):
        markdown_text.show(reply.rstrip())
    else:
        formats.show_document(reply, output)


def _preemption(extender: api_client.ExtenderClient, pod: str, at: str | None, output: str) -> None:
    most = None if formats.is_document(output) else _NODES
    result = extender.get(f"/apis/v1/pods/{pod}/preemption", {"at": at or None, "limit": most})
    if formats.is_document(output) or isinstance(result, str):
        formats.show_document(result, output)
    else:
        show_dry_run(result)


def show_dry_run(result: Mapping[str, Any]) -> None:
    """Write the conclusion, the nodes, and what was not modelled.

    Nodes without victims are grouped by their reasons; of a pod that may not preempt none is shown.
    """
    click.echo(conclusion(result))
    if not result["eligible"]["is"]:
        return
    if result["nodes"]:
        click.echo()
        tables.show(_HEADERS, _rows(result["nodes"]))
    if result["more"]:
        click.echo(f"({result['more']} more nodes)")
    if not result["complete"]:
        verb = "was" if result["unjudged"] == 1 else "were"
        unjudged = plurals.counted(result["unjudged"], "node")
        click.echo(f"({unjudged} {verb} not judged: the budget was spent)")
    if result["notModelled"]:
        click.echo(f"\nNot modelled: {', '.join(result['notModelled'])}.")


def conclusion(result: Mapping[str, Any]) -> str:
    """One sentence: what kube-scheduler would do for the pod."""
    pod = f"{result['pod']['namespace']}/{result['pod']['name']} (priority {result['priority']})"
    if not result["eligible"]["is"]:
        return f"{pod} evicts no pod: {result['eligible']['reason'].removesuffix('.')}."
    if not result["needed"]:
        return f"{pod} needs no eviction: {plurals.counted(result['fits'], 'node')} admit it as they are."
    if result["chosen"] is None:
        where = "any node" if result["complete"] else "any node that was judged"
        return f"{pod} evicts no pod: no eviction on {where} would make it fit."
    chosen = next(node for node in result["nodes"] if node["node"] == result["chosen"])
    number = plurals.counted(len(chosen["victims"]), "pod")
    return f"{pod} would evict {number} from node {chosen['node']}. Decided by: {result['decidedBy']}."


def _rows(nodes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    """A row for each node with victims, and then one for all that are refused alike."""
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for node in nodes:
        if node["victims"]:
            victims = [_victim(victim) for victim in node["victims"]]
            yield node["node"], node["reasons"], victims, node["violations"], node["dropped"]
        else:
            alike.setdefault((tuple(node["reasons"]), node["dropped"]), []).append(node["node"])
    for (reasons, dropped), names in alike.items():
        yield _spelled(names), reasons, "", "", dropped


def _spelled(names: Sequence[str]) -> str:
    """The first names, and the number of all if there are more."""
    first = ", ".join(names[:_EXAMPLES])
    return first if len(names) <= _EXAMPLES else f"{len(names)} nodes: {first}, ..."


def _victim(victim: Mapping[str, Any]) -> str:
    marks = [str(victim["priority"])]
    marks += ["violates a budget"] if victim["violating"] else []
    marks += ["co-dependent"] if victim["coDependent"] else []
    return f"{victim['namespace']}/{victim['name']} ({', '.join(marks)})"
