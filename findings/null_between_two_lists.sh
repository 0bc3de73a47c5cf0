#!/usr/bin/env bash
# DataFusion keeps rows that two lists leave open: one list has a NULL, or the value is one.
#
# `x IN (1, 2, 3, 4) AND x NOT IN (2, 3, 5, NULL)` is true for no x: the second list may have any
# value. `x NOT IN (1, 2) OR x NOT IN (3, 4)` is unknown where x is NULL.
#
# Expected: each condition is right by itself in DataFusion, and AND and OR of them are, too.
# Seen: two lists of one column that stand beside each other become one list. The NULL is taken for
# one more value that is taken out, which is not there; and where no value is left, the condition is
# true. With another condition between the two lists the rows are right, and likewise with `x + 0`
# for the second x.
#
# It hurts whoever lets a program write conditions: one list from a user, and one from a rule.
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


values = "(VALUES (1), (2), (7), (NULL)) AS t (x)"
context = SessionContext()


def found(engine, condition):
    query = f"SELECT x FROM {values} WHERE {condition}"
    if engine == "DuckDB":
        rows = [row[0] for row in duckdb.sql(query).fetchall()]
    else:
        rows = context.sql(query).to_pydict().get("x", [])
    return sorted(rows, key=str)


both = "x IN (1, 2, 3, 4) AND x NOT IN (2, 3, 5, NULL)"
either = "x NOT IN (1, 2) OR x NOT IN (3, 4)"
see("DuckDB, both", found("DuckDB", both), [])
see("DataFusion, both", found("DataFusion", both), [1])
see("DataFusion, only the list with the NULL", found("DataFusion", "x NOT IN (2, 3, 5, NULL)"), [])
see("DataFusion, both with another x", found("DataFusion", both.replace("AND x", "AND x + 0")), [])
see("DuckDB, either", found("DuckDB", either), [1, 2, 7])
see("DataFusion, either", found("DataFusion", either), [1, 2, 7, None])
see("DataFusion, either with another x", found("DataFusion", either.replace("OR x", "OR x + 0")), [1, 2, 7])

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
