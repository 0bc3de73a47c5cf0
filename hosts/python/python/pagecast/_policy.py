"""Replacement policies that are written in Python."""

from typing import Protocol


class Policy(Protocol):
    """A replacement policy of yours, as `simulate` calls it.

    Give the class (or anything that is called with the number of frames and returns such an
    object) among the policies. A new object is made for each replay. Pages are ids, whole numbers
    from 0 to 2**64 - 1. `admit` and `hit` may be left out. What the policy raises comes out of
    `simulate`.

    >>> from collections import OrderedDict
    >>> import pagecast
    >>> class Lru:
    ...     def __init__(self, frames):
    ...         self.order = OrderedDict()
    ...     def admit(self, page):
    ...         self.order[page] = None
    ...     def hit(self, page):
    ...         self.order.move_to_end(page)
    ...     def evict(self, incoming):
    ...         return self.order.popitem(last=False)[0]
    >>> trace = pagecast.generate("ycsb(operations=20000,pages=1000)")
    >>> result = pagecast.simulate(trace, [Lru, "lru"], sizes="10%")
    >>> own, built_in = [row["misses"] for row in result.rows()]
    >>> own == built_in
    True

    A request costs a call into the interpreter. This class takes about twelve times as long as the
    built-in `lru`, and replays of such policies share one core: the interpreter's lock lets one run
    at a time.
    """

    def admit(self, page: int) -> None:
        """The page, which was not there, has come in. `evict` made room before, if need be."""

    def hit(self, page: int) -> None:
        """The page was asked for and is there."""

    def evict(self, incoming: int) -> int:
        """The page that leaves, to make room for `incoming`. It must be there."""
        ...
