#!/usr/bin/env bash
# PyIceberg and delta-rs delete, overwrite and update rows that their filter does not match.
#
# A row whose float is NaN does not match "x < 5": a scan with that filter leaves it out in
# PyIceberg. Bounds of a file leave NaN out, too, and pyarrow counts no NaN, so the table's metadata
# has no NaN count at all: it is unknown whether there is one.
#
# Expected: a DELETE takes the rows that a scan with the same filter shows. In Iceberg's
# specification bounds are of the values that are not NaN, and NaN counts are optional. A missing
# one proves nothing.
# Seen: PyIceberg takes a missing count for zero. As the bounds lie within the filter it drops the
# whole file, NaN rows included, and says nothing. Whether a NaN survives depends on its neighbours
# in the file: it does if one of them is NULL, or a number that the filter leaves alone. overwrite()
# with a filter loses rows likewise.
#
# delta-rs does it where all numbers of a file are equal. There an UPDATE of "x = 1" also changes
# the row of the NaN, and writes 1.0 into x, a column that the statement does not set. Its metrics
# count that row as any other.
#
# It hurts who deletes by range, as retention jobs and idempotent loads do: the rows are gone for
# good once snapshots expire, and a scan before the DELETE does not show them.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
    pyarrow==26.0.1 'pyiceberg[sql-sqlite]==0.12.0' deltalake==1.6.6

cat >look.py <<'PYTHON'
import warnings
from importlib.metadata import version
from itertools import count
from math import nan
from pathlib import Path

import pyarrow
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

warnings.simplefilter("ignore")
print(", ".join(f"{name} {version(name)}" for name in ("pyarrow", "pyiceberg", "deltalake")))
changed = []
names = (f"t{number}" for number in count())
Path("iceberg").mkdir()
catalog = SqlCatalog("c", uri="sqlite:///iceberg/c.db", warehouse=Path("iceberg").resolve().as_uri())
catalog.create_namespace("n")


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if repr(seen) != repr(before):
        changed.append(f"{what}: was {before}")


def of(floats):
    return pyarrow.table({"id": list(range(1, len(floats) + 1)), "x": pyarrow.array(floats, pyarrow.float64())})


def iceberg(floats):
    table = catalog.create_table(f"n.{next(names)}", schema=of(floats).schema)
    table.append(of(floats))
    return table


def delta(floats):
    name = next(names)
    write_deltalake(name, of(floats))
    return DeltaTable(name)


def ids(table):
    return sorted(table["id"].to_pylist())


print("\nPyIceberg: ids that a scan shows, ids that a DELETE takes")
for floats, condition, shown, taken in (
    ([1.0, nan, 3.0], "x < 5", [1, 3], [1, 2, 3]),
    ([1.0, nan, 1.0], "x == 1", [1, 3], [1, 2, 3]),
    ([1.0, nan, 3.0, None], "x < 5", [1, 3], [1, 3]),
    ([1.0, nan, 3.0, 7.0], "x < 5", [1, 3], [1, 3]),
):
    table = iceberg(floats)
    before = ids(table.scan().to_arrow())
    scanned = ids(table.scan(row_filter=condition).to_arrow())
    table.delete(condition)
    gone = sorted(set(before) - set(ids(table.scan().to_arrow())))
    see(f"{floats} {condition}", (scanned, gone), (shown, taken))

table = iceberg([1.0, nan, 3.0])
file = next(iter(table.scan().plan_files())).file
see("NaN counts in the metadata", dict(file.nan_value_counts or {}), {})
table.overwrite(of([4.0]), overwrite_filter="x < 5")
see("x after overwrite() of x < 5 by one row", table.scan().to_arrow()["x"].to_pylist(), [4.0])

print("\ndelta-rs: ids that a DELETE of x = 1 takes, and how many it says")
for floats, taken in (([1.0, nan, 1.0], [1, 2, 3]), ([1.0, nan, 3.0], [1])):
    table = delta(floats)
    said = table.delete("x = 1")["num_deleted_rows"]
    gone = sorted({1, 2, 3} - set(ids(table.to_pyarrow_table())))
    see(f"{floats}", (gone, said), (taken, len(taken)))

table = delta([1.0, nan, 1.0])
said = table.update(predicate="x = 1", updates={"id": "id + 100"})["num_updated_rows"]
after = table.to_pyarrow_table().sort_by("id").to_pydict()
see("UPDATE of id alone where x = 1", (said, after), (3, {"id": [101, 102, 103], "x": [1.0, 1.0, 1.0]}))

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
