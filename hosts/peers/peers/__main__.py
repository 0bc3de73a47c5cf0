"""The reports by each engine, on a disk that is slowed to a rate: `make bench-peers`.

An engine runs in a process and a control group of its own, with as much memory, cached files
included, and a cold cache. Engines take turns, seed after seed. A run whose rows differ from those
of most is marked and counts for nothing.
"""

import argparse
import collections
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from cluster.limits import Limits
from peers import runs
from peers.engines import ENGINES, OF_PROGRAM
from peers.reports import stream

MIB = 1 << 20
TABLES = ("lineitem", "orders")
# Seconds until a run is given up.
_LONGEST = 900
# MiB that a process may take beyond its budget.
_BESIDE_BUDGET = 128


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="where TPC-H's Parquet files are, or are made by tpchgen-cli")
    parser.add_argument("--scale", type=float, default=5)
    parser.add_argument("--engines", type=_words(str), help=f"{', '.join(ENGINES)}; with --program {' and '.join(OF_PROGRAM)}; default all")
    parser.add_argument("--program", type=Path, help="hosts/peers/caches, built: has engines of its own")
    parser.add_argument("--rates", type=_words(int), default=[100, 400, 0], help="MB/s of the disk, 0 as it is; default 100,400,0")
    parser.add_argument("--streams", type=_words(lambda word: tuple(map(int, word.split(":")))), default=[(1, 6), (8, 3), (32, 1)],
                        help="streams and statements of each; default 1:6,8:3,32:1")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--memory", type=int, default=768, help="MiB for the process and cached files; default 768")
    parser.add_argument("--pool", type=int, default=300, help="MiB as the engine's limit, which does not count all that it takes; default 300")
    parser.add_argument("--budget", type=int, help=f"MiB for pagecast, which counts it all; default {_BESIDE_BUDGET} less than --memory")
    parser.add_argument("--json", type=Path, default=Path("target/bench/peers.json"))
    given = parser.parse_args()
    given.budget = given.budget or given.memory - _BESIDE_BUDGET
    given.engines = given.engines or [*ENGINES, *(OF_PROGRAM if given.program else ())]
    make(given.data, given.scale)
    rows = []
    for seed in range(1, given.seeds + 1):
        for rate in given.rates:
            for streams, length in given.streams:
                turn = seed % len(given.engines)
                for engine in given.engines[turn:] + given.engines[:turn]:
                    run = measure(given, engine, rate, [stream(seed, number, length, given.scale) for number in range(streams)])
                    rows.append({"engine": engine, "device": f"{rate} MB/s" if rate else "no limit", "streams": streams, "queries": length,
                                 "seed": seed, "memory": given.memory * MIB, **run})
                    print(_line(rows[-1]), flush=True)
                    write(given, rows)
    print(table(cells(rows)))
    return 0


def _words(of):
    return lambda text: [of(word) for word in text.split(",")]


def make(folder: Path, scale: float) -> None:
    """Makes the files that are missing, whole or not at all."""
    for name in TABLES:
        if not (folder / f"{name}.parquet").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as unfinished:
                subprocess.run([Path(sys.executable).with_name("tpchgen-cli"), "parquet", "-s", str(scale), "--tables", name, "--output-dir", unfinished], check=True)
                (Path(unfinished) / f"{name}.parquet").rename(folder / f"{name}.parquet")


def measure(given: argparse.Namespace, engine: str, rate: int, streams: list[list[str]]) -> dict:
    """One run of an engine. What it took counts from when its tables are there."""
    limit = given.budget if engine.startswith("pagecast") else given.pool
    # As the program asks for: it takes less so.
    command = ["env", "MALLOC_ARENA_MAX=2", given.program, engine] if engine in OF_PROGRAM else [sys.executable, "-m", "peers.engines", engine]
    with runs.engine(command, given.data, given.memory * MIB, rate * 1_000_000 or runs.NO_LIMIT) as (process, limits, scratch):
        job = {"data": str(given.data), "tables": TABLES, "memory": limit * MIB, "scratch": scratch, "streams": streams}
        return _run(process, limits, json.dumps(job))


