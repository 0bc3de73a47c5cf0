"""Replays, and miss-ratio curves."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pagecast import _pagecast
from pagecast._pagecast import Result, Trace
from pagecast._policy import Policy
from pagecast._progress import Progress, shown

#: A trace, a trace file, or an array of page ids; a list has several.
Traces: TypeAlias = Trace | str | os.PathLike[str] | Any | Sequence[Trace | str | os.PathLike[str] | Any]
#: Policies by name, as a text with commas or a list; a class among them is one of yours.
Policies: TypeAlias = str | Callable[[int], Policy] | Iterable[str | Callable[[int], Policy]]
#: 1000 pages, 0.1 or "10%" of the trace's different pages, or "64MiB".
Sizes: TypeAlias = int | float | str | Iterable[int | float | str]


def simulate(
    traces: Traces,
    policies: Policies,
    sizes: Sizes,
    *,
    format: str = "auto",
    page_size: int | str = "8KiB",
    latency: int | None = None,
    seed: int = 1,
    threads: int | None = None,
    progress: Progress = None,
) -> Result:
    """Replays traces through policies at pool sizes; a row for each.

    >>> import array, pagecast
    >>> ids = array.array("Q", [1, 2, 3, 1, 4, 1, 2])
    >>> [row["misses"] for row in pagecast.simulate(ids, "lru,opt", sizes=[2, 3]).rows()]
    [6, 5, 5, 4]

    Args:
        traces: Page ids (any array of whole numbers, read in place), a file, a `Trace`, or a list.
        policies: As in `pagecast simulate --policies`: ``"lru"``, ``"clock(max=1,init=0)"``,
            ``"opt"`` for Belady's MIN; or a class of yours, see `Policy`.
        sizes: ``1000`` pages; ``0.1`` or ``"10%"`` of the trace's different pages; ``"64MiB"``.
        format: Of files, as in `pagecast simulate --format`.
        page_size: Bytes of a page, for sizes in bytes.
        latency: With it time is logical: each stream goes at its own pace, a miss takes so many
            ticks more, and the order of requests follows from both. The rows then have `ticks` and
            `opt_misses`, the fewest misses of their own order.
        seed: Decides what policies leave to chance.
        threads: Replays at the same time; as many as there are cores unless given.
        progress: True for a bar, by tqdm where it is installed; or a function that is called with
            the requests done and expected.

    Raises:
        TraceError: A file is no trace; it names the file and the place.
        ValueError: A policy, a size or a value that there is not; it says what there is.
        KeyboardInterrupt: Ctrl-C ends the replays within a second.
    """
    with shown(progress) as call:
        return _pagecast.simulate(
            traces,
            policies,
            sizes,
            format=format,
            page_size=page_size,
            latency=latency,
            seed=seed,
            threads=threads,
            progress=call,
        )


def curve(
    traces: Traces,
    policies: Policies,
    points: int = 40,
    *,
    sample: float = 1.0,
    format: str = "auto",
    seed: int = 1,
    threads: int | None = None,
    progress: Progress = None,
) -> Result:
    """Miss-ratio curves: the miss ratio at `points` pool sizes, from a thousandth of the different
    pages to all. `lru` and `opt` take one pass for all sizes.

    >>> import pagecast
    >>> trace = pagecast.generate("ycsb(operations=20000,pages=1000)")
    >>> result = pagecast.curve(trace, "lru,opt", 5)
    >>> [row["size_pages"] for row in result.rows() if row["policy"] == "lru"]
    [1, 6, 31, 177, 995]

    Args:
        points: From 2 to 1000.
        sample: The part of the pages that the curves are made from, chosen by a hash (SHARDS).

    The others are those of `simulate`.
    """
    with shown(progress) as call:
        return _pagecast.curve(
            traces,
            policies,
            points,
            sample=sample,
            format=format,
            seed=seed,
            threads=threads,
            progress=call,
        )
