"""One engine under one load, in a process of its own: `python -m peers.engines NAME`, with the job
as JSON in the first line of stdin.

It says `ready` once the tables are there, and runs the streams after another line. So what loads
the engine does not count.
"""

import hashlib
import importlib.metadata
import json
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from peers.runs import peak

# Runs a statement, and gives what Arrow can read its rows from.
Run = Callable[[str], object]


def duckdb(job: dict) -> Callable[[], Run]:
    import duckdb

    connection = duckdb.connect(config={"memory_limit": f"{job['memory']}B", "temp_directory": job["scratch"]})
    for table in job["tables"]:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{job['data']}/{table}.parquet')")

    def of_stream() -> Run:
        return connection.cursor().sql

    return of_stream


def datafusion(job: dict) -> Callable[[], Run]:
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

    runtime = RuntimeEnvBuilder().with_fair_spill_pool(job["memory"]).with_disk_manager_specified(job["scratch"])
    context = SessionContext(SessionConfig(), runtime)
    for table in job["tables"]:
        context.register_parquet(table, f"{job['data']}/{table}.parquet")
    return lambda: context.sql


def pagecast(job: dict, **settings: str) -> Callable[[], Run]:
    import pagecast_sql

    connection = pagecast_sql.connect(job["data"], endpoint=job.get("endpoint"), memory=job["memory"], temp=job["scratch"], **settings)
    return lambda: connection.sql


def pagecast_clock(job: dict) -> Callable[[], Run]:
    return pagecast(job, policy="clock", delivery="stock")


ENGINES = {"duckdb": duckdb, "datafusion": datafusion, "pagecast-clock": pagecast_clock, "pagecast": pagecast}
# Rows of a result that are told apart by their texts.
_FEW = 100_000
# In Rust, hosts/peers/caches, which does as this file does.
OF_PROGRAM = ("foyer", "liquid-cache")


def digest(rows: object) -> str:
    """The same for equal rows, in whatever order and types of numbers they come; of many rows in
    their order, and with equal types."""
    import pyarrow

    def of(value: object) -> str:
        return str(Decimal(value).normalize()) if isinstance(value, int | Decimal) else str(value)

    batches = pyarrow.RecordBatchReader.from_stream(rows)
    told, in_order, count = [], hashlib.md5(), 0
    for batch in batches:
        rows = list(zip(*(column.to_pylist() for column in batch.columns)))
        count += len(rows)
        in_order.update("".join(map(str, rows)).encode())
        if count <= _FEW:
            told += ["|".join(map(of, row)) for row in rows]
    if count > _FEW:
        return in_order.hexdigest()
    return hashlib.md5("\n".join(sorted(told)).encode()).hexdigest()


def run_streams(of_stream: Callable[[], Run], streams: list[list[str]]) -> dict:
    """All streams at once, each one statement after another."""
    queries: list[dict] = []
    errors: list[str] = []
    begins = threading.Barrier(len(streams) + 1)

    def one(number: int, run: Run, statements: list[str]) -> None:
        begins.wait()
        try:
            for position, statement in enumerate(statements):
                began = time.monotonic()
                # Rows come while they are read.
                rows = digest(run(statement))
                queries.append({"stream": number, "position": position, "s": round(time.monotonic() - began, 4), "rows": rows})
        except Exception as problem:
            errors.append(f"{type(problem).__name__}: {str(problem)[:300]}")

    threads = [threading.Thread(target=one, args=(number, of_stream(), statements)) for number, statements in enumerate(streams)]
    for thread in threads:
        thread.start()
    begins.wait()
    began, written = time.monotonic(), _written()
    for thread in threads:
        thread.join()
    wall = time.monotonic() - began
    return {"wall_s": round(wall, 3), "peak_bytes": peak(), "written_bytes": _written() - written, "queries": queries, "errors": errors}


def _written() -> int:
    """Bytes that this process has written to files."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


def main() -> None:
    job, engine = json.loads(sys.stdin.readline()), sys.argv[1]
    of_stream = ENGINES[engine](job)
    print("ready", flush=True)
    sys.stdin.readline()
    version = importlib.metadata.version("pagecast-sql" if engine.startswith("pagecast") else engine)
    print(json.dumps({"version": version, **run_streams(of_stream, job["streams"])}), flush=True)


if __name__ == "__main__":
    main()
