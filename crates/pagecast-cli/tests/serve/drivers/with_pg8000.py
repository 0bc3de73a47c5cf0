"""What pg8000 does with a server, on the port that is the argument: a driver all in Python."""

import datetime
import decimal
import sys

import pg8000.dbapi
import pg8000.native

PORT = int(sys.argv[1])
WHERE = {"user": "pg8000", "host": "127.0.0.1", "port": PORT, "database": "pagecast"}


def values(connection):
    (row,) = connection.run(
        """SELECT true, 7::smallint, 7::int, 7::bigint, 0.5::real, 0.1::double precision, 12.340::numeric(10, 3),
           'text', '\\x01ff'::bytea, DATE '2024-02-29', TIMESTAMP '1999-12-31 23:59:59.5',
           TIMESTAMPTZ '2024-01-01 00:00:00+00', INTERVAL '2 days', ARRAY[1, NULL, 3], ARRAY['a b'], NULL"""
    )
    assert row[:6] == [True, 7, 7, 7, 0.5, 0.1], row
    assert row[6:9] == [decimal.Decimal("12.340"), "text", b"\x01\xff"], row
    assert row[9] == datetime.date(2024, 2, 29), row
    assert row[10] == datetime.datetime(1999, 12, 31, 23, 59, 59, 500000), row
    assert row[11] == datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), row
    assert row[12] == datetime.timedelta(days=2) and row[13] == [1, None, 3] and row[14] == ["a b"], row
    assert row[15] is None, row
    assert [column["name"] for column in connection.run("SELECT 1 AS one") and connection.columns] == ["one"]


def parameters(connection):
    one = lambda sql, **given: connection.run(sql, **given)[0][0]
    assert one("SELECT count(*) FROM nation WHERE n_regionkey = :key", key=1) == 5
    assert one("SELECT n_name FROM nation WHERE n_name = :name", name="PERU") == "PERU"
    assert one("SELECT count(*) FROM orders WHERE o_orderdate < :day", day=datetime.date(1995, 6, 1)) > 0
    assert one("SELECT count(*) FROM lineitem WHERE l_discount = :part", part=decimal.Decimal("0.05")) > 0
    assert one("SELECT count(*) FROM nation WHERE n_nationkey = ANY(:keys)", keys=[1, 2, 3]) == 3
    assert one("SELECT CAST(:bytes AS bytea)", bytes=b"\x00\xff") == b"\x00\xff"
    assert one("SELECT CAST(:missing AS int)", missing=None) is None
    prepared = connection.prepare("SELECT n_name FROM nation WHERE n_nationkey = :key ORDER BY 1")
    assert len([prepared.run(key=key) for key in range(3)]) == 3
    prepared.close()


def errors(connection):
    for sql, code in [("SELECT * FROM nowhere", "42P01"), ("SELEC 1", "42601"), ("SELECT 1/0", "22012")]:
        try:
            connection.run(sql)
        except pg8000.native.DatabaseError as error:
            assert error.args[0]["C"] == code, error
            continue
        raise AssertionError(f"{sql} is no error")


def in_transactions():
    """Its DB-API begins a transaction by itself."""
    with pg8000.dbapi.connect(**WHERE) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT o_orderkey FROM orders WHERE o_orderkey < %s ORDER BY 1", (100000,))
        assert len(cursor.fetchmany(10)) == 10 and len(cursor.fetchall()) > 100
        connection.rollback()


with pg8000.native.Connection(**WHERE) as connection:
    for check in (values, parameters, errors):
        check(connection)
        print(check.__name__)
in_transactions()
