"""A store on any deployment: opened, appended to, and examined as the doctor does it."""

from app import settings
from app.store import errors, schemas, stores
from app.store.health import checks, doctor
from app.store.log import batches
from tests.support import declared
from tests.support.store import servers, writers


def opened(url: str, cluster: str, *, timeout: float = 1.0) -> stores.Store:
    options = settings.Store(url=url, socket_timeout=timeout)
    names = declared.names(cluster)
    with schemas.connect(options, names) as client:
        assert schemas.migrate(client, names, declared.SCHEMA).ready
    return stores.open_store(options, schema=declared.SCHEMA, cluster=cluster)


def append(store: stores.Store, *uids: str) -> batches.Appended:
    return store.log.append(batches.Batch(events=[writers.seen(uid) for uid in uids]))


def append_until_done(store: stores.Store, uid: str) -> batches.Appended:
    """As the recorder does: away is not the end."""
    done: list[batches.Appended] = []

    def tried() -> bool:
        try:
            done.append(append(store, uid))
        except errors.StoreAway:
            return False
        return True

    servers.eventually(tried, "an append goes through")
    return done[0]


def examined(url: str, cluster: str) -> dict[str, checks.Finding]:
    options = settings.Store(url=url, socket_timeout=1.0)
    return {one.subject: one for one in doctor.examine(options, declared.names(cluster))}
