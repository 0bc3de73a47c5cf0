"""What asyncpg does with a server, on the port that is the argument: everything in the binary
format, and types of arrays that it looks up in the catalog."""

import asyncio
import datetime
import decimal
import sys

import asyncpg

PORT = int(sys.argv[1])
LONG = "SELECT sum(value) FROM generate_series(1, 1000000000000)"


async def values(connection):
    row = await connection.fetchrow(
        """SELECT true AS a, 7::smallint AS b, 7::int AS c, 7::bigint AS d, 0.5::real AS e, 0.1::double precision AS f,
           12.340::numeric(10, 3) AS g, 'text' AS h, '\\x01ff'::bytea AS i, DATE '2024-02-29' AS j,
           TIMESTAMP '1999-12-31 23:59:59.5' AS k, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS l, INTERVAL '2 days' AS m,
           ARRAY[1, NULL, 3] AS n, ARRAY['a b', 'c'] AS o, ARRAY[1.5::numeric(4, 2)] AS p, ARRAY[true] AS q,
           ARRAY[DATE '2024-02-29'] AS r, NULL AS s"""
    )
    assert tuple(row)[:6] == (True, 7, 7, 7, 0.5, 0.1), row
    assert row["g"] == decimal.Decimal("12.340") and row["h"] == "text" and row["i"] == b"\x01\xff", row
    assert row["j"] == datetime.date(2024, 2, 29) and row["m"] == datetime.timedelta(days=2), row
    assert row["k"] == datetime.datetime(1999, 12, 31, 23, 59, 59, 500000), row
    assert row["l"] == datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), row
    assert row["n"] == [1, None, 3] and row["o"] == ["a b", "c"], row
    assert row["p"] == [decimal.Decimal("1.50")] and row["q"] == [True], row
    assert row["r"] == [datetime.date(2024, 2, 29)] and row["s"] is None, row


async def parameters(connection):
    one = connection.fetchval
    assert await one("SELECT count(*) FROM nation WHERE n_regionkey = $1", 1) == 5
    assert await one("SELECT n_name FROM nation WHERE n_name = $1", "PERU") == "PERU"
    assert await one("SELECT count(*) FROM orders WHERE o_orderdate < $1", datetime.date(1995, 6, 1)) > 0
    assert await one("SELECT count(*) FROM lineitem WHERE l_discount = $1", decimal.Decimal("0.05")) > 0
    assert await one("SELECT count(*) FROM nation WHERE n_nationkey = ANY($1::bigint[])", [1, 2, 3]) == 3
    assert await one("SELECT count(*) FROM nation WHERE n_name = ANY($1)", ["PERU", "CHINA"]) == 2
    assert await one("SELECT $1::boolean", False) is False
    assert await one("SELECT $1::bytea", b"\x00\xff") == b"\x00\xff"
    assert await one("SELECT $1::timestamp", datetime.datetime(2000, 1, 2, 3)) == datetime.datetime(2000, 1, 2, 3)
    assert await one("SELECT $1::interval", datetime.timedelta(hours=5)) == datetime.timedelta(hours=5)
    assert await one("SELECT $1::double precision", 0.25) == 0.25
    assert await one("SELECT $1::int", None) is None


async def in_pieces(connection):
    count = 0
    async with connection.transaction():
        async for _ in connection.cursor("SELECT o_orderkey FROM orders", prefetch=1000):
            count += 1
    assert count == 15000, count


async def errors(connection):
    for sql, kind in [
        ("SELECT * FROM nowhere", asyncpg.UndefinedTableError),
        ("SELECT nothing FROM nation", asyncpg.UndefinedColumnError),
        ("SELEC 1", asyncpg.PostgresSyntaxError),
        ("SELECT 1/0", asyncpg.DivisionByZeroError),
    ]:
        try:
            await connection.fetch(sql)
        except kind:
            continue
        raise AssertionError(f"{sql} is no error")


async def cancelling(connection):
    try:
        await connection.fetch(LONG, timeout=0.5)
    except TimeoutError:
        pass
    else:
        raise AssertionError("nothing was cancelled")
    assert await connection.fetchval("SELECT 1") == 1


async def pooled():
    """A pool resets a connection that comes back."""
    where = {"host": "127.0.0.1", "port": PORT, "user": "asyncpg", "database": "pagecast"}
    async with asyncpg.create_pool(**where, min_size=1, max_size=2) as pool:
        for number in range(4):
            async with pool.acquire() as connection:
                assert await connection.fetchval("SELECT $1::int", number) == number


async def main():
    connection = await asyncpg.connect(host="127.0.0.1", port=PORT, user="asyncpg", database="pagecast")
    for check in (values, parameters, in_pieces, errors, cancelling):
        await check(connection)
        print(check.__name__)
    statement = await connection.prepare("SELECT n_nationkey, n_name FROM nation WHERE n_nationkey = $1")
    assert [column.type.name for column in statement.get_attributes()] == ["int8", "text"]
    await connection.close()
    await pooled()


asyncio.run(main())
