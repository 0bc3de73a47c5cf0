"""Rows of a statement, for whoever takes Arrow."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pagecast_sql._engine import Statement, Stream

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

T = TypeVar("T")


class Result:
    """Rows of a statement, which come when they are asked for.

    It offers the Arrow stream interface: `polars.DataFrame(result)`, `pyarrow.table(result)` and
    `duckdb.sql("FROM result")` take it. `pyarrow.RecordBatchReader.from_stream(result)` reads batch
    by batch, as the query gives them. `SessionContext.from_arrow` of the `datafusion` package takes
    all rows. A query runs anew each time.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return self._statement.columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._statement.stream().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._statement.__arrow_c_schema__()

    def to_arrow(self) -> "pyarrow.Table":
        """All rows as a pyarrow table."""
        import pyarrow

        return self._taken_by(pyarrow.table)

    def to_polars(self) -> "polars.DataFrame":
        """All rows as a polars DataFrame, without a copy."""
        import polars

        return self._taken_by(polars.DataFrame)

    def to_pandas(self, **options: Any) -> "pandas.DataFrame":
        """All rows as a pandas DataFrame, by pyarrow's `to_pandas` with its options.

        pandas copies numbers into blocks of its own, unless it is to keep Arrow's types:
        `types_mapper=pandas.ArrowDtype`.
        """
        return self.to_arrow().to_pandas(**options)

    def show(self, rows: int = 20) -> None:
        """Prints the first rows; the query ends when they are there."""
        text, more = self._statement.text(rows)
        print(text)
        if more:
            print(f"the first {rows} rows; show(n) shows more")

    def _taken_by(self, take: Callable[[Stream], T]) -> T:
        """What `take` makes of the rows; its error is ours where the query failed."""
        stream = self._statement.stream()
        try:
            return take(stream)
        except Exception:
            # A consumer wraps what a stream says. Ctrl-C is raised here, too, since it is seen
            # again where Python runs.
            failed = stream.failure()
            if failed is None:
                raise
        raise failed

    def __repr__(self) -> str:
        return f"<rows of {', '.join(self.columns)}>"
