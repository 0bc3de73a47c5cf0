"""Six reports over TPC-H's lineitem and orders, with other dates, words and parts each time."""

import datetime
import random

_FIRST, _LAST = datetime.date(1992, 1, 2), datetime.date(1998, 12, 1)
_MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
_REVENUE = "sum(l_extendedprice * (1 - l_discount))"


def stream(seed: int, number: int, length: int, scale: float) -> list[str]:
    """The statements of one stream; equal for equal arguments. Each six are all reports, in an
    order of their own."""
    numbers = random.Random(f"peers {seed} {number}")
    order: list = []
    while len(order) < length:
        order += numbers.sample(_REPORTS, len(_REPORTS))
    return [report(numbers, scale) for report in order[:length]]


def _between(numbers: random.Random, column: str, days: int) -> str:
    first = _FIRST + datetime.timedelta(numbers.randrange((_LAST - _FIRST).days - days))
    return f"{column} >= DATE '{first}' AND {column} < DATE '{first + datetime.timedelta(days)}'"


def _summary(numbers: random.Random, _scale: float) -> str:
    return (f"SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), {_REVENUE}, count(*) FROM lineitem "
            f"WHERE {_between(numbers, 'l_shipdate', 1200)} GROUP BY l_returnflag, l_linestatus")


def _discounts(numbers: random.Random, _scale: float) -> str:
    discount = numbers.randrange(3, 9)
    return ("SELECT sum(l_extendedprice * l_discount), count(*) FROM lineitem "
            f"WHERE {_between(numbers, 'l_shipdate', 365)} AND l_discount BETWEEN 0.0{discount - 1} AND 0.0{discount + 1} AND l_quantity < 24")


def _late(numbers: random.Random, _scale: float) -> str:
    one, other = numbers.sample(_MODES, 2)
    return (f"SELECT l_shipmode, count(*) FROM lineitem WHERE l_shipmode IN ('{one}', '{other}') AND l_commitdate < l_receiptdate "
            f"AND l_shipdate < l_commitdate AND {_between(numbers, 'l_receiptdate', 365)} GROUP BY l_shipmode")


def _suppliers(numbers: random.Random, _scale: float) -> str:
    return (f"SELECT l_suppkey, {_REVENUE} AS revenue FROM lineitem WHERE {_between(numbers, 'l_shipdate', 365)} "
            "GROUP BY l_suppkey ORDER BY revenue DESC, l_suppkey LIMIT 10")


def _priorities(numbers: random.Random, _scale: float) -> str:
    return (f"SELECT o_orderpriority, count(*), sum(o_totalprice) FROM orders WHERE {_between(numbers, 'o_orderdate', 92)} "
            "GROUP BY o_orderpriority")


def _instructions(numbers: random.Random, scale: float) -> str:
    parts = int(200_000 * scale)
    first = numbers.randrange(parts - parts // 100)
    return (f"SELECT l_shipinstruct, count(*), sum(l_quantity) FROM lineitem WHERE l_partkey BETWEEN {first} AND {first + parts // 100} "
            "GROUP BY l_shipinstruct")


_REPORTS = [_summary, _discounts, _late, _suppliers, _priorities, _instructions]
