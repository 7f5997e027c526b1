"""The guarantees P1 to P20, checked on the log and on the cluster during a simulation.

| | |
|---|---|
| P1 | the counts and versions in Redis are the fold of the log, and so is every reader's snapshot |
|    | what a reader divides among quotas is what the log has to divide |
| P2 | an entry of the log neither changes nor disappears, except by compaction or a failover |
| P3 | the same observation twice is one event; a repeated append is carried out once |
| P4 | after a failover nothing is decided before a recorder has recorded the loss, or the doubt |
| P5 | along the log no epoch is lower than one before it |
| P6 | no placement exceeds a quota; none that may still be bound is released, or lost and replaced |
| P7 | a pod gets one node, a plan or a gang is placed whole and decided once, a successful bind is true |
| P8 | once faults are over, the log matches the cluster, within a minute and a half |
| P9 | a deleted object stays deleted, and another one of its name has another uid |
| P10 | no process repeats a failing call to the API server or the store without end |
| P14 | a reader that starts from a checkpoint equals a replay of the whole log |
| P15 | only entries below a checkpoint are trimmed |

P11 to P13 and P16 to P20 are about replies, servers and connections, which a simulation does not have.
"""


class Broken(AssertionError):
    """A guarantee does not hold; the text begins with its number."""


def demand(holds: bool, guarantee: str, text: str) -> None:
    if not holds:
        raise Broken(f"{guarantee}: {text}")
