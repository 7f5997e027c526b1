"""The forms that the names in a view have had, and how they follow from one another.

Pure functions over text, kept permanently: with them a view of the present form is compared with one of
an older form, and a checkpoint of an older form is read.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType


def _unlabelled(name: str) -> str:
    """``NS/POLICY|LABEL=DOMAIN`` as ``NS/POLICY|DOMAIN``."""
    policy, _, place = name.partition("|")
    return f"{policy}|{place.partition('=')[2]}"


COUNTS: Mapping[int, Callable[[str], str]] = MappingProxyType({2: _unlabelled})
"""Form of the counts -> its names in the form before."""


def counts_in(form: int, counts: Mapping[str, int], present: int) -> dict[str, int]:
    """Counts of the present form as they would be in an older one."""
    found = dict(counts)
    for number in range(present, form, -1):
        merged: Counter[str] = Counter()
        for name, count in found.items():
            merged[COUNTS[number](name)] += count
        found = dict(merged)
    return found


def labelled(counts: Mapping[str, int], labels: Mapping[str, str]) -> dict[str, int]:
    """Counts of form 1 in form 2; ``labels``: policy -> the label that its domains are values of.

    Raises LookupError for a count of no such policy.
    """
    parts = ((name.partition("|"), count) for name, count in counts.items())
    return {f"{policy}|{labels[policy]}={domain}": count for (policy, _, domain), count in parts}


_POLICIES, _OBJECTS = b'{"policies":', b'{"objects":{"workloadpolicies":'


def present(lines: Sequence[bytes], version: int) -> Sequence[bytes]:
    """The lines of a serialized snapshot in form 4; ``version``: the form that they are in.

    Forms 1 to 3 have the policies in lines of their own. Raises LookupError for a count of form 1 without
    its policy, and ValueError for a line that is not JSON.
    """
    if version > 3:
        return lines
    labels: dict[str, str] = {}
    if version == 1:
        for line in lines:
            for policy in json.loads(line)["policies"] if line.startswith(_POLICIES) else ():
                labels[f"{policy['namespace']}/{policy['name']}"] = policy.get("topology_key", "")
    return [_present(line, labels, version) for line in lines]


def _present(line: bytes, labels: Mapping[str, str], version: int) -> bytes:
    if line.startswith(_POLICIES):
        return _OBJECTS + line.rstrip(b"\n")[len(_POLICIES) :] + b"}\n"
    if version == 1 and b'"counts":' in line:
        fields = json.loads(line)
        if isinstance(fields.get("counts"), dict):
            fields["counts"] = labelled(fields["counts"], labels)
            return json.dumps(fields).encode() + b"\n"
    return line
