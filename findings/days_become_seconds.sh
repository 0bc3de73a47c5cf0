#!/usr/bin/env bash
# Daft's difference of two dates has seconds where there should be days.
#
# Orders have a date of order and one of delivery. Somebody wants to know how long they took.
#
# Expected: a month is 31 days, as a duration of any unit, or as a number of days. Daft gives a
# duration for the difference of two timestamps, and it is right.
# Seen: the number of days is kept and called seconds: 2024-03-01 minus 2024-01-31 is 30 seconds,
# by the DataFrame as by SQL, of columns as of a column and a constant. pyarrow and pandas get that
# duration handed out. total_days() of it is 0, its sum and its mean are wrong by a factor of 86400,
# and the earlier date plus the difference is the earlier date again. Cast to timestamps first, or
# by datediff(), it is right; the type of the wrong one is Duration[s], so nothing looks odd.
#
# It hurts reports of ages, delays and lengths of stay. It was not found in the issue tracker.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check daft==0.7.26 pyarrow==25.0.1

cat >look.py <<'PYTHON'
import os
from datetime import date, timedelta
from importlib.metadata import version

os.environ["DAFT_PROGRESS_BAR"] = "0"
os.environ["DO_NOT_TRACK"] = "true"

import daft
from daft import DataType, col, lit

print(", ".join(f"{name} {version(name)}" for name in ("daft", "pyarrow")))
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


ordered = [date(2024, 1, 31), date(2023, 12, 1), date(2024, 2, 29)]
delivered = [date(2024, 3, 1), date(2024, 1, 1), None]
orders = daft.from_pydict({"ordered": ordered, "delivered": delivered}).collect()


def values(expression):
    return orders.select(expression.alias("x")).to_pydict()["x"]


took = col("delivered") - col("ordered")
days = [timedelta(days=30), timedelta(days=31), None]
seconds = [timedelta(seconds=30), timedelta(seconds=31), None]
see("by Python", [last and last - first for first, last in zip(ordered, delivered)], days)
see("by Daft", values(took), seconds)
see("its type", str(orders.select(took.alias("x")).schema()["x"].dtype), "Duration[s]")
see("by Daft's SQL", daft.sql("SELECT delivered - ordered AS x FROM orders").to_pydict()["x"], seconds)
see("with a constant", values(lit(date(2024, 3, 1)) - col("ordered"))[0], timedelta(seconds=30))
see("as pyarrow has it", orders.select(took.alias("x")).to_arrow()["x"].to_pylist(), seconds)
see("total_days()", values(took.total_days()), [0, 0, None])
see("date of order and the difference", values(col("ordered") + took)[:2], ordered[:2])
stamp = DataType.timestamp("us")
see("of timestamps", values(col("delivered").cast(stamp) - col("ordered").cast(stamp)), days)
see("by datediff()", daft.sql("SELECT datediff(delivered, ordered) AS x FROM orders").to_pydict()["x"], [30, 31, None])

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
