"""What ADBC's driver of PostgreSQL does with a server, on the port that is the argument. It looks
up all types on connecting, and reads results as `COPY (...) TO STDOUT (FORMAT binary)`, unless it
is told not to."""

import datetime
import decimal
import sys

import adbc_driver_postgresql.dbapi as dbapi

URI = f"postgresql://adbc@127.0.0.1:{sys.argv[1]}/pagecast"
COPY = "adbc.postgresql.use_copy"


def rows(connection, sql, given=None, copy=True):
    with connection.cursor() as cursor:
        if not copy:
            cursor.adbc_statement.set_options(**{COPY: "false"})
        cursor.execute(sql, given)
        return cursor.fetch_arrow_table()


def values(connection, copy):
    table = rows(
        connection,
        """SELECT true AS a, 7::smallint AS b, 7::int AS c, 7::bigint AS d, 0.5::real AS e, 0.1::double precision AS f,
           12.340::numeric(10, 3) AS g, 'text' AS h, '\\x01ff'::bytea AS i, DATE '2024-02-29' AS j,
           TIMESTAMP '1999-12-31 23:59:59.5' AS k, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS l,
           ARRAY[1, NULL, 3] AS n, NULL AS o""",
        copy=copy,
    )
    (row,) = table.to_pylist()
    assert list(row.values())[:6] == [True, 7, 7, 7, 0.5, 0.1], row
    assert decimal.Decimal(row["g"]) == decimal.Decimal("12.340") and row["h"] == "text", row
    assert row["i"] == b"\x01\xff" and row["j"] == datetime.date(2024, 2, 29), row
    assert row["k"] == datetime.datetime(1999, 12, 31, 23, 59, 59, 500000), row
    assert row["l"].timestamp() == 1704067200 and row["n"] == [1, None, 3] and row["o"] is None, row


def parameters(connection):
    one = lambda sql, *given: rows(connection, sql, given).column(0)[0].as_py()
    assert one("SELECT count(*) FROM nation WHERE n_regionkey = $1", 1) == 5
    assert one("SELECT n_name FROM nation WHERE n_name = $1", "PERU") == "PERU"
    assert one("SELECT count(*) FROM orders WHERE o_orderdate < $1", datetime.date(1995, 6, 1)) > 0


def metadata(connection):
    schema = connection.adbc_get_table_schema("nation", db_schema_filter="public")
    assert schema.names == ["n_nationkey", "n_name", "n_regionkey", "n_comment"], schema
    assert str(schema.field("n_nationkey").type) == "int64", schema
    objects = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
    (schema,) = objects[0]["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert "nation" in tables and tables["nation"]["table_constraints"] == [], tables
    assert len(tables["nation"]["table_columns"]) == 4, tables["nation"]
    assert "table" in connection.adbc_get_table_types()


def errors(connection):
    for sql, code in [("SELECT * FROM nowhere", "42P01"), ("SELECT 1/0", "22012")]:
        try:
            rows(connection, sql)
        except dbapi.Error as error:
            assert error.sqlstate == code, (sql, error.sqlstate, str(error))
            continue
        raise AssertionError(f"{sql} is no error")


with dbapi.connect(URI, autocommit=True) as connection:
    for copy in (True, False):
        values(connection, copy)
        assert rows(connection, "SELECT l_orderkey, l_comment FROM lineitem", copy=copy).num_rows > 50_000
        assert rows(connection, "SELECT 1 AS a WHERE false", copy=copy).num_rows == 0
    parameters(connection)
    metadata(connection)
    errors(connection)
