"""Errors of serving. Each message is one sentence: what is wrong, where, and what to do."""


class ServingError(Exception):
    """The server cannot start or continue."""


class BadMaterial(ServingError):
    """A certificate, key or trust store is missing, unreadable or invalid."""


class BadHost(ServingError):
    """A host name or address for which no certificate can be issued."""


class BadOptions(ServingError):
    """The options are contradictory or unsafe."""


class PortTaken(ServingError):
    """A port remains in use by another process."""


class WouldReplace(ServingError):
    """Existing files would be replaced without an explicit request."""
