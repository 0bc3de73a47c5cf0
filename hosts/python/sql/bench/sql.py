"""`connect().sql()` beside `pagecast sql`: `make bench-python-sql`.

Both run the same statements over the same files with pools of the same size, process after process
in turns. The time of a statement is what the command says of it, and here what lies between the
text and the last row in pyarrow. Processor time is that of the whole process, less that of one that
asks `SELECT 1`. Its ratio is the median of the turns' own. It is shown because other work on the
machine lengthens wall time and not that.
"""

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

ROWS = 6_000_000
POOL = "64MiB"
STATEMENTS = {
    "aggregate": "SELECT flag, sum(quantity), avg(price), count(*) FROM items GROUP BY flag",
    "filter": "SELECT sum(price * discount) FROM items WHERE day BETWEEN 9000 AND 9365 AND quantity < 24",
    "rows": "SELECT key, price FROM items WHERE day < 8100",
}
# Runs the statements of argv and says the seconds of each, and its processor time since it began.
PROGRAM = """
import json, resource, sys, time
import pagecast, pyarrow
def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
data, pool, *statements = sys.argv[1:]
import pagecast_sql
began, seconds = processor(), []
with pagecast.connect(data, memory=pool) as connection:
    for statement in statements:
        at = time.perf_counter()
        connection.sql(statement).to_arrow()
        seconds.append(time.perf_counter() - at)
print(json.dumps([seconds, processor() - began]))
"""


def write_items(folder: Path) -> None:
    numbers = np.random.default_rng(1)
    table = pyarrow.table({
        "key": np.arange(ROWS),
        "day": numbers.integers(8000, 10_500, ROWS, dtype=np.int32),
        "quantity": numbers.integers(1, 50, ROWS, dtype=np.int32),
        "price": numbers.normal(1000, 200, ROWS),
        "discount": numbers.uniform(0, 0.1, ROWS),
        "flag": pyarrow.array(np.array(["A", "N", "R"])[numbers.integers(0, 3, ROWS)]),
    })
    pyarrow.parquet.write_table(table, folder / "items.parquet", row_group_size=200_000)


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def by_command(pagecast: str, data: Path, statements: list[str]) -> tuple[list[float], float]:
    arguments = [pagecast, "sql", "--data", str(data), "--pool", POOL, "--format", "csv"]
    for statement in statements:
        arguments += ["-c", statement]
    before = children()
    ran = subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    units = {"ms": 1e-3, "s": 1.0}
    found = re.findall(r"rows? in ([\d.]+) (ms|s),", ran.stderr)
    seconds = [float(number) * units[unit] for number, unit in found]
    assert len(seconds) == len(statements), ran.stderr
    return seconds, children() - before


def by_python(data: Path, statements: list[str]) -> tuple[list[float], float]:
    arguments = [sys.executable, "-c", PROGRAM, str(data), POOL, *statements]
    ran = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
    seconds, processor = json.loads(ran.stdout)
    return seconds, processor


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pagecast", required=True, help="the command, optimized")
    arguments.add_argument("--json", type=Path, required=True)
    arguments.add_argument("--turns", type=int, default=5, help="processes of each")
    arguments.add_argument("--repeat", type=int, default=5, help="runs of each statement in a process")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_items(Path(scratch))
        idle = [statistics.median(used for _, used in runs) for runs in in_turns(given, Path(scratch), ["SELECT 1"])]
        rows = [measure(given, Path(scratch), name, sql, idle) for name, sql in STATEMENTS.items()]
    print(f"{'statement':<12} {'command':>10} {'python':>10} {'ratio':>7} {'by processor time':>18}")
    for row in rows:
        command, ours = row["command_seconds"], row["python_seconds"]
        print(f"{row['statement']:<12} {command * 1e3:>7.1f} ms {ours * 1e3:>7.1f} ms {row['ratio']:>7.2f}"
              f" {row['processor_ratio']:>18.2f}")
    results = {"machine": platform.platform(), "cpus": os.cpu_count(), "rows": ROWS, "pool": POOL, "results": rows}
    given.json.write_text(json.dumps(results, indent=2) + "\n")


Runs = list[tuple[list[float], float]]


def in_turns(given: argparse.Namespace, data: Path, statements: list[str]) -> tuple[Runs, Runs]:
    """What processes of the command and of Python took, which ran one after the other."""
    command, ours = [], []
    for _ in range(given.turns):
        command.append(by_command(given.pagecast, data, statements))
        ours.append(by_python(data, statements))
    return command, ours


def measure(
    given: argparse.Namespace, data: Path, name: str, sql: str, idle: list[float]
) -> dict[str, object]:
    both = in_turns(given, data, [sql] * given.repeat)
    # Of each process the fastest run: the first reads what the others find.
    fastest = [statistics.median(min(seconds) for seconds, _ in runs) for runs in both]
    used = [[used - start for _, used in runs] for runs, start in zip(both, idle, strict=True)]
    return {
        "statement": name,
        "sql": sql,
        "command_seconds": fastest[0],
        "python_seconds": fastest[1],
        "ratio": fastest[1] / fastest[0],
        "command_processor_seconds": statistics.median(used[0]),
        "python_processor_seconds": statistics.median(used[1]),
        "processor_ratio": statistics.median(ours / command for command, ours in zip(*used, strict=True)),
    }


if __name__ == "__main__":
    main()
