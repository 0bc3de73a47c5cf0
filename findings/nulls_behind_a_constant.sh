#!/usr/bin/env bash
# DataFusion does not sort by a column that an outer join fills with NULL, if a filter below the
# join had made it constant.
#
# A report lists all orders with their lines of one kind, `LEFT JOIN (... WHERE kind = 7)`, and
# wants those without such a line first: ORDER BY kind NULLS FIRST.
#
# Expected: below the join `kind` is constant, above it has two values, 7 and NULL, so it is sorted.
# Seen: that it is constant is still believed above the join. The sort is left out, and the rows
# come as the join gives them. Nobody is warned, and with LIMIT other rows are in the result. An
# ORDER BY with NULLS LAST is right by luck; a filter by two kinds brings the sort back.
#
# It hurts who lists what is missing, the usual reason for such a join.
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


def ask(query):
    batches = SessionContext().sql(query).collect()
    return [row["kind"] for batch in batches for row in batch.to_pylist()]


orders = "(VALUES (1), (2), (3), (4)) AS o (id)"
lines = "(VALUES (1, 7), (3, 7), (4, 8)) AS l (id, kind)"
join = f"{orders} LEFT JOIN (SELECT * FROM {lines} WHERE kind = 7) l ON o.id = l.id"
first = f"SELECT l.kind FROM {join} ORDER BY l.kind NULLS FIRST"
see("DuckDB", [row[0] for row in duckdb.sql(first).fetchall()], [None, None, 7, 7])
see("DataFusion", ask(first), [7, 7, None, None])
see("the first two", ask(f"{first} LIMIT 2"), [7, 7])
see("of two kinds", ask(first.replace("kind = 7", "kind IN (7, 9)")), [None, None, 7, 7])
see("steps of its plan that sort", str(SessionContext().sql(first).execution_plan()).count("Sort"), 0)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
