"""``topolog record``, ``control``, ``compact``, ``audit`` and ``extender``: the processes of a cluster.

Recorder and controller run in a Python of their own in place of this one: workers carry no web code,
and this package carries no workers. The extender is served by this process. Settings are checked
first, so that a mistake is told before anything runs.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import click

from app import settings, telemetry
from app.cli import exits

RECORDER: Sequence[str] = ("-m", "workers", "record")
CONTROLLER: Sequence[str] = ("-m", "workers", "control")
COMPACTOR: Sequence[str] = ("-m", "workers", "compact")
AUDITOR: Sequence[str] = ("-m", "workers", "audit")
EXTENDER: Sequence[str] = ("-m", "app.cli", "extender")


@click.command("record", short_help="Record what happens in the cluster.")
@click.pass_obj
def record_command(config: str | None) -> None:
    """Record what happens in the cluster: watch it and append every fact to the log.

    Run two or more for one cluster: one records and the others stand by, as a Lease decides. Needs
    store.url and a way to the API server.
    """
    become(RECORDER, config)


@click.command("control", short_help="Wake pending pods when there is room.")
@click.pass_obj
def control_command(config: str | None) -> None:
    """Wake pending pods when there is room for them that kube-scheduler has no event for.

    Run two or more for one cluster: one works and the others stand by, as a Lease decides. Needs
    store.url and a way to the API server.
    """
    become(CONTROLLER, config)


@click.command("compact", short_help="Keep the log short and the past within reach.")
@click.pass_obj
def compact_command(config: str | None) -> None:
    """Keep the log short and the past within reach: make checkpoints, archive the log, trim it.

    One per cluster. Needs store.url; compaction.* says how much is kept, and where the archive is.
    """
    become(COMPACTOR, config)


@click.command("audit", short_help="See that counts, log and API server agree.")
@click.pass_obj
def audit_command(config: str | None) -> None:
    """See that counts, log and API server agree: compare them all the time, tell what differs, repair it.

    One per cluster. Needs store.url and a way to the API server; audit.* says how often, and whether it
    repairs. `topolog get consistency` shows what it has found.
    """
    become(AUDITOR, config)


@click.command("extender", short_help="Answer kube-scheduler and the REST API.")
@click.option("--debug-scores", type=click.IntRange(0), metavar="N", help="Log the best N nodes of each pod.")
@click.option("--debug-filters", is_flag=True, help="Log why each node was refused.")
@click.pass_obj
def extender_command(config: str | None, debug_scores: int | None, debug_filters: bool) -> None:
    """Answer kube-scheduler's calls and the introspection API.

    As many as you like, over one store. Needs store.url, tls.* and a way to the API server.
    """
    changes = {"TOPOLOG_DEBUG_SCORES": str(debug_scores)} if debug_scores is not None else {}
    if debug_filters:
        changes["TOPOLOG_DEBUG_FILTERS"] = "true"
    serve(told(environment(config, changes)))


def serve(chosen: settings.Settings) -> NoReturn:
    """Be the extender until a signal ends it; what keeps it from starting is one sentence and a code."""
    # Flask, Redis and the Kubernetes client load only where they are used.
    from app import bootstrap
    from app.kube import errors as kube_errors
    from app.serving import errors as serving_errors
    from app.store import errors as store_errors

    telemetry.configure(level=chosen.logging.level, form=chosen.logging.format, process="extender")
    try:
        bootstrap.serve(chosen)
    except serving_errors.PortTaken as error:
        raise exits.Failed(exits.TAKEN, str(error)) from error
    except serving_errors.ServingError as error:
        raise exits.Failed(exits.SETTINGS, str(error)) from error
    except store_errors.StoreError as error:
        raise exits.Failed(exits.STORE, str(error)) from error
    except kube_errors.KubeError as error:
        raise exits.Failed(exits.AWAY, str(error)) from error


def become(
    arguments: Sequence[str], config: str | None, changes: Mapping[str, str] | None = None
) -> NoReturn:
    """Replace this process by a Python that reads the same settings, with some changed."""
    environ = environment(config, changes or {})
    told(environ)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environ)


def told(environ: Mapping[str, str]) -> settings.Settings:
    """The settings of a process that shares its store with others; raises if it is told of no store."""
    chosen = settings.load(None, environ)
    if not chosen.store.url:
        raise exits.Failed(
            exits.SETTINGS,
            "store.url is not set: name the Redis or Valkey server that the processes share"
            " (TOPOLOG_STORE_URL), or run `topolog up`, which starts one",
        )
    return chosen


def environment(config: str | None, changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to read the same settings as this one, with some changed."""
    named = {settings.FILE_VARIABLE: config} if config else {}
    return {**os.environ, **named, **changes}
