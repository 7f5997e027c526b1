"""Runs the checks of certificates on what could be loaded of both sides."""

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from app.doctor import api_reader
from app.doctor.tls import catalog, checks, sources
from app.framework import doctor_checks
from app.serving.tls import certificate_checks
from app.telemetry import metrics

_VIEW: Final = "topolog-view"
Loaded = checks.Side | api_reader.Unseen


def of_sides(
    extender: Loaded,
    scheduler: Loaded,
    *,
    now: datetime.datetime,
    names: Mapping[str, Collection[str]],
) -> Iterator[doctor_checks.Result]:
    """T01, T02, T03, and T05 of files; ``names``: identities.* of the settings."""
    hosts = certificate_checks.hosts(extender.chain[0]) if isinstance(extender, checks.Side) else ()
    chains = [side.chain for side in (extender, scheduler) if isinstance(side, checks.Side)]
    for name, side in (("extender", extender), ("kube-scheduler", scheduler)):
        if isinstance(side, sources.Broken):
            yield catalog.FIT.problem(name, side.reason, why="no process can use it", fix=side.fix)
        elif isinstance(side, api_reader.Unseen):
            for check in (catalog.TIME, catalog.FIT, catalog.SECRECY):
                yield check.unsure(name, side.reason, fix=side.fix)
        else:
            yield from checks.times(side, now, chains, hosts)
            own = side.name == "extender"
            yield checks.server(side, now) if own else checks.client(side, names, hosts)
            if side.secret is None:
                yield checks.secrecy(side)
    if isinstance(extender, checks.Side) and isinstance(scheduler, checks.Side):
        yield checks.trusted(scheduler, extender)
        yield checks.trusted(extender, scheduler)
    else:
        missing = extender if isinstance(extender, api_reader.Unseen) else scheduler
        if isinstance(missing, api_reader.Unseen):
            yield catalog.CHAIN.unsure("both sides", missing.reason, fix=missing.fix)


def of_cluster(
    reader: api_reader.ApiReader,
    namespace: str,
    *,
    now: datetime.datetime,
    names: Mapping[str, Collection[str]],
) -> Iterator[doctor_checks.Result]:
    """The same of the Secrets of a cluster, T04, T05, and the certificate of a bundled store."""
    extender = api_reader.seen(lambda: sources.of_secret(reader, namespace, "extender"))
    scheduler = api_reader.seen(lambda: sources.of_secret(reader, namespace, "kube-scheduler"))
    yield from of_sides(extender, scheduler, now=now, names=names)
    for side in (extender, scheduler):
        if isinstance(side, checks.Side):
            yield _of_volumes(reader, namespace, side)
    if isinstance(extender, checks.Side):
        yield from _of_view(reader, namespace, extender)
    yield from _of_store(reader, namespace, now)
    yield from _of_schedulers(reader, namespace, scheduler)


def _of_volumes(reader: api_reader.ApiReader, namespace: str, side: checks.Side) -> doctor_checks.Result:
    """T05 for a Secret, by the volumes of the pods that mount it."""
    modes = api_reader.seen(lambda: sources.modes(reader, namespace, side.name))
    if isinstance(modes, api_reader.Unseen):
        return catalog.SECRECY.unsure(side.subject, modes.reason, fix=modes.fix)
    return checks.mounted(side, modes)


def _of_schedulers(
    reader: api_reader.ApiReader, namespace: str, scheduler: Loaded
) -> Iterator[doctor_checks.Result]:
    """T04 for each kube-scheduler that mounts its Secret; if none does, for those of the cluster."""
    if isinstance(scheduler, api_reader.Unseen):
        yield catalog.LOADED.unsure("kube-scheduler", scheduler.reason, fix=scheduler.fix)
        return
    started = api_reader.seen(lambda: sources.starts(reader, namespace))
    if isinstance(started, api_reader.Unseen):
        yield catalog.LOADED.unsure("kube-scheduler", started.reason, fix=started.fix)
    elif started:
        yield from checks.loaded(scheduler, started)
    else:
        # All pods of the cluster are read only here.
        elsewhere = api_reader.seen(lambda: sources.elsewhere(reader))
        if isinstance(elsewhere, api_reader.Unseen):
            yield catalog.LOADED.unsure("kube-scheduler", elsewhere.reason, fix=elsewhere.fix)
        else:
            yield from checks.not_seen(scheduler, elsewhere)


def _of_store(
    reader: api_reader.ApiReader, namespace: str, now: datetime.datetime
) -> Iterator[doctor_checks.Result]:
    """T01 and T02 for the bundled store; none where it has no TLS."""
    store = api_reader.seen(lambda: sources.of_secret(reader, namespace, "store"))
    if isinstance(store, checks.Side):
        yield from checks.times(store, now, [store.chain])
        yield checks.server(store, now)
    elif isinstance(store, sources.Broken):
        yield catalog.FIT.problem("store", store.reason, why="no process can use it", fix=store.fix)
    elif not isinstance(store, api_reader.Missing):
        yield catalog.TIME.unsure("store", store.reason, fix=store.fix)


def _of_view(
    reader: api_reader.ApiReader, namespace: str, extender: checks.Side
) -> Iterator[doctor_checks.Result]:
    """T02 for the Service of ``topolog view``, which shows the extender's certificate; none without it."""
    service = api_reader.seen(lambda: reader.get(f"/api/v1/namespaces/{namespace}/services/{_VIEW}"))
    if isinstance(service, api_reader.Missing):
        return
    if isinstance(service, api_reader.Unseen):
        yield catalog.FIT.unsure(metrics.VIEW, service.reason, fix=service.fix)
    else:
        yield checks.named(extender, metrics.VIEW, f"{_VIEW}.{namespace}.svc")


def forward(namespace: str) -> str:
    """The commands by which a workstation reaches an extender of a cluster."""
    return (
        f"kubectl -n {namespace} port-forward service/topolog-extender 8443:443, and --server-name"
        f" topolog-extender.{namespace}.svc"
    )


def handshake(
    extender: str, ask: Callable[[], object], reachable: Callable[[], bool], namespace: str
) -> doctor_checks.Result:
    """T06. ``ask`` sends a request and raises Unseen; ``reachable``: whether the extender's port is open."""
    if not reachable():
        return catalog.HANDSHAKE.unsure(
            extender,
            "nothing listens there",
            fix=f"name a running extender with --server; in a cluster: {forward(namespace)}",
        )
    try:
        ask()
    except api_reader.Unseen as unseen:
        return catalog.HANDSHAKE.problem(extender, unseen.reason)
    return catalog.HANDSHAKE.ok(extender, "it answers, and the client certificate has a role")
