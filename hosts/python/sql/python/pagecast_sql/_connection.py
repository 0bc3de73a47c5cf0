"""Connections: a pool, the tables that are read through it, and SQL over them."""

import os
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from pagecast_sql import _engine
from pagecast_sql._result import Result

if TYPE_CHECKING:
    import polars

Size = int | str


def connect(
    data: str | os.PathLike[str] | None = None,
    *,
    memory: Size | None = None,
    temp: str | os.PathLike[str] | None = None,
    max_temp: Size | None = None,
    flash: tuple[str | os.PathLike[str], Size] | None = None,
    flash_writes: Size | None = None,
    policy: str = "pbm(forecast=on)",
    seed: int = 1,
    delivery: Literal["out-of-order", "in-order", "stock"] = "out-of-order",
    endpoint: str | None = None,
    allow: Iterable[str | os.PathLike[str]] = (),
) -> "Connection":
    """Opens a pool and the tables of a place.

    >>> import pagecast
    >>> with pagecast.connect(data, memory="64MiB") as connection:
    ...     connection.tables()
    ['orders']

    `data` is a file, a Delta or Iceberg table, a catalog of DuckLake or a folder of them, or a URL
    (`s3://bucket/folder`, `gs`, `az`, `https`, `file`); each file or subfolder is a table named by
    its stem. Credentials come from the usual variables, for S3 also from a profile. `endpoint` is
    where the store is, if its provider has it elsewhere. `allow` names folders beside the tables'
    own in which their metadata may name files. Without `data`, statements may name files, and
    `register` makes tables.

    `memory` is for pages of files and for statements together, in bytes or as `"4GiB"`; without it
    half of what the machine or the process's group has. What sorts, joins and groups may not keep
    there goes into files in `temp`, or in the system's folder for them, of `max_temp` bytes in all
    or 100 GiB. `flash` is a folder and a size: copies of
    pages of object stores on a local device, which stay for the next connection. `flash_writes`
    bounds the bytes that are written there a second, on average.

    `policy` and `seed` are the pool's replacement policy. `delivery` is the order in which row
    groups come where the statement does not say: `"out-of-order"` is what is in memory first,
    `"in-order"` that of the files, `"stock"` without telling the pool.

    Raises `ValueError` for an argument that cannot be met, and `SqlError` where nothing can be
    read. A table that is broken gives a warning, if others are not.
    """
    if data is not None:
        data = os.fspath(data)
    if flash is not None:
        flash = (os.fspath(flash[0]), flash[1])
    session, closed = _engine.open(
        data=data,
        allow=[os.fspath(folder) for folder in allow],
        endpoint=endpoint,
        memory=memory,
        temp=None if temp is None else os.fspath(temp),
        max_temp=max_temp,
        flash=flash,
        flash_writes=flash_writes,
        policy=policy,
        seed=seed,
        delivery=delivery,
    )
    for table in closed:
        warnings.warn(table, stacklevel=2)
    return Connection(session)


class Connection:
    """A pool, the tables that are read through it, and SQL over them: see `connect`.

    Threads may share it; queries of several threads run at once and share what they read.
    """

    def __init__(self, session: _engine.Session) -> None:
        self._session = session

    def sql(self, statement: str) -> Result:
        """Plans one statement.

        >>> connection.sql("SELECT count(*) AS n FROM orders").to_arrow().to_pylist()
        [{'n': 1000}]

        A query runs when its rows are asked for, and again each time. A statement that changes
        something (`CREATE VIEW`, `INSERT`, `COPY`, `SET`) runs here. A statement may name files in
        quotes: `FROM 'folder/day.parquet'`.
        """
        return Result(self._session.sql(statement))

    def register(self, name: str, table: object) -> None:
        """Makes a table, in place of one that has its name.

        `table` is a path, a pattern or a URL, as a statement may name it; or a table of pandas,
        polars, pyarrow or DuckDB, whose rows are then kept in memory.

        >>> import polars
        >>> connection.register("few", polars.DataFrame({"id": [1, 2]}))
        >>> sql = "SELECT count(*) AS n FROM orders JOIN few USING (id)"
        >>> connection.sql(sql).to_polars().item()
        2
        """
        if isinstance(table, str | os.PathLike):
            self._session.register_place(name, os.fspath(table))
        elif hasattr(table, "__arrow_c_stream__"):
            self._session.register_rows(name, table.__arrow_c_stream__())
        else:
            kind = type(table).__name__
            raise TypeError(f"a path or a table with `__arrow_c_stream__` is wanted, not {kind}")

    def tables(self) -> list[str]:
        """The names of tables and views.

        >>> connection.tables()
        ['orders']
        """
        return self._session.tables()

    def table(self, name: str) -> Result:
        """All of a table, a view or a file.

        >>> connection.table("orders").columns
        ['id', 'state', 'amount']
        """
        return self.sql('SELECT * FROM "' + name.replace('"', '""') + '"')

    def scan_polars(self, query: str) -> "polars.LazyFrame":
        """A table or a query as a polars LazyFrame.

        >>> import polars
        >>> scan = connection.scan_polars("orders").filter(polars.col("id") >= 998)
        >>> scan.select("id").collect().to_series().sort().to_list()
        [998, 999]

        The columns, the first rows and simple comparisons that polars asks for are asked of the
        query. So row groups that cannot have such rows are not read.
        """
        from pagecast_sql._polars import scan

        return scan(self.table(query) if query in self.tables() else self.sql(query))

    def statistics(self) -> dict[str, int | float]:
        """What the pool did since the connection was opened; amounts are bytes.

        >>> counts = connection.statistics()
        >>> counts["bytes_read"] <= counts["bytes_requested"] and 0 <= counts["hit_rate"] <= 1
        True
        """
        return self._session.statistics()

    def close(self) -> None:
        """Gives the pool back, once results that are still being read have ended."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session.is_closed:
            return "<pagecast connection, closed>"
        return f"<pagecast connection, {len(self.tables())} tables>"
