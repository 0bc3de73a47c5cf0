"""Figures 5 to 12 of PVLDB 18(13), scaled to this machine: each policy of the paper that the
extension has, by settings of it, beside the server's clock and our defaults.

`sampling` is the paper's: 10 random samples, one victim at a time, no statistics, no fallback. The
stretch in front of the clock's hand is the sample (core's steering.rs). PBM-PQ is not among them:
its queues need to hear of every page that comes or is found, and an extension does not.

A run is kept in the JSON file as soon as it has ended, and is not made again with the same build.
So what was broken off goes on.
"""

import argparse
import hashlib
import itertools
import json
import statistics
import sys
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bench import data
from bench.__main__ import size
from bench.cooperative import build
from bench.measure import VARIANTS, Bench
from bench.workloads import WORKLOADS, Workload, date_ranges, ycsb
from cluster import ServerFailed, SqlError, find_with_pagecast

# The table is in the kernel's memory: there steering rests by itself, for blocks are cheap.
_BLOCKS_COUNT = {"pg_pagecast.read_time": "1ms"}
_PAPER = {**_BLOCKS_COUNT, "pg_pagecast.samples": 10, "pg_pagecast.bulk": 1, "pg_pagecast.frequency": "off", "pg_pagecast.fallback": "random"}
_FREQUENCY = {**_PAPER, "pg_pagecast.frequency": "max"}


def _sampling(**changed) -> dict:
    return {**VARIANTS["steering"], **_PAPER, **{f"pg_pagecast.{name}": value for name, value in changed.items()}}


POLICIES = {
    "clock": {},
    "sampling": _sampling(),
    "sampling, frequency": {**VARIANTS["steering"], **_FREQUENCY},
    "sampling, frequency, lru": {**VARIANTS["steering"], **_FREQUENCY, "pg_pagecast.fallback": "lru"},
    **{f"{samples} samples": _sampling(samples=samples) for samples in (1, 2, 5, 20, 100)},
    "10 of 100 samples": _sampling(samples=10, bulk=10),
    "ours": {**VARIANTS["cooperative"], **_BLOCKS_COUNT},
}
_THREE = ["clock", "sampling", "ours"]
_FIVE = ["clock", "sampling", "sampling, frequency", "sampling, frequency, lru", "ours"]
_SAMPLES = [name for name in POLICIES if "samples" in name]
_ALL_STREAMS = [1, 2, 4, 8, 16, 32, 64]


@dataclass(frozen=True)
class Figure:
    """What a figure of the paper varies. Pools are per cent of lineitem."""

    workloads: list[Workload]
    streams: list[int]
    policies: list[str]
    pools: tuple[int, ...] = (30,)
    # Queries of a stream.
    length: int = 3


FIGURES = {
    "5": Figure([WORKLOADS["brin"]], _ALL_STREAMS, _THREE),
    "6": Figure([date_ranges(0.1)], [32], _THREE, (20, 30, 45, 60, 75)),
    "7": Figure([WORKLOADS["brin"]], [8, 32], [*_SAMPLES, "sampling"]),
    "8": Figure([WORKLOADS["trailing"]], [8, 32, 64], _FIVE),
    "9": Figure([WORKLOADS["index"]], [2, 8, 32, 64], _FIVE),
    "10": Figure([WORKLOADS["tpch"]], [4, 8, 16], _FIVE, length=16),
    "11": Figure([ycsb(skew, every) for skew in (0, 0.75, 0.99) for every in (0, 500, 125)], [8], _FIVE, length=1000),
    "12": Figure([ycsb(skew, every) for skew in (0.75, 0.99) for every in (2000, 1000, 250)], [8], _FIVE, length=2000),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.paper", description="Figures 5 to 12 of PVLDB 18(13) on this machine.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--figures", type=lambda text: text.split(","), default=list(FIGURES))
    parser.add_argument("--streams", type=lambda text: [int(word) for word in text.split(",")], help="only these of each figure's")
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor; default 0.1, 100 MB of lineitem")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bandwidth", type=size, default=size("200MiB"))
    parser.add_argument("--seconds", type=float, help="begin no run after so long")
    parser.add_argument("--json", type=Path, default=Path("target/bench/paper-postgres.json"))
    given = parser.parse_args()
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    try:
        measure(given, installation)
    except (ServerFailed, SqlError, OSError) as problem:
        print(f"paper: {problem}", file=sys.stderr)
        return 1
    return 0


