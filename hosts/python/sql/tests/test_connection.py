"""Tables, changes, counts, errors."""

import json
import threading
import warnings
from pathlib import Path

import pagecast
import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest


def test_tables_are_named(connection: pagecast.Connection, data: Path) -> None:
    assert connection.tables() == ["days", "orders"]
    assert repr(connection) == "<pagecast connection, 2 tables>"
    named = connection.sql(f"SELECT count(*) FROM '{data / 'orders.parquet'}'")
    assert named.to_polars().item() == 100_000


def test_tables_are_registered(connection: pagecast.Connection, data: Path) -> None:
    def count(table: str) -> int:
        return connection.sql(f"SELECT count(*) FROM {table}").to_polars().item()

    connection.register("again", data / "orders.parquet")
    assert count("again") == 100_000
    connection.register("again", str(data / "*.csv"))
    assert count("again") == 2
    for table in [
        polars.DataFrame({"id": [1, 2, 3]}),
        pandas.DataFrame({"id": [1, 2, 3]}),
        pyarrow.table({"id": [1, 2, 3]}),
        connection.sql("SELECT id FROM orders WHERE id < 3"),
    ]:
        connection.register("Few", table)
        assert count('"Few"') == 3
        assert count('orders JOIN "Few" USING (id)') == 3
    with pytest.raises(TypeError, match="a path or a table with `__arrow_c_stream__`"):
        connection.register("none", 7)
    with pytest.raises(pagecast.SqlError, match="no such file"):
        connection.register("none", data / "nothing.parquet")
    with pytest.raises(pagecast.SqlError, match="differ in format; name the files of one"):
        connection.register("none", data)


def test_a_delta_table_is_made_and_changed(connection: pagecast.Connection, tmp_path: Path) -> None:
    place = tmp_path / "items"
    connection.sql(f"CREATE EXTERNAL TABLE items (id BIGINT, state VARCHAR) STORED AS DELTATABLE LOCATION '{place}'")
    inserted = connection.sql("INSERT INTO items SELECT id, state FROM orders").to_polars()
    assert inserted.item() == 100_000
    # It has run once; to look at its rows again does not run it again.
    connection.sql("DELETE FROM items WHERE id >= 10").show()
    with pagecast.connect(tmp_path, memory="8MiB") as other:
        assert other.sql("SELECT count(*) FROM items").to_polars().item() == 10
        assert other.sql('SELECT count(*) FROM "items@v1"').to_polars().item() == 100_000
        other.sql("START TRANSACTION")
        other.sql("UPDATE items SET state = 'new' WHERE id = 1")
        assert connection.sql("SELECT count(*) FROM items WHERE state = 'new'").to_polars().item() == 0
        other.sql("COMMIT")
    assert connection.sql("SELECT count(*) FROM items WHERE state = 'new'").to_polars().item() == 1


def test_what_changes_something_runs_at_once(connection: pagecast.Connection, tmp_path: Path) -> None:
    connection.sql("CREATE VIEW paid AS SELECT * FROM orders WHERE state = 'paid'")
    assert connection.tables() == ["days", "orders", "paid"]
    file = tmp_path / "paid.parquet"
    connection.sql(f"COPY paid TO '{file}'")
    assert polars.read_parquet(file).height == 25_000
    connection.sql("SET datafusion.execution.batch_size = 100")
    assert connection.sql("SELECT id FROM orders").to_arrow()["id"].num_chunks >= 1000


def test_the_pool_counts(data: Path) -> None:
    with pagecast.connect(data, memory="64MiB") as connection:
        assert connection.statistics()["requests"] == 0
        sql = connection.sql("SELECT sum(id), sum(price) FROM orders")
        sql.to_arrow()
        first = connection.statistics()
        assert 0 < first["bytes_read"] and 0 < first["bytes_requested"]
        sql.to_arrow()
        second = connection.statistics()
        # All of it is in the pool, as is what was asked for.
        assert second["bytes_read"] == first["bytes_read"]
        assert second["bytes_requested"] == 2 * first["bytes_requested"]
        assert second["hits"] > first["hits"] and second["hit_rate"] > 0.4


