"""What psycopg and SQLAlchemy do with a server, on the port that is the argument: types in both
formats, parameters, cursors, errors, cancelling, and the tables as they see them."""

import datetime
import decimal
import sys
import threading

import psycopg
import sqlalchemy
from sqlalchemy import func, select

PORT = int(sys.argv[1])
DSN = f"host=127.0.0.1 port={PORT} user=python dbname=pagecast"
LONG = "SELECT sum(value) FROM generate_series(1, 1000000000000)"


def values(connection):
    """The same values in both formats."""
    sql = """SELECT true, 7::smallint, 7::int, 7::bigint, 0.5::real, 0.1::double precision,
             12.340::numeric(10, 3), -12345678.9::numeric(20, 1), 'text', '\\x01ff'::bytea,
             DATE '2024-02-29', TIMESTAMP '1999-12-31 23:59:59.5',
             TIMESTAMPTZ '2024-01-01 00:00:00+00', INTERVAL '2 days', ARRAY[1, 2], NULL"""
    rows = []
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            rows.append(cursor.execute(sql).fetchone())
    text, binary = rows
    assert text == binary, (text, binary)
    assert text[6] == decimal.Decimal("12.340") and text[7] == decimal.Decimal("-12345678.9"), text
    assert text[10] == datetime.date(2024, 2, 29) and text[13] == datetime.timedelta(days=2), text
    assert text[11] == datetime.datetime(1999, 12, 31, 23, 59, 59, 500000), text
    assert text[12] == datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), text
    assert text[14] == [1, 2] and text[15] is None, text


def parameters(connection):
    one = lambda sql, *given: connection.execute(sql, given).fetchone()
    assert one("SELECT count(*) FROM nation WHERE n_regionkey = %s", 1) == (5,)
    assert one("SELECT n_name FROM nation WHERE n_name = %s", "PERU") == ("PERU",)
    assert one("SELECT count(*) FROM orders WHERE o_orderdate < %s", datetime.date(1995, 1, 1))[0] > 0
    assert one("SELECT count(*) FROM lineitem WHERE l_discount = %s", decimal.Decimal("0.05"))[0] > 0
    assert one("SELECT count(*) FROM lineitem WHERE l_discount > %s", 0.05)[0] > 0
    assert one("SELECT %s", "x") == ("x",)
    assert one("SELECT %s::int + 1", None) == (None,)
    assert one("SELECT count(*) FROM nation WHERE n_name = ANY(%s)", ["PERU", "CHINA"]) == (2,)
    assert one("SELECT count(*) FROM nation WHERE n_nationkey = ANY(%s)", [1, 2, 3]) == (3,)
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            # The fifth time psycopg prepares a statement.
            for key in range(8):
                row = cursor.execute("SELECT n_nationkey FROM nation WHERE n_nationkey = %s", (key,)).fetchone()
                assert row == (key,), row
            assert cursor.execute("SELECT n_name FROM nation ORDER BY 1 LIMIT %s", (2,)).fetchall() == [
                ("ALGERIA",),
                ("ARGENTINA",),
            ]


def meaning(connection):
    """What PostgreSQL means, in both formats."""
    sql = """SELECT to_char(DATE '2024-02-29', 'YYYY-MM'), 2.5::float8::int, 2.5::numeric::int,
             DATE '2024-03-01' - DATE '2024-02-01', TIMESTAMP '2024-03-01 12:00' - TIMESTAMP '2024-02-01',
             ARRAY(SELECT 1), to_date('29/02/24', 'DD/MM/YY'), %s::float8, coalesce(%s, 1)"""
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            row = cursor.execute(sql, (0.5, 2)).fetchone()
            between = datetime.timedelta(days=29, hours=12)
            assert row == ("2024-02", 2, 3, 29, between, [1], datetime.date(2024, 2, 29), 0.5, 2), row
    try:
        connection.execute("SELECT 2147483647::int + 1::int")
    except psycopg.errors.NumericValueOutOfRange:
        pass
    else:
        raise AssertionError("an integer left its range")


