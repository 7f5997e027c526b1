"""What can keep a verb from answering."""


class VerbError(Exception):
    """The verb cannot answer; the text is for the pod's events and says what to do."""


class StateAway(VerbError):
    """The pod needs state that cannot be had right now: the store is away or behind."""


class Refused(VerbError):
    """The pod cannot be placed on the node: the text is the plugin's sentence or the API server's."""
