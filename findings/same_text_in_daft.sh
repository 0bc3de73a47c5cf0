#!/usr/bin/env bash
# Five ordinary SQL queries that Daft answers without an error, and otherwise than SQL does.
#
# Queries that ran in DuckDB are moved to daft.sql(): a running total, a sum over what lies near, a
# prefix, and rows that are not in another table.
#
# Expected: the rows of the SQL standard, or an error that says what Daft does not have, of which
# it has many (EXCEPT, FIRST_VALUE, SUBSTRING .. FROM).
# Seen: with ORDER BY in a window and no frame, the standard's frame ends at the current row; Daft
# takes the whole partition, so a running total is the total in each row. RANGE over a descending
# order finds no row, and the result is NULL; ascending it is right. count() of a frame without
# rows is NULL and not 0. substr() counts from 0, so substr(s, 1, 2) leaves out the first letter.
# NOT IN a list with NULL is right, but NOT IN a query with NULL gives rows, and so does a NULL
# beside a query without.
#
# It hurts who moves queries, and who has a model write them. They were not found in the issue
# tracker.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check daft==0.7.26 pyarrow==25.0.1 duckdb==2.0.1

cat >look.py <<'PYTHON'
import os
from importlib.metadata import version

os.environ["DAFT_PROGRESS_BAR"] = "0"
os.environ["DO_NOT_TRACK"] = "true"

import daft
import duckdb
import pyarrow

print(", ".join(f"{name} {version(name)}" for name in ("daft", "pyarrow", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


sales = pyarrow.table(
    {"id": [1, 2, 3, 4], "shop": ["a", "a", "a", "b"], "n": [10, 20, 21, 5], "k": [1, 2, None, 7], "s": ["abc"] * 4}
)
gone = pyarrow.table({"k": [2, None]})
tables = {name: daft.from_arrow(table) for name, table in (("sales", sales), ("gone", gone))}


def both(what, expression, right, wrong, tail=""):
    query = f"SELECT id, {expression} AS x FROM sales {tail}"
    duck = sorted(duckdb.sql(query).fetchall())
    found = daft.sql(query, **tables).to_pydict()
    here = sorted(zip(found["id"], found["x"]))
    print(f"\n{what}: {expression} {tail}")
    see("  DuckDB", [row[1] for row in duck], right)
    see("  Daft", [row[1] for row in here], wrong)


part = "OVER (PARTITION BY shop ORDER BY"
both("running total", f"sum(n) {part} id)", [10, 30, 51, 5], [51, 51, 51, 5])
frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
both("with its frame", f"sum(n) {part} id {frame})", [10, 30, 51, 5], [10, 30, 51, 5])
near = "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"
both("near, ascending", f"sum(n) {part} n {near})", [10, 20, 41, 5], [10, 20, 41, 5])
both("near, descending", f"sum(n) {part} n DESC {near})", [10, 41, 21, 5], [None] * 4)
before = "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING"
both("how many before", f"count(n) {part} id {before})", [0, 1, 2, 0], [None, 1, 2, None])
both("prefix", "substr(s, 1, 2)", ["ab"] * 4, ["bc"] * 4)
both("not in a query", "n", [], [10, 21, 5], "WHERE k NOT IN (SELECT k FROM gone)")
both("a NULL not in a query", "n", [10, 5], [10, 21, 5], "WHERE k NOT IN (SELECT k FROM gone WHERE k IS NOT NULL)")
both("not in a list", "n", [], [], "WHERE k NOT IN (2, NULL)")

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
