"""What a process follows, while its threads change it at the same moment."""

import threading
from collections.abc import Callable

from app.store.log import incarnations

FORMER, LATER = "000000000001-aa", "000000000002-bb"


class Preempted(int):
    """An offset at whose comparison another thread gets its turn, as far as nothing excludes it."""

    meanwhile: Callable[[], None]

    def __gt__(self, other: int) -> bool:
        found = int(self) > other
        thread = threading.Thread(target=self.meanwhile)
        thread.start()
        thread.join(0.2)
        return found


def noted_while(followed: incarnations.Followed, offset: int, meanwhile: Callable[[], None]) -> None:
    """Note an entry of the former incarnation while another thread does something else."""
    done = threading.Event()

    def run() -> None:
        meanwhile()
        done.set()

    preempted = Preempted(offset)
    preempted.meanwhile = run
    followed.note(incarnations.Watermark(FORMER, preempted))
    assert done.wait(5.0)


def test_an_append_that_ends_during_a_switch_does_not_bring_the_former_incarnation_back() -> None:
    followed = incarnations.Followed(FORMER)
    followed.note(incarnations.Watermark(FORMER, 100))
    noted_while(followed, 101, lambda: followed.switch(LATER))
    assert followed.seen == incarnations.Watermark(LATER, 0)
    assert followed.left == incarnations.Watermark(FORMER, 101)


def test_of_two_appends_that_end_together_the_later_entry_is_kept() -> None:
    followed = incarnations.Followed(FORMER)
    noted_while(followed, 100, lambda: followed.note(incarnations.Watermark(FORMER, 101)))
    assert followed.seen == incarnations.Watermark(FORMER, 101)


def test_a_switch_is_not_put_in_doubt_by_an_append_to_the_former_incarnation() -> None:
    followed = incarnations.Followed(FORMER)
    followed.switch(LATER)
    followed.doubt(FORMER)
    assert not followed.in_doubt
    followed.doubt(LATER)
    followed.trust(FORMER, 5)
    assert followed.in_doubt
