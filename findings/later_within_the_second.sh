#!/usr/bin/env bash
# ClickHouse (chdb) loses rows later than a DateTime, where they lie within that same second.
#
# A load runs again and again and takes what came since: `t > toDateTime('2024-03-01 12:00:00')`.
# toDateTime() and now() have whole seconds. The column has fractions of them: a Parquet timestamp
# of any unit, a DateTime64 of a table. A row of 12:00:00.5 is the last one of its file.
#
# Expected: 12:00:00.5 is later than 12:00:00, and the row is found. An index or a file's bounds
# decide what need not be read, not what a comparison means.
# Seen: the comparison by itself is true, and a table in memory gives the row. The bounds of a row
# group and the primary key of a MergeTree are first cut to the constant's type, whole seconds, and
# a greatest value of 12:00:00 is not later than 12:00:00: nothing of it is read, and nothing is
# said. So is it if the condition is turned around, denied, or has now() in it. `>=`, a constant as
# text or as DateTime64, and turning off input_format_parquet_filter_push_down give the row.
#
# It hurts who keeps the last second as a mark, as incremental loads and monitors do, and only where
# such a second ends a row group or a granule; so it looks like data that came late. The issue
# tracker has related cases, keys wrapped in toString() or toMillisecond(); this one was not found.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check chdb==4.4.0 pyarrow==26.0.1

cat >look.py <<'PYTHON'
from datetime import datetime
from importlib.metadata import version

import pyarrow
import pyarrow.parquet
from chdb.session import Session

print(", ".join(f"{name} {version(name)}" for name in ("chdb", "chdb-core", "pyarrow")))
changed = []
session = Session()


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


def ask(query):
    return [int(line) for line in str(session.query(query, "CSV")).split()]


def ids(source, condition, settings=""):
    return ask(f"SELECT id FROM {source} WHERE {condition} ORDER BY id {settings}")


times = [datetime(2024, 3, 1, 11, 59, 59), datetime(2024, 3, 1, 12), datetime(2024, 3, 1, 12, 0, 0, 500_000)]
session.query("CREATE DATABASE d")
noon = "toDateTime('2024-03-01 12:00:00', 'UTC')"
for unit in ("ms", "us", "ns"):
    rows = pyarrow.table({"id": [1, 2, 3], "t": pyarrow.array(times, pyarrow.timestamp(unit, "UTC"))})
    pyarrow.parquet.write_table(rows, f"{unit}.parquet")
    file = f"file('{unit}.parquet')"
    session.query(f"CREATE TABLE d.m_{unit} ENGINE = Memory AS SELECT * FROM {file}")
    session.query(
        f"CREATE TABLE d.k_{unit} ENGINE = MergeTree ORDER BY t SETTINGS allow_nullable_key = 1 AS SELECT * FROM {file}"
    )
    print(f"\n{unit}")
    later = f"t > {noon}"
    see("  the comparison by itself", ask(f"SELECT {later} FROM {file} ORDER BY id"), [0, 0, 1])
    see("  later, in memory", ids(f"d.m_{unit}", later), [3])
    see("  later, of a MergeTree", ids(f"d.k_{unit}", later), [])
    see("  later, of a file", ids(file, later), [])
    see("  turned around", ids(file, f"{noon} < t"), [])
    see("  denied", ids(file, f"NOT (t <= {noon})"), [])
    see("  not before", ids(file, f"t >= {noon}"), [2, 3])
    see("  later than a text", ids(file, "t > '2024-03-01 12:00:00'"), [3])
    see("  later than a DateTime64", ids(file, f"t > toDateTime64({noon}, 3)"), [3])
    off = "SETTINGS input_format_parquet_filter_push_down = 0"
    see("  without push-down", ids(file, later, off), [3])
    session.query(f"INSERT INTO FUNCTION {file.replace(unit, unit + '2')} SELECT * FROM d.m_{unit}")
    see("  later, of a file by ClickHouse", ids(file.replace(unit, unit + "2"), later), [])

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
