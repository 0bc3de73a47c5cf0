"""A query as benchmarks hand it around."""

from typing import NamedTuple


class Query(NamedTuple):
    """One statement and what it is called in reports."""

    name: str
    sql: str
