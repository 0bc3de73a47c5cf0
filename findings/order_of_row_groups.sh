#!/usr/bin/env bash
# DataFusion returns unsorted rows for ORDER BY, and wrong counts, from a correct sorted file.
#
# Parquet's sorting_columns are a field of the row group and speak of the rows in that group. A
# writer that sorts each batch and appends it as a row group, once an hour, say, fills them in
# rightly; pyarrow has an argument for it. The groups may overlap.
#
# Expected: readers use the order within a group, or merge groups, or ignore it; ORDER BY is sorted.
# Seen: DataFusion takes groups that agree for an order of the whole file and plans no sort. Rows
# come back as they stand, ORDER BY .. LIMIT leaves out rows of the first key, and rank() and
# count() over windows are wrong, even with PARTITION BY alone, which asks for no order. With one
# partition, the default on one processor, GROUP BY gives a key twice. The settings are the
# defaults, and the same rows without sorting_columns are answered rightly. With more partitions
# GROUP BY is right, and descending order always is, so a test of those finds nothing.
#
# DuckDB and polars sort the same file rightly.
#
# It hurts who adds sorting_columns to make queries faster, as that is what they are for.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
    pyarrow==26.0.1 datafusion==55.0.0 polars==2.1.0 duckdb==2.0.1

cat >look.py <<'PYTHON'
from importlib.metadata import version

import duckdb
import polars
import pyarrow
from datafusion import SessionConfig, SessionContext
from pyarrow.parquet import ParquetFile, ParquetWriter, SortingColumn

print(", ".join(f"{name} {version(name)}" for name in ("pyarrow", "datafusion", "polars", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


batches = [pyarrow.table({"day": [1, 2, 3], "v": values}) for values in ([10, 20, 30], [40, 50, 60])]
for path, order in (("told.parquet", [SortingColumn(0)]), ("plain.parquet", None)):
    with ParquetWriter(path, batches[0].schema, sorting_columns=order) as writer:
        for batch in batches:
            writer.write_table(batch)
file = ParquetFile("told.parquet")
for group in range(file.num_row_groups):
    days = file.read_row_group(group)["day"].to_pylist()
    assert days == sorted(days) and file.metadata.row_group(group).sorting_columns == (SortingColumn(0),)
    print(f"row group {group} says it is sorted by day, and is: {days}")


def ask(path, query, partitions=2):
    context = SessionContext(SessionConfig().with_target_partitions(partitions))
    context.register_parquet("t", path)
    return list(zip(*context.sql(query).to_pydict().values()))


by_day = "SELECT day FROM t ORDER BY day"
two = "SELECT day, v FROM t ORDER BY day, v LIMIT 2"
few = "SELECT day FROM t ORDER BY day LIMIT 2"
counts = "SELECT v, count(*) OVER (PARTITION BY day) FROM t ORDER BY v"
ranks = "SELECT v, rank() OVER (ORDER BY day) FROM t ORDER BY v"
down = "SELECT day FROM t ORDER BY day DESC"
groups = "SELECT day, count(*) FROM t GROUP BY day ORDER BY day"
for query, right, wrong in (
    (by_day, [(1,), (1,), (2,), (2,), (3,), (3,)], [(1,), (2,), (3,), (1,), (2,), (3,)]),
    (few, [(1,), (1,)], [(1,), (2,)]),
    (two, [(1, 10), (1, 40)], [(1, 10), (2, 20)]),
    (counts, [(v, 2) for v in range(10, 70, 10)], [(v, 1) for v in range(10, 70, 10)]),
    (ranks, list(zip(range(10, 70, 10), [1, 3, 5, 1, 3, 5])), list(zip(range(10, 70, 10), [1, 2, 3, 4, 5, 6]))),
    (down, [(3,), (3,), (2,), (2,), (1,), (1,)], None),
    (groups, [(1, 2), (2, 2), (3, 2)], None),
):
    print(f"\n{query}")
    see("  without sorting_columns", ask("plain.parquet", query), right)
    see("  with sorting_columns", ask("told.parquet", query), wrong or right)

print(f"\none partition: {groups}")
see("  without sorting_columns", ask("plain.parquet", groups, 1), [(1, 2), (2, 2), (3, 2)])
see("  with sorting_columns", ask("told.parquet", groups, 1), [(1, 1), (2, 1), (3, 2), (1, 1), (2, 1)])

print(f"\nothers, with sorting_columns: {by_day}")
duck = duckdb.sql("SELECT day FROM 'told.parquet' ORDER BY day").fetchall()
bear = polars.scan_parquet("told.parquet").select("day").sort("day").collect().rows()
see("  DuckDB", duck, [(1,), (1,), (2,), (2,), (3,), (3,)])
see("  polars", bear, [(1,), (1,), (2,), (2,), (3,), (3,)])

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
