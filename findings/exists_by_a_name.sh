#!/usr/bin/env bash
# DataFusion gives no rows for an EXISTS, because the other table has a column of the key's name.
#
# Orders are looked up in lines by `orders.k = lines.x`. The lines have a column `k`, too, with
# values of its own, and the condition of the EXISTS reads it. A third condition keeps the orders
# whose `k` is among some keys.
#
# Expected: optional optimizations change how long a query takes, and `l.k` is not `o.k`.
# Seen: the keys that the last join has found are handed to both sides of the EXISTS, since a key of
# a semi join is the same on both. On the other side they are a filter of the column that has the
# key's name. The bounds of `lines.k` do not reach those keys, so all row groups are left out. It
# needs no option: a switch for joins that tell their keys turns it off. With another name for the
# column, or with the filter as a list of numbers, the rows are there.
#
# It hurts whoever writes EXISTS over tables that call their own keys alike: `id`, `key`, `code`.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 datafusion==55.0.0 duckdb==2.0.1

cat >look.py <<'PYTHON'
from importlib.metadata import version

import duckdb
import pyarrow
import pyarrow.parquet
from datafusion import SessionConfig, SessionContext

print(", ".join(f"{name} {version(name)}" for name in ("pyarrow", "datafusion", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


def ask(query, tells="true"):
    option = "datafusion.optimizer.enable_dynamic_filter_pushdown"
    context = SessionContext(SessionConfig().set(option, tells))
    for name in ("orders", "lines"):
        context.register_parquet(name, f"{name}.parquet")
    return context.sql(query).to_pydict()["id"]


orders = pyarrow.table({"id": range(1, 51), "k": range(1, 51)})
lines = pyarrow.table({"k": range(100_001, 102_001), "x": range(1, 2_001)})
pyarrow.parquet.write_table(orders, "orders.parquet")
pyarrow.parquet.write_table(lines, "lines.parquet")

exists = "EXISTS (SELECT 1 FROM lines l WHERE o.k = l.x AND l.k + o.id > 7)"
among = "o.k IN (SELECT k FROM orders WHERE id IN (1, 3))"
query = f"SELECT id FROM orders o WHERE {exists} AND {among} ORDER BY id"
renamed = query.replace("FROM lines l", "FROM (SELECT k AS y, x FROM lines) l").replace("l.k", "l.y")
see("DuckDB", [row[0] for row in duckdb.sql(query).fetchall()], [1, 3])
see("DataFusion", ask(query), [])
see("where joins do not tell their keys", ask(query, tells="false"), [1, 3])
see("where the column has another name", ask(renamed), [1, 3])
see("the EXISTS alone has rows", len(ask(f"SELECT id FROM orders o WHERE {exists}")), 50)
see("with the keys as a list", ask(query.replace(among, "o.k IN (1, 3)")), [1, 3])

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
