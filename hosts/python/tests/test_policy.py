"""Policies that are written in Python, beside the built-in ones of the same rules."""

from collections import OrderedDict, deque

import numpy as np
import pagecast
import pytest

IDS = (np.random.default_rng(7).zipf(1.15, 40_000) % 3_000).astype(np.uint64)


class Lru:
    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def admit(self, page: int) -> None:
        self.order[page] = None

    def hit(self, page: int) -> None:
        self.order.move_to_end(page)

    def evict(self, incoming: int) -> int:
        return self.order.popitem(last=False)[0]


class Fifo:
    """Has nothing to do at a hit."""

    name = "first in, first out"

    def __init__(self, frames: int) -> None:
        self.queue: deque[int] = deque()
        self.admit = self.queue.append

    def evict(self, incoming: int) -> int:
        return self.queue.popleft()


class Clock:
    """One bit a frame, set by a hit; the hand goes on where it stopped."""

    def __init__(self, frames: int) -> None:
        self.pages: list[int] = []
        self.place: dict[int, int] = {}
        self.used: list[bool] = []
        self.hand = 0
        self.free: int | None = None

    def admit(self, page: int) -> None:
        if self.free is None:
            self.place[page] = len(self.pages)
            self.pages.append(page)
            self.used.append(False)
        else:
            self.pages[self.free], self.used[self.free] = page, False
            self.place[page], self.free = self.free, None

    def hit(self, page: int) -> None:
        self.used[self.place[page]] = True

    def evict(self, incoming: int) -> int:
        while self.used[self.hand]:
            self.used[self.hand] = False
            self.hand = (self.hand + 1) % len(self.pages)
        self.free, self.hand = self.hand, (self.hand + 1) % len(self.pages)
        page = self.pages[self.free]
        del self.place[page]
        return page


@pytest.mark.parametrize(
    ("own", "built_in"), [(Lru, "lru"), (Fifo, "fifo"), (Clock, "clock(max=1,init=0)")], ids=["lru", "fifo", "clock"]
)
@pytest.mark.parametrize("frames", [1, 7, 250, 5_000])
def test_the_same_rules_miss_the_same(own, built_in: str, frames: int) -> None:
    rows = pagecast.simulate(IDS, [own, built_in], frames).rows()
    assert rows[0]["misses"] == rows[1]["misses"]
    assert rows[0]["policy"] == getattr(own, "name", own.__name__)


def test_in_logical_time_too() -> None:
    trace = pagecast.generate("sequential(streams=4,queries=3,pages=500)")
    own, built_in = pagecast.simulate(trace, [Lru, "lru"], "20%", latency=10).rows()
    assert (own["misses"], own["ticks"]) == (built_in["misses"], built_in["ticks"])


def test_curves_of_own_policies() -> None:
    points = pagecast.curve(IDS, [Lru, "lru"], 4).rows()
    assert [row["miss_ratio"] for row in points[:4]] == pytest.approx([row["miss_ratio"] for row in points[4:]])


def test_it_sees_the_ids_as_they_are() -> None:
    seen = set()

    class Seeing(Lru):
        def admit(self, page: int) -> None:
            seen.add(page)
            super().admit(page)

    pagecast.simulate(np.array([5, 1 << 60, 5, (1 << 64) - 1], dtype=np.uint64), Seeing, 2)
    assert seen == {5, 1 << 60, (1 << 64) - 1}


class Failing(Lru):
    def hit(self, page: int) -> None:
        raise LookupError(f"no {page} here")


class Inventing(Lru):
    def evict(self, incoming: int) -> int:
        return 123_456_789


class Vague(Lru):
    def evict(self, incoming: int) -> int:
        return None  # type: ignore[return-value]


class Unbuilt(Lru):
    def __init__(self, frames: int) -> None:
        raise OSError("no disk")


class Lacking:
    def __init__(self, frames: int) -> None:
        pass


@pytest.mark.parametrize(
    ("policy", "kind", "words"),
    [
        (Failing, LookupError, "no .* here"),
        (Inventing, ValueError, "policy `Inventing`: `evict` gave up page 123456789, which is not in the pool"),
        (Vague, TypeError, "policy `Vague`: `evict` gives the id of the page that leaves, not"),
        (Unbuilt, OSError, "no disk"),
        (Lacking, AttributeError, "evict"),
    ],
)
def test_what_it_raises_comes_out(policy, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        pagecast.simulate(IDS, ["lru", policy, Lru], [10, 100])


def test_the_traceback_leads_to_the_policy() -> None:
    with pytest.raises(LookupError) as raised:
        pagecast.simulate(IDS, Failing, 10)
    assert raised.traceback[-1].name == "hit"
