"""PlacementReleased: from version 2 on it names the cause in one word, beside the sentence."""

from migrations.upcasters import steps

_SENTENCES = {
    "the API server has no such pod any more": "gone",
    "the API server shows the pod unbound long after the promise": "unbound",
}
_SUPERSEDED = "placed anew; "


def caused(fields: steps.Fields) -> steps.Fields:
    """Version 1 -> 2: ``cause``, determined by the sentence; all others were words of the API server."""
    reason = str(fields.get("reason", ""))
    cause = _SENTENCES.get(reason, "superseded" if reason.startswith(_SUPERSEDED) else "refused")
    return {**fields, "cause": cause}
