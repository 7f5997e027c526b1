"""A refused bind of a member of a scheduling group: it is held back, and others need not wait for it."""

import dataclasses
import threading

import pytest

from tests.support.extender import replicas

GROUP = {"podGroupName": "train"}


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen"])
def test_a_member_of_a_group_is_refused_slowly(shop: replicas.Cluster, seen: bool) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    member = shop.pod("web-2", schedulingGroup=GROUP)
    shop.see()
    if not seen:
        one.context.memo.put(replicas.recent(member))
    assert one.bind(pod, "h1") == ""
    assert "no capacity" in one.bind(member, "h2")
    (slept,) = one.clock.slept
    assert 0.5 < slept <= 1.0
    assert one.bind(member, "m1") == ""
    assert one.clock.slept == [slept]


def test_others_are_refused_at_once(shop: replicas.Cluster) -> None:
    one, pod, rival = shop.replica(), shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    assert one.bind(pod, "h1") == ""
    assert "no capacity" in one.bind(rival, "h2")
    assert one.clock.slept == []


def test_members_beyond_the_bound_are_refused_at_once(shop: replicas.Cluster) -> None:
    """The threads that are left answer the other calls."""
    one, placed = shop.replica(), shop.pod("web-1")
    held, further = (shop.pod(name, schedulingGroup=GROUP) for name in ("web-2", "web-3"))
    shop.see()
    assert one.bind(placed, "h1") == ""
    answers: list[str] = []

    def asleep(seconds: float) -> None:
        one.clock.sleep(seconds)
        if not answers:
            answers.append(one.bind(further, "h2"))

    one.context = dataclasses.replace(one.context, sleep=asleep, held_refusals=threading.Semaphore(1))
    assert "no capacity" in one.bind(held, "h2")
    assert ["no capacity" in answer for answer in answers] == [True]
    assert len(one.clock.slept) == 1
    assert "no capacity" in one.bind(further, "h2")
    assert len(one.clock.slept) == 2