def _run(process: subprocess.Popen, limits: Limits, job: str) -> dict:
    process.stdin.write(job + "\n")
    process.stdin.flush()
    if process.stdout.readline() != "ready\n":
        return _failed(process, limits)
    before = _counts(limits)
    try:
        said, _ = process.communicate("go\n", timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {_LONGEST} s", "limits": limits.description}
    if process.returncode != 0:
        return _failed(process, limits)
    figures = json.loads(said)
    counted = {name: round(after - before[name], 3) for name, after in _counts(limits).items()}
    if figures["errors"]:
        return {"version": figures["version"], "failed": figures["errors"][0], "limits": limits.description}
    answers = sorted(figures["queries"], key=lambda query: (query["stream"], query["position"]))
    seconds = [query["s"] for query in answers]
    busy = {"processors_busy": round(counted["cpu_s"] / figures["wall_s"] / os.cpu_count(), 3)} if counted else {}
    return {"version": figures["version"], **counted, **busy, "wall_s": figures["wall_s"], "mean_latency_s": round(statistics.mean(seconds), 3),
            "max_latency_s": max(seconds), "peak_rss_bytes": figures["peak_bytes"],
            "digest": hashlib.md5("".join(query["rows"] for query in answers).encode()).hexdigest(), "limits": limits.description}


def _counts(limits: Limits) -> dict:
    """What the engine's group has used so far; nothing where there are no groups."""
    if not limits.counted:
        return {}
    return {"device_bytes": limits.device_bytes(), "requests": limits.device_reads(), "cpu_s": limits.cpu_seconds()}


def _failed(process: subprocess.Popen, limits: Limits) -> dict:
    code = process.wait()
    return {"failed": "ended by the kernel" if code == -9 else f"ended with {code}", "limits": limits.description}


def with_other_rows(rows: list[dict]) -> list[bool]:
    """Of each run whether it gave other rows than most."""
    said = collections.defaultdict(collections.Counter)
    for row in rows:
        if "digest" in row:
            said[_load(row)][row["digest"]] += 1
    return ["digest" in row and said[_load(row)].most_common(1)[0][0] != row["digest"] for row in rows]


def _load(row: dict) -> tuple:
    return row["streams"], row["queries"], row["seed"]


def cells(rows: list[dict]) -> list[dict]:
    """Of each device, number of streams and engine the medians over the seeds, or why there are
    none. What this machine does not count is None."""
    groups = collections.defaultdict(list)
    for row, other in zip(rows, with_other_rows(rows)):
        failed = {"failed": "other rows than most"} if other else {}
        groups[row["device"], row["streams"], row["queries"], row["engine"]].append({**row, **failed})
    return [_cell(dict(zip(("device", "streams", "queries", "engine"), group)), of) for group, of in groups.items()]


def _cell(group: dict, of: list[dict]) -> dict:
    cell = {**group, "version": of[0].get("version"), "runs": len(of)}
    failed = [row["failed"] for row in of if "failed" in row]
    if failed:
        return {**cell, "failed": failed[0]}
    names = ("device_bytes", "requests", "wall_s", "cpu_s", "processors_busy", "peak_rss_bytes", "mean_latency_s")
    middle = {name: statistics.median(row[name] for row in of) if all(name in row for row in of) else None for name in names}
    return {**cell, **middle, "max_latency_s": max(row["max_latency_s"] for row in of)}


def write(given: argparse.Namespace, rows: list[dict]) -> None:
    about = {"scale": given.scale, "pool_mib": given.pool, "budget_mib": given.budget, "memory_mib": given.memory, "date": date.today().isoformat(),
             "machine": f"{platform.system().lower()} {platform.machine()}"}
    runs.write({"schema": 1, **about, "cells": cells(rows), "rows": rows}, given.json)


def _line(row: dict) -> str:
    head = f"{row['device']:>8}  {row['streams']:>2} x {row['queries']}  seed {row['seed']}  {row['engine']:<16}"
    if "failed" in row:
        return f"{head} {row['failed']}"
    return (f"{head} {_told(row.get('device_bytes'), MIB)} MiB  {row['wall_s']:>6.1f} s  processor {_told(row.get('cpu_s'))} s  "
            f"peak {_told(row['peak_rss_bytes'], MIB)} MiB")


def table(cells: list[dict]) -> str:
    """The cells, and our time over each engine's."""
    ours = {(cell["device"], cell["streams"]): cell["wall_s"] for cell in cells if cell["engine"] == "pagecast" and "failed" not in cell}
    lines = [f"{'device':>8} {'streams':>7}  {'engine':<16} {'MiB':>6} {'reads':>6} {'s':>6} {'ours':>6} {'processor':>9} "
             f"{'mean, worst answer':>20} {'peak MiB':>8}"]
    for cell in cells:
        head, wall = f"{cell['device']:>8} {cell['streams']:>7}  {cell['engine']:<16}", ours.get((cell["device"], cell["streams"]))
        if "failed" in cell:
            lines.append(f"{head} {cell['failed']}")
            continue
        beside = f"{wall / cell['wall_s']:.2f}" if wall else ""
        lines.append(f"{head} {_told(cell['device_bytes'], MIB)} {_told(cell['requests'])} {cell['wall_s']:>6.1f} {beside:>6} {_told(cell['cpu_s']):>9} "
                     f"{cell['mean_latency_s']:>12.2f}, {cell['max_latency_s']:>6.2f} {_told(cell['peak_rss_bytes'], MIB):>8}")
    return "\n".join(lines)


def _told(figure: float | None, unit: int = 1) -> str:
    if figure is None:
        return f"{'-':>6}"
    return f"{figure / unit:>6.0f}" if unit > 1 else f"{figure:>6.1f}"


if __name__ == "__main__":
    sys.exit(main())
