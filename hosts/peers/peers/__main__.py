"""The reports by each engine, on a disk that is slowed to a rate: `make bench-peers`.

An engine runs in a process and a control group of its own, with as much memory, cached files
included, and a cold cache. Engines take turns, seed after seed. A run whose rows differ from those
of most is marked and counts for nothing.
"""

import argparse
import collections
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from cluster.limits import Limits, forget_cached
from peers.engines import ENGINES
from peers.reports import stream

MIB = 1 << 20
# Seconds until a run is given up.
_LONGEST = 900
# Bytes a second that limit nothing: the kernel counts for a device that is limited.
_NO_LIMIT = 1 << 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="where TPC-H's Parquet files are, or are made by tpchgen-cli")
    parser.add_argument("--scale", type=float, default=5)
    parser.add_argument("--engines", type=_words(str), default=list(ENGINES), help=", ".join(ENGINES))
    parser.add_argument("--rates", type=_words(int), default=[100, 400, 0], help="MB/s of the disk, 0 as it is; default 100,400,0")
    parser.add_argument("--streams", type=_words(lambda word: tuple(map(int, word.split(":")))), default=[(1, 6), (8, 3), (32, 1)],
                        help="streams and statements of each; default 1:6,8:3,32:1")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--pool", type=int, default=300, help="MiB for the pool or as the engine's limit; default 300")
    parser.add_argument("--memory", type=int, default=768, help="MiB for the process and cached files; default 768")
    parser.add_argument("--json", type=Path, default=Path("target/bench/peers.json"))
    given = parser.parse_args()
    make(given.data, given.scale)
    runs = []
    for seed in range(1, given.seeds + 1):
        for rate in given.rates:
            for streams, length in given.streams:
                turn = seed % len(given.engines)
                for engine in given.engines[turn:] + given.engines[:turn]:
                    run = measure(given, engine, rate, [stream(seed, number, length, given.scale) for number in range(streams)])
                    runs.append({"engine": engine, "rate": rate, "streams": streams, "length": length, "seed": seed, **run})
                    print(_line(runs[-1]), flush=True)
                    write(given, runs)
    print(table(cells(runs)))
    return 0


def _words(of):
    return lambda text: [of(word) for word in text.split(",")]


def make(folder: Path, scale: float) -> None:
    """Makes the files that are missing, whole or not at all."""
    for name in ("lineitem", "orders"):
        if not (folder / f"{name}.parquet").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as unfinished:
                subprocess.run([Path(sys.executable).with_name("tpchgen-cli"), "parquet", "-s", str(scale), "--tables", name, "--output-dir", unfinished], check=True)
                (Path(unfinished) / f"{name}.parquet").rename(folder / f"{name}.parquet")


