"""What psycopg2 does with a server, on the port that is the argument, and SQLAlchemy with it."""

import datetime
import decimal
import sys
import threading

import psycopg2
import psycopg2.errors
import psycopg2.extras
import sqlalchemy

PORT = int(sys.argv[1])
DSN = f"host=127.0.0.1 port={PORT} user=psycopg2 dbname=pagecast"
LONG = "SELECT sum(value) FROM generate_series(1, 1000000000000)"


def values(cursor):
    cursor.execute(
        """SELECT true, 7::smallint, 7::int, 7::bigint, 0.5::real, 0.1::double precision, 12.340::numeric(10, 3), 'text',
           '\\x01ff'::bytea, DATE '2024-02-29', TIMESTAMP '1999-12-31 23:59:59.5',
           TIMESTAMPTZ '2024-01-01 00:00:00+00', INTERVAL '2 days', ARRAY[1, NULL, 3], ARRAY['a b'], NULL"""
    )
    row = cursor.fetchone()
    assert row[:8] == (True, 7, 7, 7, 0.5, 0.1, decimal.Decimal("12.340"), "text"), row
    assert bytes(row[8]) == b"\x01\xff" and row[9] == datetime.date(2024, 2, 29), row
    assert row[10] == datetime.datetime(1999, 12, 31, 23, 59, 59, 500000), row
    assert row[11] == datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), row
    assert row[12:] == (datetime.timedelta(days=2), [1, None, 3], ["a b"], None), row


def parameters(cursor):
    def one(sql, *given):
        cursor.execute(sql, given)
        return cursor.fetchone()[0]

    assert one("SELECT count(*) FROM nation WHERE n_regionkey = %s", 1) == 5
    assert one("SELECT count(*) FROM orders WHERE o_orderdate < %s", datetime.date(1995, 6, 1)) > 0
    assert one("SELECT count(*) FROM lineitem WHERE l_discount = %s", decimal.Decimal("0.05")) > 0
    assert one("SELECT count(*) FROM nation WHERE n_name IN %s", ("PERU", "CHINA")) == 2
    assert one("SELECT count(*) FROM nation WHERE n_nationkey = ANY(%s)", [1, 2, 3]) == 3
    assert bytes(one("SELECT %s", psycopg2.Binary(b"\x00\xff"))) == b"\x00\xff"
    assert one("SELECT %s::int", None) is None and one("SELECT %s", "it's") == "it's"


def in_pieces(connection):
    with connection.cursor("pieces", cursor_factory=psycopg2.extras.DictCursor) as cursor:
        cursor.itersize = 1000
        cursor.execute("SELECT o_orderkey FROM orders")
        assert sum(1 for row in cursor if row["o_orderkey"] >= 0) == 15000


def errors(connection, cursor):
    for sql, kind in [
        ("SELECT * FROM nowhere", psycopg2.errors.UndefinedTable),
        ("SELEC 1", psycopg2.errors.SyntaxError),
        ("SELECT 1/0", psycopg2.errors.DivisionByZero),
        ("DELETE FROM nation", psycopg2.errors.ReadOnlySqlTransaction),
    ]:
        try:
            cursor.execute(sql)
        except kind as error:
            assert error.pgcode, error
            connection.rollback()
            continue
        raise AssertionError(f"{sql} is no error")
    threading.Timer(0.3, connection.cancel).start()
    try:
        cursor.execute(LONG)
    except psycopg2.errors.QueryCanceled:
        connection.rollback()
    else:
        raise AssertionError("nothing was cancelled")


connection = psycopg2.connect(DSN)
with connection.cursor() as cursor:
    values(cursor)
    parameters(cursor)
    in_pieces(connection)
    errors(connection, cursor)
connection.close()
engine = sqlalchemy.create_engine(f"postgresql+psycopg2://psycopg2@127.0.0.1:{PORT}/pagecast")
inspector = sqlalchemy.inspect(engine)
assert "nation" in inspector.get_table_names() and inspector.get_view_names() == [], inspector.get_view_names()
assert [column["name"] for column in inspector.get_columns("nation")][:2] == ["n_nationkey", "n_name"]
assert inspector.get_multi_columns() and inspector.get_enums() == [] and inspector.get_check_constraints("nation") == []
