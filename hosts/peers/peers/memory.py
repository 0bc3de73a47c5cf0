"""Statements in less memory than they want, by each engine: `make bench-memory`.

An engine runs in a process and a control group of its own, is told its limit, and may take a part
beyond it until the kernel ends it. Tables are as large as the limit, or several times that. A run
whose rows differ from those of most counts as failed.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from cluster.limits import Limits
from peers import doors, needs, runs
from peers.engines import Run, run_streams

MIB = 1 << 20
ENGINES = ("pagecast", "duckdb", "datafusion")
# Bytes that a process may take beyond its limit, with what it is made of and files in the cache.
_BESIDE = 384 * MIB
# Seconds until a run is given up.
_LONGEST = 120


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-memory", description=__doc__.partition("\n")[0])
    words = lambda of: lambda text: [of(word) for word in text.split(",")]
    parser.add_argument("--data", type=Path, required=True, help="where tables are, or are made")
    parser.add_argument("--memory", type=words(int), help="limits in MiB; default 100,200")
    parser.add_argument("--times", type=words(int), help="size of the tables over the limit; default 1,4")
    parser.add_argument("--at-once", type=words(int), help="so many of a statement at a time; default 1")
    parser.add_argument("--statements", type=words(str), default=list(needs.STATEMENTS), help="by name; default all")
    parser.add_argument("--engines", type=words(str), default=list(ENGINES))
    parser.add_argument("--doors", type=words(str), default=["files"], help="of files, s3 and server, by which pagecast alone is asked; default files")
    parser.add_argument("--pagecast", type=Path, help="the command, for the door server")
    parser.add_argument("--long", action="store_true", help="100 MiB to 2 GiB, up to 16 times that, up to 16 at a time: a day")
    parser.add_argument("--json", type=Path, default=Path("target/bench/memory.json"))
    given = parser.parse_args()
    sizes = ((100, 200, 500, 2048), (1, 4, 16), (1, 4, 16)) if given.long else ((100, 200), (1, 4), (1,))
    limits, times, at_once = (one or of for one, of in zip((given.memory, given.times, given.at_once), sizes))
    rows: list[dict] = []
    for limit, size, count in itertools.product(limits, times, at_once):
        data = needs.make(given.data, limit * size * MIB)
        for statement in given.statements:
            cell = [measure(given, engine, door, data, limit * MIB, statement, count)
                    for door in given.doors for engine in given.engines if engine == "pagecast" or door == "files"]
            mark_others(cell)
            rows += cell
            print(f"{limit:>5} MiB x{size:<2} {count:>2} at once  {statement:<24}", *map(_told, cell), sep="  ", flush=True)
            write(given, rows)
    print(summary(rows))
    return 0


def measure(given: argparse.Namespace, engine: str, door: str, data: Path, memory: int, statement: str, at_once: int) -> dict:
    """One run of an engine."""
    about = {"engine": engine, "statement": statement, "data_bytes": int(data.name) * MIB, "memory": memory, "at_once": at_once, "door": door}
    streams = [[needs.STATEMENTS[statement]]] * at_once
    try:
        if door == "server":
            return {**about, **_served(given.pagecast, data, memory, streams)}
        with doors.store(data.parent) if door == "s3" else contextlib.nullcontext() as endpoint:
            return {**about, **_alone(engine, data, memory, streams, endpoint)}
    except doors.Closed as problem:
        return {**about, "rc": -1, "failed": str(problem)}


def _alone(engine: str, data: Path, memory: int, streams: list[list[str]], endpoint: str | None) -> dict:
    """In a process of its own, over files or over a bucket at `endpoint`."""
    command, at = [sys.executable, "-m", "peers.engines", engine], f"s3://{data.name}" if endpoint else str(data)
    with runs.engine(command, data, memory + _BESIDE, stderr=subprocess.PIPE) as (process, limits, scratch):
        job = {"data": at, "endpoint": endpoint, "tables": needs.TABLES, "memory": memory, "scratch": scratch, "streams": streams}
        return _run(process, limits, json.dumps(job))


def _served(command: Path, data: Path, memory: int, streams: list[list[str]]) -> dict:
    """By clients of the server, which are in this process."""
    with tempfile.TemporaryFile("w+") as wrong, doors.server(command, data, memory, _BESIDE, _LONGEST, wrong) as (process, limits, opened):
        (read, cpu), idle = _counts(limits), _resident(process.pid)
        figures = run_streams(lambda: _asked(opened()), streams)
        if process.poll() is not None:
            return {"rc": process.returncode, "failed": doors.failure(process, wrong)}
        read_now, cpu_now = _counts(limits)
        # What it spills cannot be told from what it sends.
        run = {"wall_s": figures["wall_s"], "cpu_s": round(cpu_now - cpu, 3), "peak_rss_bytes": runs.peak(process.pid), "idle_rss_bytes": idle,
               "bytes_read": read_now - read}
        return {**run, **_outcome(figures)}


def _asked(connection) -> Run:
    """Runs a statement over a connection, whose rows become a table."""
    def run(statement: str) -> object:
        import pyarrow

        rows = connection.execute(statement).fetchall()
        return pyarrow.table({str(number): list(column) for number, column in enumerate(zip(*rows))})

    return run


def _counts(limits: Limits) -> tuple[int, float]:
    return (limits.device_bytes(), limits.cpu_seconds()) if limits.counted else (0, 0.0)


def _outcome(figures: dict) -> dict:
    if figures["errors"]:
        return {"rc": 1, "failed": figures["errors"][0]}
    return {"rc": 0, "digest": ",".join(sorted({query["rows"] for query in figures["queries"]}))}


def _run(process: subprocess.Popen, limits: Limits, job: str) -> dict:
    process.stdin.write(job + "\n")
    process.stdin.flush()
    if process.stdout.readline() != "ready\n":
        return {"rc": process.wait(), "failed": process.stderr.read()[-300:]}
    (read, cpu), idle = _counts(limits), _resident(process.pid)
    try:
        said, wrong = process.communicate("go\n", timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return {"rc": -1, "failed": f"no end after {_LONGEST} s"}
    if process.returncode != 0:
        return {"rc": process.returncode, "failed": "ended by the kernel" if process.returncode == -9 else wrong[-300:]}
    figures, (read_now, cpu_now) = json.loads(said), _counts(limits)
    run = {"wall_s": figures["wall_s"], "cpu_s": round(cpu_now - cpu, 3), "peak_rss_bytes": figures["peak_bytes"], "idle_rss_bytes": idle,
           "bytes_read": read_now - read, "bytes_spilled": figures["written_bytes"], "version": figures["version"]}
    return {**run, **_outcome(figures)}


def _resident(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def mark_others(cell: list[dict]) -> None:
    """Notes which runs of a cell gave other rows than most."""
    said = collections.Counter(row["digest"] for row in cell if "digest" in row)
    for row in cell:
        if "digest" in row and row["digest"] != said.most_common(1)[0][0]:
            row.update(rc=2, failed="other rows than most")


def write(given: argparse.Namespace, rows: list[dict]) -> None:
    about = {"date": date.today().isoformat(), "machine": f"{platform.system().lower()} {platform.machine()}", "beside_bytes": _BESIDE}
    runs.write({"schema": 1, **about, "rows": rows}, given.json)


def _told(row: dict) -> str:
    who = row["engine"] if row["door"] == "files" else row["door"]
    if "failed" in row:
        return f"{who}: {' '.join(row['failed'].split())[:60]}"
    return f"{who}: {row['wall_s']:.1f} s, {row['peak_rss_bytes'] >> 20} MiB"


def summary(rows: list[dict]) -> str:
    """How many cells each engine finishes, by each door."""
    of = lambda row: (row["engine"], row["door"])
    done, all_of = (collections.Counter(map(of, some)) for some in ((row for row in rows if "failed" not in row), rows))
    return "\n".join(f"{engine} ({door}): {done[engine, door]} of {count} end with rows" for (engine, door), count in all_of.items())


if __name__ == "__main__":
    sys.exit(main())
