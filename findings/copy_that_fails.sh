#!/usr/bin/env bash
# A COPY of DataFusion that fails replaces the file that was there by a part of the rows.
#
# A report is written anew over yesterday's file. Its last row divides by zero.
#
# Expected: a statement that fails changes nothing, or leaves a file that is visibly broken. The
# library writes beside and renames, so that readers never see half of a file.
# Seen: the error is raised, and the file beside is finished all the same: rows that end in an
# error end for the writer as others do. Yesterday's file is gone, and in its place there is one
# that every reader takes for whole: CSV has fewer lines, JSON fewer objects, and Parquet a footer
# over the rows that had come.
#
# It hurts whoever reads what a nightly job writes.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 datafusion==55.0.0

cat >look.py <<'PYTHON'
from importlib.metadata import version

import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
from datafusion import SessionConfig, SessionContext

print(", ".join(f"{name} {version(name)}" for name in ("pyarrow", "datafusion")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


ROWS = 300_000
context = SessionContext(SessionConfig().with_target_partitions(1))
readers = {
    "csv": pyarrow.csv.read_csv,
    "json": pyarrow.json.read_json,
    "parquet": pyarrow.parquet.read_table,
}
for kind, read in readers.items():
    path = f"report.{kind}"
    context.sql(f"COPY (SELECT value AS day FROM range(7)) TO '{path}'").collect()
    see(f"{kind} before, rows", read(path).num_rows, 7)
    query = f"SELECT value, 1 / ({ROWS} - value) AS share FROM range(1, {ROWS + 1})"
    try:
        context.sql(f"COPY ({query}) TO '{path}'").collect()
        error = "none"
    except Exception as raised:
        error = "division by zero" if "ivide by zero" in str(raised) else str(raised)
    see(f"{kind}, error", error, "division by zero")
    table = read(path)
    see(f"{kind} after, columns", table.column_names, ["value", "share"])
    see(f"{kind} after, a part of the rows", 0 < table.num_rows < ROWS, True)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