def test_arguments_are_checked(data: Path, tmp_path: Path) -> None:
    for arguments, words in [
        ({"memory": "30%"}, "memory: `30%` is no amount"),
        ({"memory": "much"}, "memory: `much` is no size"),
        ({"memory": 1}, "memory: "),
        ({"memory": 0}, "memory: "),
        ({"policy": "best"}, "policy: "),
        ({"policy": "opt"}, "policy: opt needs the future"),
        ({"delivery": "soon"}, "delivery: `soon` is none"),
        ({"endpoint": "http://127.0.0.1:1"}, "endpoint: "),
        ({"flash_writes": "1MB"}, "flash_writes: there is no flash"),
        ({"temp": tmp_path / "nothing"}, "temp: no temporary files can be made in "),
        ({"max_temp": "10%"}, "max_temp: `10%` is no amount"),
        ({"flash": (tmp_path, "1KiB")}, "flash: "),
    ]:
        with pytest.raises(ValueError) as raised:
            pagecast.connect(data, **arguments)
        assert str(raised.value).startswith(words) and "\n" not in str(raised.value)
    with pytest.raises(TypeError, match="memory: a number of bytes"):
        pagecast.connect(data, memory=1.5)
    with pytest.raises(pagecast.SqlError, match="data: cannot open"):
        pagecast.connect(tmp_path / "nothing")
    with pytest.raises(pagecast.SqlError, match="no Parquet file in"):
        pagecast.connect(tmp_path)
    with pagecast.connect(memory=64 << 20, policy="lru", delivery="stock") as connection:
        assert connection.tables() == []
        assert connection.sql("SELECT 1 AS one").to_arrow().to_pylist() == [{"one": 1}]
        with pytest.raises(pagecast.SqlError, match="tables: there are none"):
            connection.sql("SELECT * FROM orders")


def test_errors_are_one_line(connection: pagecast.Connection) -> None:
    for sql, words in [
        ("SELEC * FROM orders", "1:1: "),
        ("SELECT\n1 FROM (", "2:"),
        ("SELECT * FROM customers", "no table is called customers; tables: days, orders"),
        ("SELECT missing FROM orders", "missing"),
    ]:
        with pytest.raises(pagecast.SqlError) as raised:
            connection.sql(sql)
        assert words in str(raised.value) and "\n" not in str(raised.value)
    for sql, words in [("", "no statement"), ("SELECT 1; SELECT 2", "2 statements")]:
        with pytest.raises(ValueError, match=words):
            connection.sql(sql)
    assert connection.sql("SELECT 1;").to_polars().item() == 1


def test_deep_statements_run_or_are_refused_on_any_thread(connection: pagecast.Connection) -> None:
    said = []

    def ask() -> None:
        said.append(connection.sql("SELECT 1" + "+1" * 900 + " AS n").to_polars().item())
        said.append(len(connection.sql("SELECT 1 AS n" + " UNION ALL SELECT 1" * 450).to_polars()))
        for deep in ["SELECT 1" + "+1" * 2000, "SELECT 1" + " UNION ALL SELECT 1" * 7000]:
            try:
                connection.sql(deep)
            except pagecast.SqlError as error:
                said.append("levels deep" in str(error))

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert said == [901, 451, True, True]


def test_a_query_that_fails_in_its_middle_says_so(connection: pagecast.Connection) -> None:
    result = connection.sql("SELECT 1 / (id - 77777) AS x FROM orders ORDER BY x")
    for take in [result.to_arrow, result.to_polars, result.to_pandas, result.show]:
        with pytest.raises(pagecast.SqlError, match=r"^(Arrow error: )?Divide by zero( error)?$"):
            take()
    # Who takes the stream without us has an error of its own, with these words.
    with pytest.raises(Exception, match="ivide by zero"):
        pyarrow.table(result)
    assert connection.sql("SELECT count(*) FROM orders").to_polars().item() == 100_000


# Takes more than the least that statements have: rows of one key are joined in memory.
SIDE = "(SELECT value % {keys} AS k, repeat('x', 100) || value AS t FROM range(1000000))"
JOINED = f"SELECT count(a.t || b.t) FROM {SIDE} AS a JOIN {SIDE} AS b ON a.k = b.k"
HUNGRY = JOINED.format(keys=1)


def test_what_takes_more_than_there_is_goes_to_disk(tmp_path: Path) -> None:
    with pagecast.connect(memory="16MiB", temp=tmp_path) as connection:
        assert connection.sql(JOINED.format(keys=1_000_000)).to_polars().item() == 1_000_000
        in_order = connection.sql("SELECT value FROM range(6000000) ORDER BY value % 7, repeat('x', 30)").to_arrow()
        assert in_order.num_rows == 6_000_000
        assert any(tmp_path.iterdir())
    with pagecast.connect(memory="16MiB", temp=tmp_path, max_temp="1MiB") as connection:
        with pytest.raises(pagecast.SqlError, match=f"1048576 bytes in {tmp_path}, the limit of temporary files"):
            connection.sql(JOINED.format(keys=1_000_000)).to_arrow()


