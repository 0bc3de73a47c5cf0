"""LazyFrames of polars over a query."""

import datetime

import pagecast
import polars
import pytest
from pagecast_sql._polars import in_sql

col = polars.col
DAY = datetime.date(2022, 3, 1)

# Predicates, and what of them is asked in SQL.
PREDICATES = [
    (col("id") >= 99_990, '"id" >= 99990'),
    ((col("id") < 20) & (col("state") == "paid"), '"id" < 20 AND "state" = \'paid\''),
    ((col("day") == DAY) & (col("price") > 0.5), "\"day\" = DATE '2022-03-01'"),
    (col("amount") < 100, '"amount" < 100'),
    (col("state") == "it's", "\"state\" = 'it''s'"),
    (col("state").is_null() & (col("id") < 100), '"id" < 100'),
    (col("state") != "paid", "\"state\" <> 'paid'"),
    (col("price") >= 0, None),
    ((col("id") < 5) | (col("id") > 99_995), None),
    (col("id") % 1000 == 7, None),
    (col("state").str.starts_with("pa"), None),
]


@pytest.fixture(scope="module")
def whole(data) -> polars.DataFrame:
    return polars.read_parquet(data / "orders.parquet")


@pytest.mark.parametrize(("predicate", "sql"), PREDICATES, ids=[str(sql) for _, sql in PREDICATES])
def test_predicates(connection: pagecast.Connection, whole: polars.DataFrame, predicate: polars.Expr, sql) -> None:
    assert in_sql(predicate, whole.schema) == sql
    scanned = connection.scan_polars("orders").filter(predicate).collect().sort("id")
    assert scanned.equals(whole.filter(predicate).sort("id"))
    few = connection.scan_polars("orders").filter(predicate).select("price").collect()
    assert few["price"].sort().equals(whole.filter(predicate)["price"].sort())


def test_less_is_read_for_less(data) -> None:
    def read(lazy) -> int:
        with pagecast.connect(data, memory="16MiB") as connection:
            lazy(connection.scan_polars("orders")).collect()
            return connection.statistics()["bytes_requested"]

    whole = read(lambda scan: scan)
    column = read(lambda scan: scan.select("id"))
    rows = read(lambda scan: scan.select("id").filter(col("id") < 10))
    first = read(lambda scan: scan.select("id").head(10))
    assert 0 < rows < column / 5 and first < column / 2 and column < whole / 3


def test_the_first_rows_come_before_a_filter(connection: pagecast.Connection) -> None:
    scan = connection.scan_polars("SELECT id FROM orders ORDER BY id")
    assert scan.head(10).filter(col("id") > 7).collect()["id"].to_list() == [8, 9]
    assert scan.filter(col("id") > 7).head(2).collect()["id"].to_list() == [8, 9]


def test_a_query_joins_a_frame(connection: pagecast.Connection) -> None:
    frame = polars.LazyFrame({"state": ["paid", "sent"], "weight": [1, 2]})
    joined = connection.scan_polars("SELECT state, id FROM orders WHERE id < 8").join(frame, on="state")
    assert joined.select(col("weight").sum()).collect().item() == 6
    assert connection.scan_polars("SELECT 1 AS one").collect().item() == 1


def test_errors_come_out(connection: pagecast.Connection) -> None:
    with pytest.raises(pagecast.SqlError, match="no table is called nothing"):
        connection.scan_polars("SELECT * FROM nothing")
    with pytest.raises(Exception, match="ivide by zero"):
        connection.scan_polars("SELECT 1 / (id - 5) AS x FROM orders").collect()
