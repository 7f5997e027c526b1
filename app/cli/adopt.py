"""``topolog adopt``: lets the current recorders write again after a restore of etcd.

A restore sets back resourceVersions, and with them the epochs that recorders take from their Lease. The
store, which has recorded later epochs, refuses them. Only an operator can confirm that etcd was restored.
"""

import getpass
import os
import socket
import typing

import click

from app import exit_codes, plugins, settings
from app.cli import exits
from app.cli.output import formats, tables

if typing.TYPE_CHECKING:
    from app.store.log import incarnations, logs

_ALIVE_SECONDS = 30
"""A recorder writes at least its checkpoints every 10 seconds."""


@click.command("adopt")
@click.option("--yes", is_flag=True, help="Apply the change; otherwise only show it.")
@click.option("--force", is_flag=True, help="Apply it even if a recorder appears to be active.")
@click.option(
    "--by",
    metavar="NAME",
    default="",
    help="Name of the operator, recorded in the log.  [default: USER@HOST]",
)
@formats.option()
@click.pass_obj
def adopt_command(config: str | None, yes: bool, force: bool, by: str, output: str) -> None:
    """Start a new generation of epochs after etcd was restored from a backup.

    A recorder whose Lease has a lower version than the store's epoch cannot distinguish a takeover by
    another recorder from a restore of etcd. If etcd was restored, run this command: every epoch of the new
    generation is later than all previous ones, so the recorder that holds the Lease can write again, and
    no recorder from before the restore can. The log records who ran it.

    A cluster that was built a second time is another cluster, and cannot continue the log: give it another
    name (setting cluster), or a store of its own.

    Exit code 1 if nothing was changed: without --yes, or because a recorder wrote within the last 30
    seconds (then adopting is not necessary).
    """
    from app.store import errors, keys
    from app.store.log import incarnations, lineages, logs
    from app.store.server import connections

    loaded = settings.load(config, os.environ)
    if not loaded.store.url:
        raise exits.Failed(exit_codes.SETTINGS, "store.url is not set: adopt needs the store of the cluster")
    names = keys.Keys(loaded.cluster, plugins.catalog().schema.forms)
    try:
        client = connections.connect(loaded.store.url, timeout=loaded.store.socket_timeout, names=names)
        with connections.translated():
            incarnation = connections.text(client.hget(names.meta, "incarnation") or b"")
        lineages.prove(client, names, incarnation)
        log = logs.Log(client, names, incarnation, timeout=loaded.store.socket_timeout)
        state = log.state()
        if not state.incarnation:
            raise exits.Failed(exit_codes.STORE, f"the store holds no log of cluster {loaded.cluster}")
        later = incarnations.next_era(state.epoch)
        why = _refusal(state, yes=yes, force=force)
        if not why:
            _adopt(log, state.epoch, later, by or _operator())
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error
    _report(output, {"cluster": loaded.cluster, "from": state.epoch, "to": later, "adopted": not why})
    if why:
        raise exits.Failed(exit_codes.NEGATIVE, why)


def _operator() -> str:
    """USER@HOST, with the number of a user that has no name, as in the image."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _refusal(state: "incarnations.StoreState", *, yes: bool, force: bool) -> str:
    """Why nothing is changed; empty if the change may be applied."""
    silent = (state.now_ms - state.recorded_ms) / 1000
    if state.recorded_ms and silent < _ALIVE_SECONDS and not force:
        return (
            f"recorder {state.writer} wrote {silent:.0f} s ago: a new generation of epochs is not needed"
            " and would force it to renew its leadership; use --force to adopt anyway"
        )
    return "" if yes else "nothing was changed; use --yes to apply"


def _adopt(log: "logs.Log", former: str, later: str, by: str) -> None:
    """Begin a generation of epochs in which every kind is listed.

    A watch that resumed at a version from before the restore would be silent until etcd has reached it again:
    the API server takes the changes until then for old ones, and refuses only versions that are too old.
    """
    from app.domain import events
    from app.store.log import batches

    adopted = events.EpochAdopted(by=by, from_epoch=former, to_epoch=later)
    # The form stays: the objects are not recorded in another one.
    marks = {name: f"{mark.partition(':')[0]}:" for name, mark in log.resume_versions().items()}
    log.append(batches.Batch(events=(adopted,), marks=marks), batches.Guard(epoch=later, writer=by))


def _report(output: str, result: dict[str, object]) -> None:
    if formats.is_document(output):
        formats.show_document(result, output)
    else:
        tables.show(["CLUSTER", "EPOCH", "NEXT EPOCH", "ADOPTED"], [tuple(result.values())])
