#!/usr/bin/env bash
# Daft's SQL does the ORDER BY at a query's end first, and its window functions afterwards, which
# takes the order away again; with LIMIT other rows come.
#
# A list of sales by number shows each with the total of its shop, ORDER BY id LIMIT 5.
#
# Expected: ORDER BY is what is done last before LIMIT. Rows come sorted whatever is in SELECT.
# Seen: the plan has the sort below the window. That lays rows by partition, or sorts them its own
# way, and the result keeps that: the first five are of one shop, and beside a row_number() OVER
# (ORDER BY id DESC) the numbers go down where they should go up. It needs no ORDER BY in the
# window, and happens by default. The DataFrame's sort() is right, and so is a sub-query around it.
# Few rows come sorted at times, so that a test with a handful passes now and then.
#
# It hurts pages of lists and "the latest ten", with no error and plausible rows. It was not found
# in the issue tracker.
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
from daft import Window, col

print(", ".join(f"{name} {version(name)}" for name in ("daft", "pyarrow", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


ROWS = 1000
sales = pyarrow.table({"id": range(ROWS), "shop": [number % 7 for number in range(ROWS)], "n": [1] * ROWS})
frame = daft.from_arrow(sales)


def ids(query):
    return daft.sql(query, sales=frame).to_pydict()["id"]


def is_sorted(numbers):
    return numbers == sorted(numbers)


total = "sum(n) OVER (PARTITION BY shop ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
plain = f"SELECT id, {total} AS total FROM sales"
query = f"{plain} ORDER BY id"
see("DuckDB, sorted", is_sorted([row[0] for row in duckdb.sql(query).fetchall()]), True)
found = [ids(query) for _ in range(5)]
print("Daft, the first of them:", found[0][:8])
see("Daft, sorted, five times", [is_sorted(numbers) for numbers in found], [False] * 5)
see("all rows are there", sorted(found[0]) == list(range(ROWS)), True)
see("DuckDB, LIMIT 5", [row[0] for row in duckdb.sql(f"{query} LIMIT 5").fetchall()], [0, 1, 2, 3, 4])
five = ids(f"{query} LIMIT 5")
print("Daft, LIMIT 5:", five)
see("Daft, LIMIT 5 are the first five", five == [0, 1, 2, 3, 4], False)
see("Daft, shops among the five", len({number % 7 for number in five}), 1)
bare = "SELECT id, sum(n) OVER (PARTITION BY shop) AS t FROM sales ORDER BY id"
see("no ORDER BY in the window, sorted", is_sorted(ids(bare)), False)
down = "SELECT id, row_number() OVER (ORDER BY id DESC) AS t FROM sales ORDER BY id LIMIT 3"
see("DuckDB, beside numbers from the end", [row[0] for row in duckdb.sql(down).fetchall()], [0, 1, 2])
see("Daft, beside numbers from the end", ids(down), [999, 998, 997])
see("around a sub-query, sorted", is_sorted(ids(f"SELECT * FROM ({plain}) ORDER BY id")), True)

window = Window().partition_by("shop").order_by("id").rows_between(Window.unbounded_preceding, Window.current_row)
api = frame.select("id", col("n").sum().over(window).alias("total")).sort("id").to_pydict()["id"]
see("the DataFrame, sorted", is_sorted(api), True)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
