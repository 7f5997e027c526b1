"""The size of a gang whose members also belong to a group of kube-scheduler's own."""

import pytest

from app.plugins.coscheduling import membership
from tests.support.decisions.small_gangs import Cluster, native, node, pod, sigs


@pytest.mark.scenario("CS-7")
def test_a_gang_whose_own_minimum_is_larger_waits_until_its_members_exist() -> None:
    four = [pod(f"m{number}", labels={membership.SIGS_LABEL: "g"}, group="g") for number in range(4)]
    small = Cluster(node("n1"), sigs("g", 4), native("g", 2), four[0])
    for number, one in enumerate(four[1:], start=1):
        assert small.why(four[0]) == f"gang sigs/x/g: {number} of 4 members exist"
        small.see(one)
    assert [small.planned(one) for one in four] == ["n1"] * 4
    assert sorted(small.commit(four[2], "n1")) == ["m0", "m1", "m2", "m3"]