def copying(connection):
    with connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT n_nationkey, n_name FROM nation ORDER BY 1) TO STDOUT") as copy:
            rows = list(copy.rows())
        assert len(rows) == 25 and rows[0] == ("0", "ALGERIA"), rows[:2]
        binary = "COPY (SELECT 12.50::numeric(5, 2), DATE '2024-02-29', NULL::text, ARRAY[1, 2]::int[]) TO STDOUT (FORMAT binary)"
        with cursor.copy(binary) as copy:
            copy.set_types(["numeric", "date", "text", "int4[]"])
            rows = list(copy.rows())
    assert rows == [(decimal.Decimal("12.50"), datetime.date(2024, 2, 29), None, [1, 2])], rows


def options():
    with psycopg.connect(DSN, options="-c statement_timeout=5s --application_name=a\\ b") as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5000",)
        assert connection.execute("SHOW application_name").fetchone() == ("a b",)
        connection.rollback()
        with connection.transaction():
            connection.execute("SET LOCAL application_name = 'c'")
            assert connection.info.parameter_status("application_name") == "c"
        assert connection.info.parameter_status("application_name") == "a b"


def errors(connection):
    for sql, kind in [
        ("SELECT * FROM nowhere", psycopg.errors.UndefinedTable),
        ("SELECT nothing FROM nation", psycopg.errors.UndefinedColumn),
        ("SELEC 1", psycopg.errors.SyntaxError),
        ("SELECT 1/0", psycopg.errors.DivisionByZero),
        ("DELETE FROM nation", psycopg.errors.ReadOnlySqlTransaction),
    ]:
        try:
            connection.execute(sql)
        except kind:
            continue
        raise AssertionError(f"{sql} is no error")
    with connection.transaction():
        assert connection.execute("SELECT 1").fetchone() == (1,)


def cancelling(connection):
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    try:
        connection.execute(LONG)
    except psycopg.errors.QueryCanceled:
        pass
    else:
        raise AssertionError("nothing was cancelled")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def many_rows(connection):
    with connection.cursor() as cursor:
        rows = list(cursor.stream("SELECT l_orderkey, l_comment FROM lineitem"))
    count = connection.execute("SELECT count(*) FROM lineitem").fetchone()[0]
    assert len(rows) == count, (len(rows), count)


def cursors():
    """Cursors of the server live in transactions."""
    with psycopg.connect(DSN) as connection:
        with connection.cursor(name="many") as cursor:
            cursor.itersize = 1000
            cursor.execute("SELECT l_orderkey FROM lineitem")
            first = cursor.fetchmany(10)
            assert len(first) == 10
            assert sum(1 for _ in cursor) > 50_000


def reflection():
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://python@127.0.0.1:{PORT}/pagecast")
    inspector = sqlalchemy.inspect(engine)
    assert "lineitem" in inspector.get_table_names(), inspector.get_table_names()
    assert inspector.get_schema_names() == ["information_schema", "public"], inspector.get_schema_names()
    assert inspector.has_table("nation") and not inspector.has_table("nowhere")
    columns = {column["name"]: column for column in inspector.get_columns("lineitem")}
    assert isinstance(columns["l_orderkey"]["type"], sqlalchemy.BIGINT), columns["l_orderkey"]
    assert str(columns["l_discount"]["type"]) == "NUMERIC(15, 2)", columns["l_discount"]
    assert inspector.get_pk_constraint("lineitem")["constrained_columns"] == []
    assert inspector.get_indexes("lineitem") == [] and inspector.get_foreign_keys("lineitem") == []
    nation = sqlalchemy.Table("nation", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        key = nation.c.n_regionkey
        counted = select(key, func.count()).group_by(key).order_by(key)
        assert [tuple(row) for row in connection.execute(counted)] == [(region, 5) for region in range(5)]
        found = connection.execute(select(nation.c.n_name).where(nation.c.n_name.in_(["PERU", "CHINA"])))
        assert sorted(found.scalars()) == ["CHINA", "PERU"]
        streamed = connection.execution_options(stream_results=True).execute(select(nation.c.n_name))
        assert len(streamed.all()) == 25


with psycopg.connect(DSN, autocommit=True) as connection:
    for check in (values, parameters, meaning, copying, errors, cancelling, many_rows):
        check(connection)
        print(check.__name__)
cursors()
print("cursors")
options()
print("options")
reflection()
print("reflection")
