#!/usr/bin/env bash
# DataFusion selects the column of another table: its name is the same, and a filter stands between.
#
# Three tables have a column x, two FULL JOINs put them together, and a condition on b.x that is no
# plain comparison stays above the joins. `SELECT c.x + a.y, a.x` asks for two of the three.
#
# Expected: a.x is a.x, whatever the condition reads.
# Seen: a.x is b.x, and c.x is a.x, in silence. Where the names differ at one of the places the same
# statement ends with an internal error. With the sum left apart, or with the condition's column in
# the select list, the rows are right.
#
# The filter hands on only what is selected. A projection that is moved below such a filter keeps
# its places, which are then places among what the filter is given.
#
# It hurts whoever joins tables that name columns alike, and most that have an id do.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datafusion==55.0.0 duckdb==2.0.1

cat >look.py <<'PYTHON'
from importlib.metadata import version

import duckdb
from datafusion import SessionContext

print(", ".join(f"{name} {version(name)}" for name in ("datafusion", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


JOINED = """FROM (VALUES (1, 10, 100)) AS a (k, x, y)
    FULL JOIN (VALUES (1, 15)) AS b (k, x) ON a.k = b.k
    FULL JOIN (VALUES (1, 17)) AS c (k, x) ON a.k = c.k
    WHERE coalesce(b.x, 1) > 0"""
context = SessionContext()


def found(engine, columns):
    sql = f"SELECT {columns} {JOINED}"
    if engine == "DuckDB":
        return duckdb.sql(sql).fetchall()[0]
    try:
        (row,) = [tuple(row.values()) for row in context.sql(sql).to_pylist()]
        return row
    except Exception as error:
        return "an internal error" if "Internal error" in str(error) else str(error)


for engine, both, other_name in (
    ("DuckDB", (117, 10), (101, 10)),
    ("DataFusion", (110, 15), "an internal error"),
):
    see(f"{engine}, c.x + a.y and a.x", found(engine, "c.x + a.y AS s, a.x AS ax"), both)
    see(f"{engine}, c.k + a.y and a.x", found(engine, "c.k + a.y AS s, a.x AS ax"), other_name)
    see(f"{engine}, c.x, a.y and a.x", found(engine, "c.x AS cx, a.y AS ay, a.x AS ax"), (17, 100, 10))
    see(f"{engine}, b.x with them", found(engine, "c.x + a.y AS s, a.x AS ax, b.x AS bx"), (117, 10, 15))

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
