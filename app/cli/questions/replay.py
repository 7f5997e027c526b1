"""``topolog replay``: which recorded decisions would have been others, and a gate for changes of policies."""

import functools
import json
from collections import Counter
from collections.abc import Callable

import click

from app import exit_codes, plurals
from app.cli import exits
from app.cli.client import api_client, moment_option, option_names, outages
from app.cli.completion import items
from app.cli.get import selectors
from app.cli.output import formats, tables
from app.cli.questions import declared_overrides, differences, question_options
from app.domain import model

_SUMMED = ("classes", "skipped")


@click.command("replay", cls=declared_overrides.Question)
@click.option(
    "--from",
    "--since",
    "from_",
    type=moment_option.STRETCH,
    help="The first moment; 24h is a day ago.  [default: all decisions]",
)
@click.option("--to", type=moment_option.MOMENT, help="The last moment.  [default: now]")
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="Only pods of this namespace, which is also that of objects of a file that name none.",
)
@click.option(
    "-l",
    "--selector",
    type=selectors.Selector(),
    metavar="SELECTOR",
    help="Only pods with these labels: a=b,c!=d,e in (f,g),h,!i.",
)
@click.option("--verb", "verbs", multiple=True, metavar="VERB", help="Only decisions of this verb.")
@click.option(
    "--where", metavar="CONDITION", help="Only decisions for which this holds: outcome=refused,kept<3 ..."
)
@click.option("--chain", is_flag=True, help="Play the range once, with the effects of every placement.")
@click.option(
    "--choice",
    type=click.Choice(["recorded", "best"]),
    help="With --chain: the recorded node where it is allowed, or the best.  [default: recorded]",
)
@click.option("--budget", type=click.FloatRange(0.1, 20), default=5.0, show_default=True, help="Seconds.")
@click.option("--scores", is_flag=True, help="Compare the scores of prioritize, too.")
@click.option(
    "--fail-on",
    metavar="CLASS,...",
    help=f"Exit with 1 only for these: {', '.join(differences.CLASSES)}.  [default: any]",
)
@click.option("--situation", metavar="FILE", help="A situation as JSON or YAML (- for stdin), without `at`.")
@question_options.override_options
@question_options.save_option()
@click.option("--limit", type=click.IntRange(0, 1000), default=20, show_default=True, help="Rows.")
@api_client.server_options
@question_options.output_option
@click.pass_obj
def replay_command(
    config: str | None,
    /,
    from_: str | None,
    to: str | None,
    namespace: str | None,
    verbs: tuple[str, ...],
    selector: model.Selector | None,
    where: str | None,
    chain: bool,
    choice: str | None,
    budget: float,
    scores: bool,
    fail_on: str | None,
    limit: int,
    output: str,
    **options: question_options.Value,
) -> None:
    """Show which recorded decisions would have been others with other overrides or another configuration.

    Each decision is computed again on its own snapshot. refused: it fitted, and would not; admitted: the
    reverse; node: filter_onlyone would choose another; nodes: another set is kept; reason: the same nodes
    are refused for other reasons. With --chain the range is played once: each placement has its effect on
    the decisions behind it, and the answer has the pods that would be elsewhere and the counts. The whole
    range is played, whatever -n, -l, --verb and --where select: these decide which differences are counted.

    \b
    topolog replay --since 24h --set-policy new.yaml --fail-on refused

    Exit code 0 if nothing differs (in the classes of --fail-on), 1 if something does. Decisions that
    cannot be compared are counted as skipped. Exit code 2 if there is none to compare, or if an override
    applies to none, such as one of a policy that does not exist.
    """
    failing = _classes(fail_on)
    if choice and not chain:
        raise click.UsageError("--choice requires --chain")
    situation = question_options.situation(options, namespace)
    if "at" in situation:
        raise click.UsageError("a replay is of a range, not of the moment `at`: use --from and --to")
    question_options.save(options, situation)
    labelled = ",".join(_labelled(one) for one in selector.expressions) if selector is not None else ""
    condition = ",".join(filter(None, (where, labelled)))
    given = {"from": from_, "to": to, "namespace": namespace, "where": condition}
    question: question_options.Document = {
        **situation,
        "compare": "scores" if scores else "verdicts",
        "limit": limit,
        "budget": budget,
        **({"mode": "chain"} if chain else {}),
        **({"choice": choice} if choice else {}),
        **({"first": list(failing)} if fail_on else {}),
        **{name: value for name, value in given.items() if value},
        **({"verbs": list(verbs)} if verbs else {}),
    }
    reply = _whole(config, options, question, functools.partial(_show, output))
    if not reply["examined"]:
        raise exits.Failed(exit_codes.USAGE, _incomparable(reply))
    # An earlier version has no reasons.
    unapplied = (reply.get("unapplied") or {}) if reply["complete"] else {}
    if unapplied:
        why = option_names.spelled(next(iter(unapplied.values())))
        text = f"an override applies to no decision of the range; at the latest: {why}"
        raise exits.Failed(exit_codes.USAGE, text)
    if not reply["complete"] or any(reply["classes"][name] for name in failing):
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _labelled(one: model.Requirement) -> str:
    """A requirement on labels as a condition on decisions."""
    field = json.dumps(f"label.{one.key}")
    match one.operator:
        case "Exists":
            return field
        case "DoesNotExist":
            return f"!{field}"
        case operator:
            values = ",".join(json.dumps(value, ensure_ascii=False) for value in one.values)
            return f"{field} {operator.lower()} ({values})"


