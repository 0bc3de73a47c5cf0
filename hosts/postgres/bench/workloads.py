"""What the streams of a benchmark ask: the paper's workloads (PVLDB 18(13), section 6.2 to 6.6), a
list of queries for each stream and seed."""

import bisect
import datetime
import functools
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import mix
from bench.data import ycsb_rows
from bench.query import Query

_FIRST_DAY, _LAST_DAY = datetime.date(1992, 1, 2), datetime.date(1998, 12, 1)
_NO_INDEX = [f"drop index if exists lineitem_{name}" for name in ("shipdate_brin", "shipdate", "suppkey")]
_BRIN = "create index lineitem_shipdate_brin on lineitem using brin (l_shipdate) with (pages_per_range = 16)"


@dataclass(frozen=True)
class Workload:
    """Queries of streams, the indexes that they need and the planner's settings that give the
    access path under test."""

    name: str
    about: str
    queries: Callable[[random.Random, float, int], list[Query]]
    indexes: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    # Queries of a stream unless the caller says otherwise.
    length: int = 6
    # Statements before anything is counted; the kernel's cache is cold again after them.
    first: list[str] = field(default_factory=list)
    # Streams begin within so many seconds.
    stagger: float = 0.0

    def stream(self, seed: int, stream: int, scale: float, length: int) -> list[Query]:
        """The queries of one stream; equal for equal arguments."""
        return self.queries(random.Random(f"{self.name} {seed} {stream}"), scale, length)

    def starts(self, seed: int, streams: int) -> list[float]:
        """When each stream begins, in seconds."""
        rng = random.Random(f"{self.name} {seed} starts")
        return [rng.uniform(0, self.stagger) for _ in range(streams)]


def _aggregate(rng: random.Random, condition: str) -> Query:
    """One of two aggregates over lineitem after TPC-H Q1 and Q6; numeric, so that equal rows give
    equal sums in any order."""
    if rng.random() < 0.5:
        return Query("q1", "select l_returnflag, l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice * (1 - l_discount)) "
                           f"from lineitem where {condition} group by 1, 2 order by 1, 2")
    return Query("q6", f"select count(*), sum(l_extendedprice * l_discount) from lineitem where {condition} and l_quantity < 24")


def _dates(rng: random.Random, fraction: float) -> str:
    days = (_LAST_DAY - _FIRST_DAY).days
    width = int(days * fraction)
    first = _FIRST_DAY + datetime.timedelta(rng.randrange(days - width))
    return f"l_shipdate between '{first}' and '{first + datetime.timedelta(width)}'"


def _date_ranges(rng: random.Random, _scale: float, length: int) -> list[Query]:
    return [_aggregate(rng, _dates(rng, 0.3)) for _ in range(length)]


def _whole_tables(rng: random.Random, _scale: float, length: int) -> list[Query]:
    return [_aggregate(rng, _dates(rng, rng.uniform(0.1, 0.9))) for _ in range(length)]


def _suppliers(rng: random.Random, scale: float, length: int) -> list[Query]:
    suppliers = int(10_000 * scale)
    window, width = max(5, suppliers // 20), max(1, suppliers // 100)

    def one() -> Query:
        first = suppliers // 3 + rng.randrange(window - width + 1)
        return _aggregate(rng, f"l_suppkey between {first} and {first + width - 1}")

    return [one() for _ in range(length)]


@functools.cache
def _zipf(keys: int, skew: float) -> list[float]:
    """Weights of the keys in order of popularity, added up."""
    return list(itertools.accumulate(1 / rank ** skew for rank in range(1, keys + 1)))


def _points_and_scans(rng: random.Random, scale: float, length: int, skew: float = 0.99, every: int = 250) -> list[Query]:
    rows = ycsb_rows(scale)
    weights = _zipf(rows, skew)

    def point() -> Query:
        key = bisect.bisect_left(weights, rng.random() * weights[-1])
        return Query("read", f"select * from usertable where ycsb_key = {key}")

    def scan() -> Query:
        width = int(rows * rng.uniform(0.04, 0.06))
        first = rng.randrange(rows - width)
        return Query("scan", f"select count(*), min(field0), max(field9) from usertable where seqscan_key between {first} and {first + width}")

    return [scan() if every and number % every == every // 2 else point() for number in range(length)]


def ycsb(skew: float, every: int) -> Workload:
    """Point reads of that skew, 0 being uniform, and one scan in `every` queries, with 0 none."""
    return Workload(f"ycsb {skew:g}, 1 scan in {every}" if every else f"ycsb {skew:g}", f"Zipf({skew:g}) point reads, scans 1 in {every}",
                    functools.partial(_points_and_scans, skew=skew, every=every), length=2500)


def date_ranges(fraction: float) -> Workload:
    """As `brin`, over that part of the dates."""
    def queries(rng: random.Random, _scale: float, length: int) -> list[Query]:
        return [_aggregate(rng, _dates(rng, fraction)) for _ in range(length)]
    return Workload(f"brin {fraction:.0%}", "bitmap scans by a BRIN index", queries, [*_NO_INDEX, _BRIN], {"enable_seqscan": "off"})


_WORKLOADS = [
    Workload("brin", "bitmap scans by a BRIN index over random 30 % ranges of l_shipdate", _date_ranges,
             [*_NO_INDEX, _BRIN], {"enable_seqscan": "off"}),
    Workload("sequential", "sequential scans of lineitem, random conditions", _whole_tables, _NO_INDEX, length=4),
    Workload("index", "B-tree scans over random 30 % ranges of l_shipdate, almost in physical order", _date_ranges,
             [*_NO_INDEX, "create index lineitem_shipdate on lineitem (l_shipdate)"],
             {"enable_seqscan": "off", "enable_bitmapscan": "off"}, length=4),
    Workload("trailing", "B-tree scans over 1 % of the suppliers out of a fixed 5 %, no physical order", _suppliers,
             [*_NO_INDEX, "create index lineitem_suppkey on lineitem (l_suppkey)"],
             {"enable_seqscan": "off", "enable_bitmapscan": "off"}),
    Workload("tpch", "TPC-H queries 1 to 16, once each in random order", mix.queries, [*_NO_INDEX, _BRIN], length=16),
    Workload("ycsb", "Zipf(0.99) point reads, and scans of 4 to 6 % of the table, 1 in 250", _points_and_scans, length=2500),
]
WORKLOADS = {workload.name: workload for workload in _WORKLOADS}
