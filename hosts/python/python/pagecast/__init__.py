"""Page traces through cache replacement policies, and SQL through a pool that predicts.

>>> import pagecast
>>> trace = pagecast.generate("sequential(streams=8,queries=4,pages=2000)")
>>> result = pagecast.simulate(trace, ["lru", "pbm", "opt"], sizes=["10%", "30%"])
>>> [(row["policy"], row["size_pages"], row["misses"]) for row in result.rows()][:2]
[('lru', 162, 6093), ('lru', 486, 5080)]

`simulate` replays, `curve` makes miss-ratio curves, `Trace` holds requests from an array or a file,
`generate` makes them by rule. A policy may be a class of yours: see `Policy`.

`connect` runs SQL over Parquet files, object stores and Delta tables. It comes with the wheel
`pagecast-sql`: `pip install 'pagecast[sql]'`.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pagecast._pagecast import Result, Trace, TraceError, __version__, generate, policies, workloads
from pagecast._policy import Policy
from pagecast._simulate import curve, simulate

if TYPE_CHECKING:
    from pagecast_sql import Connection, SqlError, connect

__all__ = [
    "Policy",
    "Result",
    "Trace",
    "TraceError",
    "__version__",
    "curve",
    "generate",
    "policies",
    "simulate",
    "workloads",
]

OF_SQL = ("Connection", "SqlError", "connect")


def __getattr__(name: str) -> Any:
    # A wheel of its own, which brings a query engine; the simulator needs none of it.
    if name not in OF_SQL:
        raise AttributeError(f"module 'pagecast' has no attribute '{name}'")
    try:
        import pagecast_sql
    except ModuleNotFoundError as error:
        if error.name != "pagecast_sql":
            raise
        text = f"pagecast.{name} is in a wheel of its own: pip install 'pagecast[sql]'"
        raise ModuleNotFoundError(text, name="pagecast_sql") from None
    return getattr(pagecast_sql, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(OF_SQL if find_spec("pagecast_sql") else ())])
