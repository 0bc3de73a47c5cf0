#!/usr/bin/env bash
# One row with a negative decimal in a partition column, and a Delta table can't be opened any more.
#
# Bookings lie in partitions by their rate, a decimal(5, 2). One day the first negative rate comes.
#
# Expected: decimals may be partition columns, and are written as text, "-1.25". If a value can't be
# written, the append fails and the table stays as it was.
# Seen: delta-rs puts whole part and fraction together with a sign before each of them, or only
# before the fraction: -1.25 becomes "-1.-25", and -0.05 becomes "0.-5". The version is committed
# with that text; then the append fails, as it can't read what it wrote. So does everything after
# it: the table can't be opened, so not be restored either. The rows from before are there only for
# who asks for the version before; polars, which uses the same library, has no rows either.
# Negative values without a fraction are written rightly, so -1.00 proves nothing. A column that is
# no partition column has no such trouble.
#
# It hurts whoever keeps amounts, degrees or rates as decimals, with one row, in one append. The
# issue tracker has decimals in partitions that lack digits, of other writers; this was not found.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1 polars==2.1.0

cat >look.py <<'PYTHON'
import json
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import polars
import pyarrow
from deltalake import DeltaTable, write_deltalake

print(", ".join(f"{name} {version(name)}" for name in ("deltalake", "pyarrow", "polars")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


def of(ids, rates):
    decimals = pyarrow.array([Decimal(rate) for rate in rates], pyarrow.decimal128(5, 2))
    return pyarrow.table({"id": ids, "rate": decimals})


def attempt(action):
    """What the action gives, or how its error ends."""
    try:
        return action()
    except Exception as error:
        return str(error).split(": ", 1)[-1]


def ids(table):
    return sorted(table.to_pyarrow_table()["id"].to_pylist())


write_deltalake("rates", of([1, 2, 3], ["1.25", "0.05", "-1.00"]), partition_by=["rate"])
see("ids of the table", ids(DeltaTable("rates")), [1, 2, 3])
error = "Failed to parse value '-1.-25' as 'decimal(5,2)'"
see("append of -1.25", attempt(lambda: write_deltalake("rates", of([4], ["-1.25"]), mode="append")), error)
lines = Path("rates/_delta_log/00000000000000000001.json").read_text().splitlines()
written = [json.loads(line)["add"]["partitionValues"] for line in lines if '"add"' in line]
see("it is committed, with", written, [{"rate": "-1.-25"}])
see("opening the table", attempt(lambda: ids(DeltaTable("rates"))), error)
see("restoring it", attempt(lambda: DeltaTable("rates").restore(0)), error)
see("appending a good row", attempt(lambda: write_deltalake("rates", of([5], ["2.50"]), mode="append")), error)
see("polars", "'-1.-25'" in str(attempt(lambda: polars.scan_delta("rates").collect())), True)
see("the version before", ids(DeltaTable("rates", version=0)), [1, 2, 3])

for rate, error in (("-0.05", "Failed to parse value '0.-5' as 'decimal(5,2)'"), ("-3.00", None), ("0.05", None)):
    see(f"a new table of {rate}", attempt(lambda: write_deltalake(rate, of([1], [rate]), partition_by=["rate"])), error)
see("-1.25 in no partition column", attempt(lambda: write_deltalake("plain", of([1], ["-1.25"]))), None)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