def _classes(text: str | None) -> tuple[str, ...]:
    names = differences.CLASSES if text is None else tuple(text.split(","))
    unknown = [name for name in names if name not in differences.CLASSES]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]} is not one of {', '.join(differences.CLASSES)}", param_hint="--fail-on"
        )
    return names


def _incomparable(reply: question_options.Document) -> str:
    skipped = ", ".join(f"{cause}: {number}" for cause, number in reply["skipped"].items() if number)
    cause = f"skipped are {skipped}" if skipped else "none is selected"
    return f"no decision of the range can be compared: {cause}"


def _show(output: str, reply: question_options.Document) -> None:
    question_options.show(output, reply, _table, lambda shown: [one["id"] for one in shown["items"]])
    if output == formats.NAME and (number := differences.more(reply)):
        click.echo(f"note: {plurals.counted(number, 'more decision')} (--limit)", err=True)


def _whole(
    config: str | None,
    options: dict[str, question_options.Value],
    question: question_options.Document,
    shown: Callable[[question_options.Document], None],
) -> question_options.Document:
    """Show the answer about the whole range: asks for the rest until it is complete.

    A failure that may pass is waited for. Any other one, and Ctrl-C, show what there is and end the command.
    """
    whole, outage = question_options.answer(config, options, "replay", question), outages.Outage()
    try:
        while whole["continue"]:
            rest = {**question, "to": whole["to"], "continue": whole["continue"]}
            so_far = f"{whole['examined']} decisions, waiting for more"
            try:
                found = question_options.part(config, options, "replay", rest, so_far)
            except exits.Failed as failed:
                outage.wait(failed)
                continue
            outage.over()
            whole = _sum(whole, found)
            ranks = list(dict.fromkeys((*question.get("first", ()), *differences.CLASSES)))
            whole["items"].sort(key=lambda one: ranks.index(one["class"]))
            del whole["items"][question["limit"] :]
    except KeyboardInterrupt:
        click.echo("interrupted: the answer is incomplete", err=True)
        shown(whole)
        raise
    except exits.Failed:
        click.echo("the answer is incomplete", err=True)
        shown(whole)
        raise
    shown(whole)
    return whole


def _sum(one: question_options.Document, other: question_options.Document) -> question_options.Document:
    total = {**other, "from": one["from"], "items": [*one["items"], *other["items"]]}
    for name in ("examined", "same", "spentMs"):
        total[name] = one[name] + other[name]
    for name in _SUMMED:
        total[name] = {key: number + other[name][key] for key, number in one[name].items()}
    # The parts may be answered by processes of different versions.
    total["by"] = {
        what: dict(sorted((Counter(one["by"].get(what)) + Counter(other["by"].get(what))).items()))
        for what in one["by"] | other["by"]
    }
    total["limits"] = list(dict.fromkeys([*one["limits"], *other["limits"]]))
    if one["idle"] is None or other["idle"] is None:  # No decision of that part was compared.
        compared = one if other["idle"] is None else other
        return total | {name: compared.get(name) for name in ("idle", "unapplied")}
    total["idle"] = sorted(set(one["idle"]) & set(other["idle"]))
    of_both = one.get("unapplied", {}).keys() & other.get("unapplied", {}).keys()
    total["unapplied"] = {at: other["unapplied"][at] for at in sorted(of_both)}
    return total


def _table(reply: question_options.Document) -> None:
    differences.show_numbers(reply)
    differences.show_items(reply)
    if reply["chain"] is not None:
        _chain(reply["chain"])
    question_options.show_limits(reply)


_PLACEMENTS = (
    ("same", "on the same node"),
    ("elsewhere", "on another node"),
    ("onlyThen", "placed then, and would not have been"),
    ("onlyNow", "not placed then, and would have been"),
)


def _chain(chain: question_options.Document) -> None:
    click.echo()
    for name, text in _PLACEMENTS:
        number = chain["placements"][name]
        click.echo(f"{plurals.counted(number, 'pod')} {text}")
    differing = [one for one in chain["counts"] if one["was"] != one["would"]]
    if differing:
        click.echo()
        rows = [
            (one["count"], one["was"], one["would"], one["peakWould"], one["desired"]) for one in differing
        ]
        tables.show(["COUNT", "WAS", "WOULD", "PEAK", "QUOTA"], rows)
    for one in chain["overruns"]:
        click.echo(f"quota exceeded: {one['count']} {one['value']} of {one['desired']} at {one['offset']}")
