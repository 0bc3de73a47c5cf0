"""Tables in the `datafusion` package, read through our pool."""

import datafusion
import pagecast
import pytest


@pytest.fixture
def context(connection: pagecast.Connection) -> datafusion.SessionContext:
    context = datafusion.SessionContext()
    context.register_table("theirs", connection.table("orders"))
    return context


QUERIES = [
    "SELECT state, count(*) AS n, sum(amount) AS amount FROM {} GROUP BY state ORDER BY state",
    "SELECT id, day FROM {} WHERE day = DATE '2022-02-01' AND state LIKE 'p%' ORDER BY id",
    "SELECT id FROM {} ORDER BY id LIMIT 5",
    "SELECT count(*) AS n FROM {} a JOIN {} b ON a.id = b.id + 1 WHERE b.id < 100",
    "SELECT * FROM {} WHERE id IN (1, 77777) ORDER BY id",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_ours(connection: pagecast.Connection, context: datafusion.SessionContext, sql: str) -> None:
    theirs = context.sql(sql.format("theirs", "theirs")).to_pylist()
    assert theirs == connection.sql(sql.format("orders", "orders")).to_arrow().to_pylist() and theirs


def test_it_is_the_pool_that_reads(connection: pagecast.Connection, context: datafusion.SessionContext) -> None:
    before = connection.statistics()
    context.sql("SELECT sum(price) FROM theirs").collect()
    first = connection.statistics()
    assert first["bytes_requested"] > before["bytes_requested"] and first["bytes_read"] > before["bytes_read"]
    context.sql("SELECT sum(price) FROM theirs").collect()
    assert connection.statistics()["bytes_read"] == first["bytes_read"]
    first = connection.statistics()
    context.sql("SELECT sum(price) FROM theirs WHERE id < 10").collect()
    second = connection.statistics()
    # The filter came with the scan.
    few, all = (later["bytes_requested"] - sooner["bytes_requested"]
                for later, sooner in [(second, first), (first, before)])
    assert 0 < few < all


def test_a_view_and_a_file_are_tables_too(connection: pagecast.Connection, data) -> None:
    connection.sql("CREATE VIEW paid AS SELECT id, price FROM orders WHERE state = 'paid'")
    context = datafusion.SessionContext()
    context.register_table("paid", connection.table("paid"))
    context.register_table("days", connection.table(str(data / "days.csv")))
    assert context.sql("SELECT count(*) AS n FROM paid").to_pylist() == [{"n": 25_000}]
    assert context.sql("SELECT count(*) AS n FROM days").to_pylist() == [{"n": 2}]
    context.register_table("few", connection.sql("SELECT id FROM orders WHERE id < 7"))
    assert context.sql("SELECT count(*) AS n FROM few").to_pylist() == [{"n": 7}]
    with pytest.raises(pagecast.SqlError, match="no table is called nothing"):
        connection.table("nothing")
    with pytest.raises(ValueError, match="no query"):
        context.register_table("none", connection.sql("SUMMARIZE orders"))


def test_a_query_that_fails_says_so(connection: pagecast.Connection) -> None:
    connection.sql("CREATE VIEW bad AS SELECT 1 / (id - 5) AS x FROM orders")
    context = datafusion.SessionContext()
    context.register_table("bad", connection.table("bad"))
    with pytest.raises(Exception, match="ivide by zero"):
        context.sql("SELECT sum(x) FROM bad").collect()