def measure(given: argparse.Namespace, installation) -> None:
    """Makes the runs that the file has not, seed by seed, so that all figures get on alike."""
    runs = json.loads(given.json.read_text())["runs"] if given.json.is_file() else []
    folder = data.folder(installation, given.scale)
    library, start, prepared = build(installation), time.monotonic(), None
    for seed, name in itertools.product(range(1, given.seeds + 1), given.figures):
        figure = FIGURES[name]
        streams = [number for number in figure.streams if given.streams is None or number in given.streams]
        for workload, number, pool in itertools.product(figure.workloads, streams, figure.pools):
            turn = seed % len(figure.policies)
            for policy in figure.policies[turn:] + figure.policies[:turn]:
                key = {"figure": name, "workload": workload.name, "streams": number, "pool": pool, "policy": policy, "seed": seed, "scale": given.scale,
                       "build": library if POLICIES[policy] else "stock", "server": installation.version}
                if any(all(run[field] == value for field, value in key.items()) for run in runs):
                    continue
                if given.seconds and time.monotonic() - start > given.seconds:
                    print("the time is over; the same command goes on")
                    return write(given, runs)
                bench = _bench(installation, folder, given, pool, number)
                if prepared != workload.name:
                    bench.prepare(workload)
                    prepared = workload.name
                runs.append({**key, **_run(bench, workload, policy, seed, number, figure.length)})
                print(_line(runs[-1]), flush=True)
                write(given, runs)
    write(given, runs)


def _bench(installation, folder: Path, given: argparse.Namespace, pool: int, streams: int) -> Bench:
    shared_buffers = int(930 * given.scale * pool / 100) << 20
    # As the paper's 22 GiB for a pool of 16, and what the processes need of their own.
    memory = int(shared_buffers * 1.375) + (streams + 8) * (10 << 20)
    return Bench(installation, folder, given.scale, shared_buffers, memory, given.bandwidth)


def _run(bench: Bench, workload: Workload, policy: str, seed: int, streams: int, length: int) -> dict:
    run = bench.run(workload, POLICIES[policy], seed, streams, length)
    return {"date": date.today().isoformat(), "length": length,
            **{name: run[name] for name in ("blocks", "hits", "device_bytes", "wall_s", "cpu_s")}, "results": hash_of(run)}


def hash_of(run: dict) -> str:
    """All answers of a run."""
    answers = [(query["stream"], query["name"], query["result"]) for query in run["queries"]]
    return hashlib.md5(repr(answers).encode()).hexdigest()


def _line(run: dict) -> str:
    return (f"Figure {run['figure']:<3} {run['workload']:<22} {run['streams']:>3} streams  pool {run['pool']:>2} %  seed {run['seed']}  {run['policy']:<25} "
            f"{_hit_rate(run):>6.1%} hit  {run['device_bytes'] >> 20:>6} MiB  {run['wall_s']:>6.1f} s")


def _hit_rate(run: dict) -> float:
    return run["hits"] / max(1, run["hits"] + run["blocks"])


def cells(runs: list[dict]) -> list[dict]:
    """Of each point of a figure the median, the least and the most over the seeds, and whether all
    policies gave the same answers."""
    fields = ("figure", "workload", "streams", "pool", "policy", "scale")
    groups: dict[tuple, list[dict]] = {}
    answers: dict[tuple, set] = {}
    for run in runs:
        groups.setdefault(tuple(run[field] for field in fields), []).append(run)
        answers.setdefault((run["workload"], run["streams"], run["seed"], run["scale"], run["length"]), set()).add(run["results"])
    found = []
    for key, group in groups.items():
        cell = dict(zip(fields, key)) | {"runs": len(group)}
        for name, values in {"hit_rate": [_hit_rate(run) for run in group], **{name: [run[name] for run in group] for name in ("blocks", "device_bytes", "wall_s")}}.items():
            cell[name] = [round(value, 4) for value in (statistics.median(values), min(values), max(values))]
        cell["same_results"] = all(len(answers[run["workload"], run["streams"], run["seed"], run["scale"], run["length"]]) == 1 for run in group)
        found.append(cell)
    return found


def write(given: argparse.Namespace, runs: list[dict]) -> None:
    """Writes the report, whole or not at all."""
    document = {"schema": 1, "bandwidth": given.bandwidth, "cells": cells(runs), "runs": runs}
    given.json.parent.mkdir(parents=True, exist_ok=True)
    unfinished = given.json.with_name(given.json.name + ".unfinished")
    unfinished.write_text(json.dumps(document, separators=(",", ":")))
    unfinished.replace(given.json)


if __name__ == "__main__":
    sys.exit(main())
