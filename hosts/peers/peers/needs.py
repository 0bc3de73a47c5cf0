"""Statements that may need more memory than they are given, and the two tables that they read.

`f` and `h` have as many rows. `id` is a row's own number, in no order; `k` is that of one of four
rows, `s` that of any row, one row in ten has number 7 there; `g` is one of a thousand; `t` and `u`
are texts of 32 bytes, each in one row.
"""

import os
from pathlib import Path

# Bytes of a row in memory and in files, about.
ROW = 72
TABLES = ("f", "h")

# Statements by name. The last columns of wide results are left out: what is compared is small.
STATEMENTS = {
    "join one to one": "SELECT count(*), sum(f.v * h.w) FROM f JOIN h ON f.id = h.id",
    "join with texts": "SELECT count(*), sum(length(f.t || h.u)) FROM f JOIN h ON f.id = h.id",
    "join skewed": "SELECT count(*), sum(f.v * h.w) FROM f JOIN h ON f.s = h.id",
    "join of three": "SELECT count(*), sum(f.v * h.w - i.w) FROM f JOIN h ON f.id = h.id JOIN h AS i ON f.k = i.id",
    "left join and condition": "SELECT count(*), count(h.id), sum(f.v - h.w) FROM f LEFT JOIN h ON f.id = h.id AND f.v < h.w",
    "full join": "SELECT count(*), sum(f.v), sum(h.w) FROM f FULL JOIN h ON f.k = h.id",
    "semi join": "SELECT count(*), sum(v) FROM f WHERE EXISTS (SELECT 1 FROM h WHERE h.id = f.k AND h.w > f.v)",
    "anti join": "SELECT count(*), sum(v) FROM f WHERE NOT EXISTS (SELECT 1 FROM h WHERE h.id = f.k AND h.w > f.v)",
    "not in": "SELECT count(*), sum(v) FROM f WHERE id NOT IN (SELECT k FROM h)",
    "join by an inequality": "SELECT count(*), sum(a.v - b.w) FROM (SELECT v FROM f WHERE g = 1) AS a JOIN (SELECT w FROM h WHERE g = 2) AS b ON a.v < b.w",
    "self join": "SELECT count(*), sum(a.v - b.v) FROM f AS a JOIN f AS b ON a.id = b.k",
    "sort": "SELECT id FROM f ORDER BY t",
    "sort of wide rows": "SELECT length(a) + id FROM (SELECT id, t, repeat(t, 8) AS a FROM f) ORDER BY t DESC, a",
    "top rows": "SELECT id FROM f ORDER BY t LIMIT 1000",
    "distinct": "SELECT count(*) FROM (SELECT DISTINCT t FROM f)",
    "count distinct": "SELECT count(DISTINCT t), count(DISTINCT id) FROM f",
    "groups as many as rows": "SELECT count(*), sum(n), max(v) FROM (SELECT t, count(*) AS n, sum(v) AS v FROM f GROUP BY t)",
    "window of parts": "SELECT sum(r) FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY t) AS r FROM f)",
    "window of all": "SELECT max(r) FROM (SELECT sum(v) OVER (ORDER BY t) AS r FROM f)",
    "rollup": "SELECT count(*), sum(v) FROM (SELECT g, k, sum(v) AS v FROM f GROUP BY ROLLUP (g, k))",
    "string_agg": "SELECT sum(length(a)) FROM (SELECT g, string_agg(t, ',') AS a FROM f GROUP BY g)",
    "array_agg": "SELECT sum(array_length(a)) FROM (SELECT k, array_agg(v) AS a FROM f GROUP BY k)",
}


def make(folder: Path, data_bytes: int) -> Path:
    """A folder of tables with so many bytes in all, made whole or not at all."""
    import duckdb

    # An odd number of rows has no factor that the numbers below have.
    made, rows = folder / f"{data_bytes >> 20}", data_bytes // len(TABLES) // ROW | 1
    if made.is_dir():
        return made
    unfinished = folder / f"{made.name}.unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    numbers = f"(i * 65536 + 13) % {rows}"
    texts = "md5(i::varchar)"
    for table, seed, value, text in (("f", 2, "v", "t"), ("h", 3, "w", "u")):
        duckdb.execute(f"""COPY (SELECT {numbers} AS id, {numbers} % ({rows} // 4) AS k,
            CASE WHEN i % 10 = 3 THEN 7 ELSE (hash(i) % {rows})::BIGINT END AS s, (hash(i + 1) % 1000)::BIGINT AS g,
            (hash(i + {seed}) % 100000)::BIGINT AS {value}, {texts} AS {text} FROM range({rows}) AS r (i))
            TO '{unfinished}/{table}.parquet' (FORMAT parquet, COMPRESSION uncompressed)""")
    # So that they may leave the cache.
    os.sync()
    unfinished.rename(made)
    return made
