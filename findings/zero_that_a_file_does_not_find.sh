#!/usr/bin/env bash
# A filter of polars or DuckDB on a Vortex file finds other rows than the same filter after reading.
#
# Temperatures are rounded to whole degrees: -0.3 becomes -0.0, as IEEE 754 has it. Somebody asks
# for the hours at zero degrees, `x == 0`, or for those of frost, `x < 0`.
#
# Expected: -0.0 equals 0.0 in polars, in DuckDB and in pyarrow. Vortex's own code says that a
# filter is handed to the file where both mean the same, and that the rest is left to polars.
# Seen: Vortex compares floats by their total order, in which -0.0 is less than 0.0 and equals it no
# more. What is handed down is not applied again above, so a lazy frame of Vortex has no -0.0 for
# `x == 0`, `is_in` and `is_between`, and has them for `x < 0`; the same frame gives other rows if
# `.collect()` comes before `.filter()`, or if the condition is one that Vortex can't do, as `abs()`
# is. DuckDB over the file's dataset does it for `=` and `<`, but `x >= 0` is right there, so a row
# is both below zero and not. polars also says that NaN equals NaN; through Vortex it does not.
#
# It hurts whoever moves a table of measurements from Parquet to Vortex and keeps the queries. It
# was not found in the issue tracker; DataFusion had its like, repaired since.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
    vortex-data==0.93.0 pyarrow==25.0.1 polars==2.1.0 duckdb==2.0.1

cat >look.py <<'PYTHON'
from importlib.metadata import version
from math import nan

import duckdb
import polars
import pyarrow
import pyarrow.parquet
import vortex

print(", ".join(f"{name} {version(name)}" for name in ("vortex-data", "pyarrow", "polars", "duckdb")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


measured = [0.2, -0.3, 1.1, nan, None, -0.8]
rounded = [value if value is None or value != value else float(f"{value:.0f}") for value in measured]
print("x:", rounded)
table = pyarrow.table({"id": range(1, 7), "x": rounded})
pyarrow.parquet.write_table(table, "t.parquet")
vortex.io.write(vortex.array(table), "t.vortex")
file = vortex.open("t.vortex")
see("Vortex keeps the sign", str(file.scan().read_all().to_arrow_table()["x"].to_pylist()), str(rounded))

print("\npolars: ids from Parquet, from Vortex, and from Vortex if the filter comes after collect()")
x = polars.col("x")
for name, condition, right, wrong in (
    ("x == 0", x == 0, [1, 2], [1]),
    ("x is_in [0, 9]", x.is_in([0.0, 9.0]), [1, 2], [1]),
    ("x is_between 0 and 1", x.is_between(0, 1), [1, 2, 3], [1, 3]),
    ("x < 0", x < 0, [6], [2, 6]),
    ("x == NaN", x == nan, [4], []),
    ("|x| == 0", x.abs() == 0, [1, 2], [1, 2]),
    ("x <= 0", x <= 0, [1, 2, 6], [1, 2, 6]),
):
    parquet = polars.scan_parquet("t.parquet").filter(condition).collect()["id"].to_list()
    lazy = file.to_polars().filter(condition).collect()["id"].to_list()
    after = file.to_polars().collect().filter(condition)["id"].to_list()
    see(f"  {name}", (parquet, lazy, after), (right, wrong, right))

print("\nDuckDB: ids from Parquet, and from the dataset of the Vortex file")
data = file.to_dataset()
for condition, right, wrong in (
    ("x = 0", [1, 2], [1]),
    ("x < 0", [6], [2, 6]),
    ("x >= 0", [1, 2, 3, 4], [1, 2, 3, 4]),
):
    query = "SELECT id FROM {} WHERE " + condition + " ORDER BY id"
    found = [[row[0] for row in duckdb.sql(query.format(source)).fetchall()] for source in ("'t.parquet'", "data")]
    see(f"  {condition}", found, [right, wrong])

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
