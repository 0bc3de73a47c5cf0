#!/usr/bin/env bash
# DataFusion gives 1.0 for a stored NaN in a plain SELECT *, without any filter.
#
# A float column holds one number in all rows of a file but one, and that one is NaN: a sensor that
# stood still and failed once. The Parquet format has writers leave NaN out of a chunk's bounds, so
# they say min = max = 1 with no NULL. Its text also tells readers that bounds say nothing of NaN.
#
# Expected: a filter may miss a NaN (an old and known fault of many readers), but a scan without a
# filter gives the values that are in the file.
# Seen: the reader of DataFusion takes equal bounds for a constant and does not decode the column.
# Rows, sums and isnan() are wrong, and a copy of the table writes 1.0 where NaN was. Files of
# pyarrow, polars and DataFusion itself do that; turning pruning off does not help, not collecting
# statistics does. One more number in the file and the NaN is back, so tests with mixed data pass.
#
# Two more readers of the same file take equal bounds for a proof. DuckDB returns the NaN for
# "x = 1", though its own documentation puts NaN above all numbers, and returns it no more from a
# file that it wrote itself. A pyarrow dataset counts 4 rows for "x = 1" and hands out 3.
#
# It hurts who looks for failed measurements, and who cleans or copies such tables.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
    pyarrow==26.0.1 datafusion==55.0.0 polars==2.1.0 duckdb==2.0.1

cat >look.py <<'PYTHON'
from importlib.metadata import version
from math import nan

import duckdb
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from datafusion import SessionConfig, SessionContext

print(", ".join(f"{name} {version(name)}" for name in ("pyarrow", "datafusion", "polars", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if repr(seen) != repr(before):
        changed.append(f"{what}: was {before}")


def ask(path, query, **settings):
    config = SessionConfig()
    for name, value in settings.items():
        config = config.set("datafusion.execution." + name.replace("__", "."), value)
    context = SessionContext(config)
    context.register_parquet("t", path)
    return list(context.sql(query).to_pydict().values())


rows = pyarrow.table({"id": [1, 2, 3, 4], "x": [1.0, nan, 1.0, 1.0]})
pyarrow.parquet.write_table(rows, "pyarrow.parquet")
polars.from_arrow(rows).write_parquet("polars.parquet")
memory = SessionContext()
memory.register_record_batches("t", [rows.to_batches()])
memory.sql("COPY t TO 'datafusion.parquet'").collect()
duckdb.sql("COPY rows TO 'duckdb.parquet'")

bounds = pyarrow.parquet.ParquetFile("pyarrow.parquet").metadata.row_group(0).column(1).statistics
see("bounds and NULLs in the file", (bounds.min, bounds.max, bounds.null_count), (1.0, 1.0, 0))
see("pyarrow reads x", pyarrow.parquet.read_table("pyarrow.parquet")["x"].to_pylist(), [1.0, nan, 1.0, 1.0])

print("\nDataFusion, no filter")
lost = [[1, 2, 3, 4], [1.0, 1.0, 1.0, 1.0]]
kept = [[1, 2, 3, 4], [1.0, nan, 1.0, 1.0]]
every = "SELECT id, x FROM t ORDER BY id"
see("the same rows in memory", list(memory.sql(every).to_pydict().values()), kept)
for writer in ("pyarrow", "polars", "datafusion"):
    see(f"a file of {writer}", ask(f"{writer}.parquet", every), lost)
see("sum(x)", ask("pyarrow.parquet", "SELECT sum(x) FROM t"), [[4.0]])
see("rows with isnan(x)", ask("pyarrow.parquet", "SELECT count(*) FROM t WHERE isnan(x)"), [[0]])
see("without pruning", ask("pyarrow.parquet", every, parquet__pruning="false"), lost)
see("without statistics", ask("pyarrow.parquet", every, collect_statistics="false"), kept)

copier = SessionContext()
copier.register_parquet("t", "pyarrow.parquet")
copier.sql("COPY (SELECT * FROM t) TO 'copy.parquet'").collect()
see("x in a copy, by pyarrow", pyarrow.parquet.read_table("copy.parquet")["x"].to_pylist(), [1.0, 1.0, 1.0, 1.0])

mixed = pyarrow.table({"id": [1, 2, 3, 4], "x": [1.0, nan, 1.0, 1.5]})
pyarrow.parquet.write_table(mixed, "mixed.parquet")
see("with one more number", ask("mixed.parquet", every), [[1, 2, 3, 4], [1.0, nan, 1.0, 1.5]])

print("\nDuckDB, x = 1")
query = "SELECT id, x FROM '{}.parquet' WHERE x = 1 ORDER BY id"
see("a file of pyarrow", duckdb.sql(query.format("pyarrow")).fetchall(), [(1, 1.0), (2, nan), (3, 1.0), (4, 1.0)])
see("a file of DuckDB", duckdb.sql(query.format("duckdb")).fetchall(), [(1, 1.0), (3, 1.0), (4, 1.0)])

print("\npyarrow dataset, x = 1")
data, one = pyarrow.dataset.dataset("pyarrow.parquet"), pyarrow.dataset.field("x") == 1
see("count_rows", data.count_rows(filter=one), 4)
see("rows of to_table", data.to_table(filter=one).num_rows, 3)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
