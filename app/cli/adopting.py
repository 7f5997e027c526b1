"""``topolog adopt``: after a restore of etcd, let the recorders of today write again.

resourceVersions go back with the restore, and so do the epochs that recorders take from their Lease:
the store, which has seen later ones, refuses them. Only a person knows that this is what happened.
"""

import getpass
import os
import socket
import typing

import click

from app import settings
from app.cli import exits, tables

if typing.TYPE_CHECKING:
    from app.store import incarnations, logs

_ALIVE_SECONDS = 30
"""A recorder writes at least its checkpoints every 10 seconds."""


@click.command("adopt", short_help="After a restore of etcd, let recorders write again.")
@click.option("--yes", is_flag=True, help="Do it; without, only say what would be done.")
@click.option("--force", is_flag=True, help="Do it although a recorder seems to be at work.")
@click.option("--by", metavar="NAME", default="", help="Who does it, for the log.  [default: USER@HOST]")
@tables.output_option
@click.pass_obj
def adopt_command(config: str | None, yes: bool, force: bool, by: str, output: str) -> None:
    """Open a new era of epochs, after etcd was restored from a backup.

    A recorder that reports that its Lease is of a lower version than the store's epoch cannot know
    whether it was overtaken or whether the versions went back. If etcd was restored, run this: every
    epoch of the new era is later than every one before, so the recorder that holds the Lease now
    writes again, and none from before the restore ever does. The log records who did it.

    Exit code 1 if nothing was done: without --yes, or because a recorder wrote within the last 30
    seconds (then nothing needs to be adopted).
    """
    from app.store import connecting, errors, incarnations, keys, lineages, logs

    chosen = settings.load(config, os.environ)
    if not chosen.store.url:
        raise exits.Failed(exits.SETTINGS, "store.url is not set: there is no store to adopt")
    names = keys.Keys(chosen.cluster)
    try:
        client = connecting.connect(chosen.store.url, timeout=chosen.store.socket_timeout, names=names)
        with connecting.translated():
            incarnation = connecting.text(client.hget(names.meta, "incarnation") or b"")
        lineages.prove(client, names, incarnation)
        log = logs.Log(client, names, incarnation, timeout=chosen.store.socket_timeout)
        found = log.standing()
        if not found.incarnation:
            raise exits.Failed(exits.STORE, f"the store holds no log of cluster {chosen.cluster}")
        later = incarnations.next_era(found.epoch)
        why = _refused(found, yes=yes, force=force)
        if not why:
            _adopt(log, found.epoch, later, by or f"{getpass.getuser()}@{socket.gethostname()}")
    except errors.StoreError as error:
        raise exits.Failed(exits.STORE, str(error)) from error
    _report(output, {"cluster": chosen.cluster, "from": found.epoch, "to": later, "adopted": not why})
    if why:
        raise exits.Failed(exits.NOT_SO, why)


def _refused(found: "incarnations.Standing", *, yes: bool, force: bool) -> str:
    """Why nothing is done; empty if it is to be."""
    silent = (found.now_ms - found.recorded_ms) / 1000
    if found.recorded_ms and silent < _ALIVE_SECONDS and not force:
        return (
            f"recorder {found.writer} wrote {silent:.0f} s ago: it needs no new era, and would have to take"
            " its post anew; --force does it all the same"
        )
    return "" if yes else "nothing was changed; --yes does it"


def _adopt(log: "logs.Log", former: str, later: str, by: str) -> None:
    from app.domain import events
    from app.store import logs

    adopted = events.EpochAdopted(by=by, from_epoch=former, to_epoch=later)
    log.append(logs.Batch(events=(adopted,)), logs.Guard(epoch=later, writer=by))


def _report(output: str, told: dict[str, object]) -> None:
    if output == tables.JSON:
        tables.show_json(told)
    else:
        tables.show(["CLUSTER", "EPOCH", "NEXT ERA", "ADOPTED"], [tuple(told.values())])
