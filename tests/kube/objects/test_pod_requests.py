"""The effective requests of any pod, and what it takes to add them up."""

import contextlib
import itertools
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from app.domain.fit import quantities
from app.kube import errors
from app.kube.objects import bounds, decoding
from tests.support import call_counts
from tests.support.campaigns import sizes

Json = dict[str, Any]

_AMOUNTS = {"0": 0, "1": 1, "2": 2, "7": 7, "3Ki": 3072, "4Ei": 2**62, "8Ei": 2**63}
_NAMES = ["cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "example.com/gpu"]

requests = st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(list(_AMOUNTS)), max_size=3)
containers = st.builds(lambda given: {"resources": {"requests": given}}, requests)
init_containers = st.builds(
    lambda container, policy: container | policy,
    containers,
    st.sampled_from([{}, {"restartPolicy": "Always"}]),
)


def amount(held: Json, name: str) -> int:
    """What a container, or the specification of a pod, requests by itself."""
    text = held.get("resources", {}).get("requests", {}).get(name, "0")
    return min(quantities.LARGEST, _AMOUNTS[text] * (1000 if name == "cpu" else 1))


def expected(spec: Json, name: str) -> int:
    """The most that runs together at any time, by the documentation of Kubernetes; for one resource."""
    inits = spec["initContainers"]
    moments = [spec["containers"] + [one for one in inits if "restartPolicy" in one]]
    for at, one in enumerate(inits):
        moments.append([one, *(before for before in inits[:at] if "restartPolicy" in before)])
    most = max(sum(amount(one, name) for one in together) for together in moments)
    if name in spec["resources"]["requests"] and name in ("cpu", "memory", "hugepages-2Mi"):
        most = amount(spec, name)
    overhead = amount({"resources": {"requests": spec["overhead"]}}, name)
    return min(quantities.LARGEST, min(quantities.LARGEST, most) + overhead)


def body(spec: Json) -> bytes:
    return json.dumps({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}).encode()


@hypothesis.given(
    spec=st.fixed_dictionaries(
        {
            "containers": st.lists(containers, max_size=3),
            "initContainers": st.lists(init_containers, max_size=5),
            "overhead": requests,
            "resources": st.builds(lambda given: {"requests": given}, requests),
        }
    )
)
@hypothesis.settings(max_examples=sizes.examples(200), deadline=None)
def test_a_pod_requests_the_most_that_runs_together_at_any_time(spec: Json) -> None:
    found = decoding.pod(body(spec)).requests
    assert {name: found.get(name, 0) for name in _NAMES} == {name: expected(spec, name) for name in _NAMES}
    named = [one["resources"]["requests"] for one in spec["containers"] + spec["initContainers"]]
    assert found.keys() >= set().union(spec["overhead"], *named)


@pytest.mark.parametrize("sidecars", [True, False])
@pytest.mark.parametrize("length", [4, 12], ids=["within the limit", "beyond the limit"])
def test_the_work_for_a_pod_grows_with_its_containers_and_not_with_their_square(
    sidecars: bool, length: int
) -> None:
    def work(count: int) -> int:
        names = [f"r{number:0{length - 1}}" for number in range(count)]
        inits: list[Json] = [
            {"restartPolicy": "Always", "resources": {"requests": dict.fromkeys(names[at : at + 100], "1")}}
            for at in range(0, count, 100)
        ]
        inits += [{"restartPolicy": "Always"} if sidecars else {}] * count
        # Equal requests of two pods are added up once.
        bodies = (body({"initContainers": inits, "overhead": {"cpu": at}}) for at in itertools.count(count))
        made = [next(bodies), next(bodies)]

        def decoded() -> None:
            with contextlib.suppress(errors.Oversized):
                decoding.pod(made.pop())

        return call_counts.calls_of(decoded)

    assert work(800) < 2.1 * work(400)


def test_a_pod_of_too_many_resources_is_refused_before_a_quantity_is_read() -> None:
    large = [{f"r{at}{number:03}": "1" for number in range(bounds.RESOURCES // 5)} for at in range(2)]
    given = [{"resources": {"requests": one}} for one in ({"cpu": "not a quantity"}, *large)]
    for part in ("containers", "initContainers"):
        with pytest.raises(errors.Oversized, match="its resources have"):
            decoding.pod(body({part: given}))
