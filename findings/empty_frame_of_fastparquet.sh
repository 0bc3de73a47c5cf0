#!/usr/bin/env bash
# A DataFrame without rows, written by fastparquet, is no Parquet file to readers built on arrow-rs.
#
# A job writes a file a day. On a day without rows it writes the empty frame, as pandas lets it.
#
# Expected: a file with columns, no row groups and no rows; pyarrow reads one of an empty table.
# Seen: in Thrift's compact protocol the head of a list has the type of its elements. fastparquet
# writes 3, a byte, where the list of row groups is empty; with rows it writes 12, a struct.
# pyarrow, DuckDB and polars do not look at the type of nothing. The reader of arrow-rs does, and
# DataFusion refuses the file, and with it a table of a folder in which it lies.
#
# It hurts who keeps such a folder: it was readable until the first quiet day.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
    fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0 datafusion==55.0.0

cat >look.py <<'PYTHON'
from importlib.metadata import version
from pathlib import Path

import duckdb
import fastparquet
import pandas
import polars
import pyarrow.parquet
from datafusion import SessionContext

print(", ".join(f"{name} {version(name)}" for name in ("fastparquet", "pyarrow", "duckdb", "polars", "datafusion")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


def count(place):
    context = SessionContext()
    try:
        context.register_parquet("t", str(place))
        return context.sql("SELECT count(*) AS n FROM t").to_pydict()["n"][0]
    except Exception as error:
        return str(error).rsplit(": ", 1)[-1]


folder = Path("days")
folder.mkdir()
frame = pandas.DataFrame({"id": [1, 2], "k": [3, 4]})
fastparquet.write(str(folder / "monday.parquet"), frame)
see("DataFusion, a folder of one day", count(folder), 2)
quiet = folder / "tuesday.parquet"
fastparquet.write(str(quiet), frame[:0])
see("pyarrow", pyarrow.parquet.read_table(quiet).shape, (0, 2))
see("DuckDB", duckdb.sql(f"SELECT count(*) FROM '{quiet}'").fetchall(), [(0,)])
see("polars", polars.read_parquet(quiet).shape, (0, 2))
see("DataFusion", count(quiet), "Expected list element type of Struct but got Byte")
see("DataFusion, the folder", count(folder), "Expected list element type of Struct but got Byte")
pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame[:0]), quiet)
see("DataFusion, an empty file of pyarrow", count(quiet), 0)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
