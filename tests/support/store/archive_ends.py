"""How far an archive goes."""

from app.store.checkpoints import archives


def last(archive: archives.Archive) -> int:
    """The last offset that the archive has of its incarnation; 0 if it has nothing."""
    latest = archive.latest(archive.files())
    return latest.last if latest is not None else 0
