"""What keeps the extender from being served. Each message is one sentence: what, where, what to do."""


class ServingError(Exception):
    """The server cannot start, or cannot go on, with what it was given."""


class BadMaterial(ServingError):
    """A certificate, key or trust store is missing, unreadable or of no use."""


class BadHost(ServingError):
    """A host name or address for which no certificate can be issued."""


class BadOptions(ServingError):
    """The options contradict one another or are unsafe."""


class PortTaken(ServingError):
    """A port stays taken by another process."""


class WouldReplace(ServingError):
    """Files are there that must not be replaced unless somebody asks for it."""