def test_memory_of_queries_is_bounded(data: Path) -> None:
    with pagecast.connect(data, memory="16MiB") as connection:
        with pytest.raises(pagecast.SqlError, match="Resources exhausted"):
            connection.sql(HUNGRY).to_arrow()
        assert connection.sql("SELECT count(*) FROM orders").to_polars().item() == 100_000


def test_rows_that_a_program_keeps_are_its_own() -> None:
    with pagecast.connect(memory="16MiB") as connection:
        # 160 and 320 MB, of which the first are kept.
        first = connection.sql("SELECT value FROM range(20000000)").to_arrow()
        second = connection.sql("SELECT value, -value AS less FROM range(20000000)").to_arrow()
        assert (first.num_rows, second.num_rows) == (20_000_000, 20_000_000)
        # The rows of a statement without ORDER BY come in any order.
        last = second.filter(pyarrow.compute.field("value") == 19_999_999)
        assert last.to_pylist() == [{"value": 19_999_999, "less": -19_999_999}]
        assert first.nbytes == 160_000_000
        del first, second
        with pytest.raises(pagecast.SqlError, match="Resources exhausted"):
            connection.sql(HUNGRY).to_arrow()


def test_a_broken_table_warns(data: Path, tmp_path: Path) -> None:
    (tmp_path / "whole.parquet").write_bytes((data / "orders.parquet").read_bytes())
    (tmp_path / "torn.parquet").write_bytes((data / "orders.parquet").read_bytes()[:-100])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        connection = pagecast.connect(tmp_path)
    assert [str(warning.message)[:23] for warning in caught] == ["table torn is closed: /"]
    assert caught[0].filename == __file__
    with connection, pytest.raises(pagecast.SqlError, match="table torn is closed"):
        connection.sql("SELECT * FROM torn")


def test_tables_may_have_files_where_they_are_allowed(data: Path, tmp_path: Path) -> None:
    log = tmp_path / "data" / "t" / "_delta_log"
    log.mkdir(parents=True)
    column = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    orders = data / "orders.parquet"
    add = {"path": orders.as_uri(), "partitionValues": {}, "size": orders.stat().st_size, "modificationTime": 0,
           "dataChange": True, "stats": json.dumps({"numRecords": 100_000})}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9", "format": {"provider": "parquet", "options": {}},
                      "schemaString": json.dumps({"type": "struct", "fields": [column]}), "partitionColumns": [],
                      "configuration": {}}},
        {"add": add},
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(pagecast.SqlError, match="unless you allow"):
        pagecast.connect(tmp_path / "data")
    with pagecast.connect(tmp_path / "data", allow=[data]) as connection:
        assert connection.sql("SELECT count(*), max(id) FROM t").to_polars().rows() == [(100_000, 99_999)]


def test_catalogs_of_other_formats_are_opened(tmp_path: Path) -> None:
    with pagecast.connect() as connection:
        for stored, why in [("ICEBERG", "no Iceberg table"), ("DUCKLAKE", "a DuckLake catalog in SQLite")]:
            with pytest.raises(pagecast.SqlError, match=why):
                connection.sql(f"CREATE EXTERNAL TABLE x STORED AS {stored} LOCATION '{tmp_path}/none'")


def test_closed_is_closed(data: Path) -> None:
    connection = pagecast.connect(data, memory="16MiB")
    result = connection.sql("SELECT count(*) FROM orders")
    connection.close()
    connection.close()
    assert repr(connection) == "<pagecast connection, closed>"
    with pytest.raises(ValueError, match="the connection is closed"):
        connection.sql("SELECT 1")
    # What was planned keeps its pool until it goes.
    assert result.to_polars().item() == 100_000


def test_threads_share_a_connection(connection: pagecast.Connection) -> None:
    sums: list[int] = []

    def ask(state: str) -> None:
        for _ in range(5):
            sql = f"SELECT count(*) FROM orders WHERE state = '{state}'"
            sums.append(connection.sql(sql).to_polars().item())

    threads = [threading.Thread(target=ask, args=(state,)) for state in ["open", "paid", "sent"] * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [25_000] * 45
