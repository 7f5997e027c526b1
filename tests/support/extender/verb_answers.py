"""What a verb answers, read as kube-scheduler reads it."""

from tests.support.extender import stages


def names_of(reply: stages.Answer) -> list[str]:
    """The kept nodes, in either form of the reply."""
    assert reply.status == 200
    assert reply.json["Error"] == ""
    assert reply.json["FailedNodes"] == {}
    if reply.json["NodeNames"] is not None:
        return list(reply.json["NodeNames"])
    return [item["metadata"]["name"] for item in reply.json["Nodes"]["items"]]


def scores(reply: stages.Answer) -> dict[str, int]:
    assert reply.status == 200
    found = {entry["Host"]: entry["Score"] for entry in reply.items}
    assert len(found) == len(reply.items)
    return found
