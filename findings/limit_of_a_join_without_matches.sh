#!/usr/bin/env bash
# DuckDB 2.0.1 gives all rows where LIMIT 10 asks for ten, if a filter leaves nothing to join.
#
# Orders are shown with their lines of one kind, LEFT JOIN ... LIMIT 10, as a page of a list does
# it. There is no line of that kind today.
#
# Expected: ten orders, without lines. A LIMIT is a promise to whoever holds the rows.
# Seen: bounds of the column prove that the filter finds no row, and the side becomes "Empty
# Result" with at most 0 rows. The most that the join can give is then taken for 0, too, although
# it keeps its left side, and a limit above what can come is left out of the plan. FULL JOIN does
# the same, a filter by a parameter as well. ORDER BY or OFFSET bring the limit back, and so does a
# table that is really empty: one must have rows outside of the filter. DuckDB 1.5.5 limits.
#
# It hurts who pages through a large table: all of it comes, on the day that something is missing.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv now
now/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1
python3 -m venv before
before/bin/pip install --quiet --disable-pip-version-check duckdb==1.5.5

cat >look.py <<'PYTHON'
import sys

import duckdb

expected = [int(number) for number in sys.argv[1:]]
connection = duckdb.connect()
connection.execute("CREATE TABLE orders AS SELECT i AS id, i % 7 AS k FROM range(118) t(i)")
connection.execute("CREATE TABLE lines AS SELECT i AS id, i % 7 AS k, i % 3 AS kind FROM range(50) t(i)")
connection.execute("CREATE TABLE none AS SELECT * FROM lines LIMIT 0")
select = "SELECT o.id, l.id FROM orders o"
nine = f"{select} LEFT JOIN (SELECT * FROM lines WHERE kind = 9) l ON o.k = l.k"
queries = {
    "LEFT JOIN": (f"{nine} LIMIT 10", []),
    "the condition in ON": (f"{select} LEFT JOIN lines l ON o.k = l.k AND l.kind = 9 LIMIT 10", []),
    "FULL JOIN": (f"{nine} LIMIT 10".replace("LEFT", "FULL"), []),
    "a parameter": (f"{nine} LIMIT 10".replace("= 9", "= ?"), [9]),
    "a kind that is there": (f"{nine} LIMIT 10".replace("= 9", "= 2"), []),
    "an empty table": (f"{select} LEFT JOIN none l ON o.k = l.k LIMIT 10", []),
    "ORDER BY": (f"{nine} ORDER BY o.id LIMIT 10", []),
    "OFFSET 5": (f"{nine} LIMIT 10 OFFSET 5", []),
}
seen = []
print("DuckDB", duckdb.__version__)
for name, (query, parameters) in queries.items():
    seen.append(len(connection.execute(query, parameters).fetchall()))
    print(f"  {name}: {seen[-1]} rows")
connection.execute("SET disabled_optimizers = 'statistics_propagation'")
seen.append(len(connection.execute(queries["LEFT JOIN"][0]).fetchall()))
print(f"  LEFT JOIN without statistics: {seen[-1]} rows")
if seen != expected:
    raise SystemExit(f"No longer as it was: {expected}")
PYTHON
now/bin/python look.py 118 118 118 118 10 10 10 10 10
before/bin/python look.py 10 10 10 10 10 10 10 10 10