def measure(given: argparse.Namespace, engine: str, rate: int, streams: list[list[str]]) -> dict:
    """One run of an engine. What it took counts from when its tables are there."""
    scratch = tempfile.mkdtemp(dir=given.data.parent)
    job = json.dumps({"data": str(given.data), "memory": given.pool * MIB, "scratch": scratch, "streams": streams})
    try:
        with Limits(given.data, given.memory * MIB, rate * 1_000_000 or _NO_LIMIT) as limits:
            forget_cached(given.data)
            with subprocess.Popen(limits.entering([sys.executable, "-m", "peers.engines", engine]), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                try:
                    return _run(process, limits, job)
                finally:
                    process.kill()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(process: subprocess.Popen, limits: Limits, job: str) -> dict:
    process.stdin.write(job + "\n")
    process.stdin.flush()
    if process.stdout.readline() != "ready\n":
        return _failed(process, limits)
    before = (limits.device_bytes(), limits.cpu_seconds()) if limits.counted else (0, 0.0)
    try:
        said, _ = process.communicate("go\n", timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {_LONGEST} s", "limits": limits.description}
    if process.returncode != 0:
        return _failed(process, limits)
    figures = json.loads(said)
    if limits.counted:
        figures["device_bytes"] = limits.device_bytes() - before[0]
        figures["cpu_s"] = round(limits.cpu_seconds() - before[1], 3)
    if figures["errors"]:
        figures["failed"] = figures["errors"][0]
    return {**figures, "limits": limits.description}


def _failed(process: subprocess.Popen, limits: Limits) -> dict:
    code = process.wait()
    return {"failed": "ended by the kernel" if code == -9 else f"ended with {code}", "limits": limits.description}


def with_other_rows(runs: list[dict]) -> list[bool]:
    """Of each run whether it gave other rows than most."""
    def answers(run: dict) -> list[tuple]:
        return [((run["streams"], run["length"], run["seed"], query["stream"], query["position"]), query["rows"]) for query in run.get("queries", [])]

    said = collections.defaultdict(collections.Counter)
    for run in runs:
        for place, rows in answers(run):
            said[place][rows] += 1
    return [any(said[place].most_common(1)[0][0] != rows for place, rows in answers(run)) for run in runs]


def cells(runs: list[dict]) -> list[dict]:
    """Of each device, number of streams and engine the medians over the seeds, or why there are
    none. What this machine does not count is None."""
    groups = collections.defaultdict(list)
    for run, other in zip(runs, with_other_rows(runs)):
        failed = {"failed": "other rows than most"} if other else {}
        groups[run["rate"], run["streams"], run["length"], run["engine"]].append({**run, **failed})
    found = []
    for (rate, streams, length, engine), of in groups.items():
        cell = {"rate": rate, "streams": streams, "length": length, "engine": engine, "runs": len(of)}
        failed = next((run["failed"] for run in of if "failed" in run), None)
        if failed:
            found.append({**cell, "failed": failed})
            continue
        seconds = [query["s"] for run in of for query in run["queries"]]
        middle = {name: statistics.median(run[name] for run in of) if all(name in run for run in of) else None
                  for name in ("device_bytes", "wall_s", "cpu_s", "peak_bytes")}
        found.append({**cell, **middle, "mean_s": round(statistics.mean(seconds), 3), "worst_s": max(seconds)})
    return found


def write(given: argparse.Namespace, runs: list[dict]) -> None:
    """Writes the report, whole or not at all."""
    about = {"scale": given.scale, "pool_mib": given.pool, "memory_mib": given.memory, "date": date.today().isoformat(),
             "machine": f"{platform.system().lower()} {platform.machine()}"}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    unfinished = given.json.with_name(given.json.name + ".unfinished")
    unfinished.write_text(json.dumps({"schema": 1, **about, "cells": cells(runs), "runs": runs}))
    unfinished.replace(given.json)


def _line(run: dict) -> str:
    head = f"{run['rate'] or 'no':>3} MB/s  {run['streams']:>2} x {run['length']}  seed {run['seed']}  {run['engine']:<16}"
    if "failed" in run:
        return f"{head} {run['failed']}"
    return (f"{head} {_told(run.get('device_bytes'), MIB)} MiB  {run['wall_s']:>6.1f} s  processor {_told(run.get('cpu_s'))} s  "
            f"peak {_told(run['peak_bytes'], MIB)} MiB")


def table(cells: list[dict]) -> str:
    """The cells, and our time over each engine's."""
    ours = {(cell["rate"], cell["streams"]): cell["wall_s"] for cell in cells if cell["engine"] == "pagecast" and "failed" not in cell}
    lines = [f"{'MB/s':>5} {'streams':>7}  {'engine':<16} {'MiB':>6} {'s':>6} {'ours':>6} {'processor':>9} {'mean, worst answer':>20} {'peak MiB':>8}"]
    for cell in cells:
        head, wall = f"{cell['rate'] or '-':>5} {cell['streams']:>7}  {cell['engine']:<16}", ours.get((cell["rate"], cell["streams"]))
        if "failed" in cell:
            lines.append(f"{head} {cell['failed']}")
            continue
        beside = f"{wall / cell['wall_s']:.2f}" if wall else ""
        lines.append(f"{head} {_told(cell['device_bytes'], MIB)} {cell['wall_s']:>6.1f} {beside:>6} {_told(cell['cpu_s']):>9} "
                     f"{cell['mean_s']:>12.2f}, {cell['worst_s']:>6.2f} {_told(cell['peak_bytes'], MIB):>8}")
    return "\n".join(lines)


def _told(figure: float | None, unit: int = 1) -> str:
    if figure is None:
        return f"{'-':>6}"
    return f"{figure / unit:>6.0f}" if unit > 1 else f"{figure:>6.1f}"


if __name__ == "__main__":
    sys.exit(main())
