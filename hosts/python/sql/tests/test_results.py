"""Rows in pandas, polars, pyarrow and DuckDB, and those of the command beside them."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import duckdb
import pagecast
import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest

QUERIES = [
    "SELECT state, count(*) AS n, sum(amount) AS amount, min(day) AS first, max(at) AS last FROM orders "
    "GROUP BY state ORDER BY state",
    "SELECT id, price, state FROM orders WHERE day = DATE '2022-02-01' ORDER BY id",
    "SELECT name, count(*) AS n FROM orders JOIN days ON days.day = orders.id % 3 GROUP BY name ORDER BY name",
    "SELECT * FROM orders WHERE id < 0",
    "DESCRIBE orders",
    "FROM days ORDER BY day",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_those_of_the_command(
    connection: pagecast.Connection, data: Path, command: Callable[[Path, str], str], sql: str
) -> None:
    names, *theirs = csv.reader(io.StringIO(command(data, sql)))
    result = connection.sql(sql)
    assert result.columns == names
    ours = result.to_arrow()
    assert ours.num_rows == len(theirs)
    for name, column in zip(names, ours.columns, strict=True):
        kind = column.type
        if pyarrow.types.is_timestamp(kind):
            column = pyarrow.compute.strftime(column.cast(pyarrow.timestamp("s")), "%Y-%m-%dT%H:%M:%S")
        texts = ["" if value is None else str(value) for value in column.to_pylist()]
        told = [row[names.index(name)] for row in theirs]
        if pyarrow.types.is_floating(kind):
            assert [float(value) for value in texts if value] == [float(value) for value in told if value]
        else:
            assert texts == told, name


def test_everybody_takes_the_stream(connection: pagecast.Connection) -> None:
    result = connection.sql("SELECT id, state, amount, day FROM orders WHERE id >= 500")
    count, total = 99_500, sum(range(500, 100_000))
    arrow = result.to_arrow()
    assert (arrow.num_rows, pyarrow.compute.sum(arrow["id"]).as_py()) == (count, total)
    frame = result.to_polars()
    assert (frame.height, frame["id"].sum()) == (count, total)
    assert frame["state"].null_count() == count // 4 and frame.schema["day"] == polars.Date
    series = result.to_pandas()
    assert (len(series), series["id"].sum(), series["state"].isna().sum()) == (count, total, count // 4)
    # Without us between.
    assert polars.DataFrame(result).sort("id").equals(frame.sort("id"))
    assert pyarrow.table(result).num_rows == count
    assert len(pandas.DataFrame.from_arrow(result)) == count
    assert duckdb.sql("SELECT count(*), sum(id) FROM result").fetchall() == [(count, total)]


def test_a_table_is_summarized(connection: pagecast.Connection) -> None:
    summary = connection.sql("SUMMARIZE orders").to_polars()
    assert summary["column_name"].to_list() == ["id", "amount", "price", "state", "day", "at"]
    assert summary["count"].to_list() == [100_000] * 3 + [75_000] + [100_000] * 2
    assert (summary["min"][0], summary["max"][0], summary["null_percentage"][3]) == ("0", "99999", 25.0)


def test_batches_come_one_by_one(connection: pagecast.Connection) -> None:
    reader = pyarrow.RecordBatchReader.from_stream(connection.sql("SELECT id FROM orders"))
    first = reader.read_next_batch()
    assert 0 < first.num_rows < 100_000
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 100_000


def test_a_stream_that_is_left_ends_its_query(connection: pagecast.Connection) -> None:
    for _ in range(20):
        reader = pyarrow.RecordBatchReader.from_stream(connection.sql("SELECT * FROM orders a, orders b"))
        assert reader.read_next_batch().num_rows > 0
        reader.close()
    assert connection.sql("SELECT count(*) FROM orders").to_polars().item() == 100_000


def test_a_result_runs_anew(connection: pagecast.Connection) -> None:
    connection.register("few", polars.DataFrame({"id": [1]}))
    result = connection.sql("SELECT count(*) AS n FROM orders")
    assert result.to_polars().item() == result.to_polars().item() == 100_000


def test_show_prints_some(connection: pagecast.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    connection.sql("SELECT id FROM orders ORDER BY id").show(3)
    printed = capsys.readouterr().out
    assert "| id |" in printed and "| 2  |" in printed and "| 3  |" not in printed
    assert "the first 3 rows" in printed
    connection.sql("SELECT id FROM orders WHERE id < 0").show()
    assert "id" in capsys.readouterr().out
    connection.sql("SELECT * FROM days").show()
    printed = capsys.readouterr().out
    assert "Tuesday" in printed and "the first" not in printed
    assert repr(connection.sql("SELECT 1 AS one, 2 AS two")) == "<rows of one, two>"
