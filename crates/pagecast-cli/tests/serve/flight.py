"""What ADBC's driver of Flight SQL does with a server. The arguments: its address, the folder with
TPC-H's queries, a folder for their answers, and its certificate if it has one."""

import datetime
import pathlib
import sys
import threading
import time

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

ADDRESS, QUERIES, ANSWERS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CERTIFICATE = sys.argv[4] if len(sys.argv) > 4 else None
URI = f"grpc+{'tls' if CERTIFICATE else 'tcp'}://{ADDRESS}"
LONG = "SELECT sum(value) FROM generate_series(1, 1000000000000)"
Error = flightsql.Error


def connect(user="ada", password="secret"):
    options = {"username": user, "password": password}
    if CERTIFICATE:
        options[DatabaseOptions.TLS_ROOT_CERTS.value] = pathlib.Path(CERTIFICATE).read_text()
    return flightsql.connect(URI, db_kwargs=options)


def refused(work):
    try:
        work()
    except Error as error:
        return str(error)
    raise AssertionError("it was not refused")


def one(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()


def passwords(_):
    for user, password in [("ada", "other"), ("ada", ""), ("eve", "secret")]:
        said = refused(lambda: one(connect(user, password), "SELECT 1"))
        assert "password authentication failed" in said or "log in" in said, said


def field(value):
    """A field of CSV as the shell writes it."""
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def answers(connection):
    """TPC-H, for the shell's answers to be laid beside."""
    for path in sorted(QUERIES.glob("q*.sql")):
        with connection.cursor() as cursor:
            cursor.execute(path.read_text().strip().rstrip(";"))
            table = cursor.fetch_arrow_table()
        rows = [table.column_names, *zip(*(column.to_pylist() for column in table.columns))]
        lines = [",".join(field(value) for value in row) for row in rows]
        (ANSWERS / f"{path.stem}.csv").write_text("\n".join(lines) + "\n")


def metadata(connection):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "pagecast", info
    assert sorted(connection.adbc_get_table_types()) == ["SYSTEM TABLE", "TABLE", "VIEW"]
    catalogs = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
    assert [catalog["catalog_name"] for catalog in catalogs] == ["pagecast"], catalogs
    (schema,) = catalogs[0]["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert len(tables) == 8 and all(table["table_type"] == "TABLE" for table in tables.values()), tables.keys()
    columns = [column["column_name"] for column in tables["nation"]["table_columns"]]
    assert columns == ["n_nationkey", "n_name", "n_regionkey", "n_comment"], columns
    schemas = connection.adbc_get_objects(depth="db_schemas").read_all().to_pylist()[0]["catalog_db_schemas"]
    assert {"public", "pg_catalog"} <= {schema["db_schema_name"] for schema in schemas}, schemas
    schema = connection.adbc_get_table_schema("lineitem", db_schema_filter="public")
    assert schema.field("l_orderkey").type == pyarrow.int64(), schema
    assert schema.field("l_discount").type == pyarrow.decimal128(15, 2), schema
    with connection.cursor() as cursor:
        assert cursor.adbc_execute_schema("SELECT n_name FROM nation").names == ["n_name"]


def parameters(connection):
    assert one(connection, "SELECT count(*) FROM nation WHERE n_regionkey = ?", (1,)) == (5,)
    assert one(connection, "SELECT n_name FROM nation WHERE n_name = $1", ("PERU",)) == ("PERU",)
    assert one(connection, "SELECT count(*) FROM orders WHERE o_orderdate < ?", (datetime.date(1995, 1, 1),))[0] > 0
    with connection.cursor() as cursor:
        cursor.adbc_prepare("SELECT n_nationkey FROM nation WHERE n_nationkey = ?")
        for key in range(5):
            cursor.execute("SELECT n_nationkey FROM nation WHERE n_nationkey = ?", (key,))
            assert cursor.fetchall() == [(key,)]


def errors(connection):
    for sql, words in [
        ("SELECT * FROM nowhere", "no table is called nowhere"),
        ("SELEC 1", "42601"),
        ("SELECT 1/0", "22012"),
        ("DELETE FROM nation", "25006"),
        ("SELECT * FROM '/etc/passwd'", "may not name files"),
    ]:
        said = refused(lambda: one(connection, sql))
        assert words in said, said
    assert one(connection, "SELECT 1") == (1,)
    rows = pyarrow.table({"n_nationkey": [1]})
    with connection.cursor() as cursor:
        said = refused(lambda: cursor.adbc_ingest("nation", rows, mode="append"))
        assert "25006" in said, said


def cancelling(connection):
    with connection.cursor() as cursor:
        timer = threading.Timer(0.5, cursor.adbc_cancel)
        timer.start()
        said = refused(lambda: (cursor.execute(LONG), cursor.fetchall()))
        assert "cancel" in said.lower(), said
    assert one(connection, "SELECT 1") == (1,)


def many_rows(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT l_orderkey, l_comment FROM lineitem")
        rows = sum(batch.num_rows for batch in cursor.fetch_record_batch())
    assert rows == one(connection, "SELECT count(*) FROM lineitem")[0], rows


with connect() as connection:
    for check in (passwords, answers, metadata, parameters, errors, cancelling, many_rows):
        began = time.monotonic()
        check(connection)
        print(f"{check.__name__}: {time.monotonic() - began:.1f} s")
    # Nothing of what was cancelled is left: the one query is the one that asks.
    for _ in range(600):
        running = one(connection, "SELECT value FROM pagecast.status WHERE name = 'queries_running'")[0]
        if running == 1:
            break
        time.sleep(0.1)
    assert running == 1, running
