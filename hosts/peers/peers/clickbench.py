"""ClickBench's queries over a generated table, in little memory, by each engine: `make
bench-clickbench`.

Memory is 2, 4 and 8 GB where the table has the 100 M rows of the public sample, and shrinks with
it. As there, each query has a process of its own, before which nothing of the file is cached, and
runs three times in it: cold is the first, hot the faster one of the others. An engine is told its
limit; its control group, which counts cached files, has some more. Then ten connections ask at
once, pagecast's through its server. Answers that differ from those of most count as failed.
"""

import argparse
import collections
import contextlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TextIO

from cluster.limits import Limits
from peers import doors, hits, runs
from peers.connections import Ask, ask

MIB = 1 << 20
ENGINES = ("pagecast", "duckdb")
OURS = "pagecast"
# Ours over a peer's: sums of seconds at most, queries a second at least.
GOALS = {"cold": 0.9, "hot": 1.1, "connections": 1.5}
# Bytes that a process may take beyond its limit, with what it is made of and files in the cache.
_BESIDE = 384 * MIB
# Seconds until a statement's process is given up.
_LONGEST = 600
# Queries that are told where a goal is missed: those that lose most seconds.
_WORST = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-clickbench", description=__doc__.partition("\n")[0])
    words = lambda of: lambda text: [of(word) for word in text.split(",")]
    parser.add_argument("--data", type=Path, required=True, help="where the table is, or is made")
    parser.add_argument("--pagecast", type=Path, required=True, help="the command, built with its server")
    parser.add_argument("--rows", type=int, help="of the table; default 2,000,000")
    parser.add_argument("--memory", type=words(float), default=[2, 4, 8], help="GB for 100 M rows; default 2,4,8")
    parser.add_argument("--engines", type=words(str), default=list(ENGINES), help="of pagecast, duckdb, datafusion; default the first two")
    parser.add_argument("--queries", type=words(int), default=list(range(43)), help="numbers from 0 on; default all")
    parser.add_argument("--connections", type=int, default=10, help="at once; 0 for none")
    parser.add_argument("--seconds", type=float, help="for which they ask; default 60")
    parser.add_argument("--long", action="store_true", help="20,000,000 rows and 600 seconds: hours")
    parser.add_argument("--json", type=Path, default=Path("target/bench/clickbench.json"))
    given = parser.parse_args()
    given.rows = given.rows or (20_000_000 if given.long else 2_000_000)
    given.seconds = given.seconds or (600 if given.long else 60)
    data, rows = hits.make(given.data, given.rows), []
    limits = {gb: max(round(gb * 1024 * given.rows / hits.SAMPLE), 1) * MIB for gb in given.memory}
    for gb, memory in limits.items():
        for query in given.queries:
            told = {engine: alone(given, engine, data, memory, query) for engine in given.engines}
            mark_others(list(told.values()))
            for engine, (cold, hot) in told.items():
                about = {"engine": engine, "gb": gb, "memory": memory, "query": query}
                rows += [{**about, "state": "cold", **cold}, {**about, "state": "hot", **hot}]
            print(f"{memory // MIB:>5} MiB  query {query:<2}", *(_told(engine, *of) for engine, of in told.items()), sep="  ", flush=True)
            write(given, rows)
    digests = agreed(rows)
    for gb, memory in limits.items() if given.connections else ():
        for engine in given.engines:
            job = {"rows": given.rows, "connections": given.connections, "seconds": given.seconds, "digests": digests}
            rows.append({"engine": engine, "gb": gb, "memory": memory, "state": "connections", **together(given, engine, data, memory, job)})
            print(f"{memory // MIB:>5} MiB  {given.connections} connections  {_line(rows[-1])}", flush=True)
            write(given, rows)
    print(table(cells(rows)))
    return 0


def alone(given: argparse.Namespace, engine: str, data: Path, memory: int, query: int) -> tuple[dict, dict]:
    """A query in a process of its own, cold and hot."""
    with _started([sys.executable, "-m", "peers.thrice", engine], data, memory) as (process, _, scratch, wrong):
        said, failed = _answer(process, {**_job(data, memory, scratch), "rows": given.rows, "query": query}, _LONGEST, wrong)
    told = [json.loads(line) for line in said]
    ended = [run for run in told if "failed" not in run]
    failed = next(({"rc": 1, **run} for run in told if "failed" in run), failed)
    cold = {"rc": 0, **ended[0]} if ended else dict(failed)
    if len(ended) < 3:
        return cold, dict(failed)
    # Both count where they differ.
    digest = "/".join(sorted({run["digest"] for run in ended[1:]}))
    return cold, {"rc": 0, **min(ended[1:], key=lambda run: run["wall_s"]), "digest": digest}


def together(given: argparse.Namespace, engine: str, data: Path, memory: int, job: dict) -> dict:
    """Connections at once, for some time."""
    if engine == OURS:
        return _served(given.pagecast, data, memory, job)
    with _started([sys.executable, "-m", "peers.connections", engine], data, memory) as (process, limits, scratch, wrong):
        before = _processor(limits)
        said, failed = _answer(process, {**_job(data, memory, scratch), **job}, job["seconds"] + _LONGEST, wrong)
        return {"rc": 0, **json.loads(said[0]), "cpu_s": round(_processor(limits) - before, 3)} if said else failed


def _served(command: Path, data: Path, memory: int, job: dict) -> dict:
    def connect() -> Ask:
        connection = opened()
        return lambda statement: connection.execute(statement).fetchall()

    try:
        with tempfile.TemporaryFile("w+") as wrong, doors.server(command, data, memory, _BESIDE, _LONGEST, wrong) as (process, limits, opened):
            before = _processor(limits)
            told = ask(connect, job)
            if process.poll() is not None:
                return {**told, "rc": process.returncode, "failed": doors.failure(process, wrong)}
            return {"rc": 0, **told, "cpu_s": round(_processor(limits) - before, 3), "peak_rss_bytes": runs.peak(process.pid)}
    except doors.Closed as problem:
        return {"rc": -1, "failed": str(problem)}


@contextlib.contextmanager
def _started(command: list, data: Path, memory: int) -> Iterator[tuple]:
    """An engine's process, and a file that has what it says of errors."""
    with tempfile.TemporaryFile("w+") as wrong, runs.engine(command, data, memory + _BESIDE, stderr=wrong.fileno()) as (process, limits, scratch):
        yield process, limits, scratch, wrong


def _job(data: Path, memory: int, scratch: str) -> dict:
    return {"data": str(data), "tables": ["hits"], "memory": memory, "scratch": scratch}


def _answer(process: subprocess.Popen, job: dict, longest: float, wrong) -> tuple[list[str], dict]:
    """The lines that a process says of its job, and why it ended before the last of them."""
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
    if process.stdout.readline() != "ready\n":
        return [], _ended(process, wrong)
    try:
        said, _ = process.communicate("go\n", timeout=longest)
    except subprocess.TimeoutExpired:
        return [], {"rc": -1, "failed": f"no end after {longest:g} s"}
    return said.splitlines(), _ended(process, wrong) if process.returncode else {}


def _ended(process: subprocess.Popen, wrong: TextIO) -> dict:
    return {"rc": process.wait(), "failed": doors.failure(process, wrong)}


def _processor(limits: Limits) -> float:
    return limits.cpu_seconds() if limits.counted else 0.0


def mark_others(told: list[tuple[dict, dict]]) -> None:
    """Notes which runs of a query gave other rows than most; all of them, where no rows are those
    of most."""
    every = [run for of in told for run in of if "digest" in run]
    said = collections.Counter(run["digest"] for run in every)
    for run in every:
        if 2 * said[run["digest"]] <= len(every):
            run.update(rc=2, failed="other rows than most")


def agreed(rows: list[dict]) -> dict[str, str]:
    """The digest of each query's answer, alone."""
    return {str(row["query"]): row["digest"] for row in rows if "digest" in row and "failed" not in row}


def write(given: argparse.Namespace, rows: list[dict]) -> None:
    about = {"date": date.today().isoformat(), "machine": f"{platform.system().lower()} {platform.machine()}", "beside_bytes": _BESIDE,
             "rows_of_table": given.rows, "seconds": given.seconds, "connections": given.connections}
    runs.write({"schema": 1, **about, "cells": cells(rows), "rows": rows}, given.json)


def cells(rows: list[dict]) -> list[dict]:
    """Ours beside each peer, by memory: seconds of the queries that both answer, cold and hot, and
    queries a second. A goal is missed, too, where a query of ours fails."""
    found = []
    groups: dict[tuple, dict[str, list[dict]]] = {}
    for row in rows:
        groups.setdefault((row["gb"], row["memory"], row["state"]), {}).setdefault(row["engine"], []).append(row)
    for (gb, memory, state), of in groups.items():
        for peer in [engine for engine in of if OURS in of and engine != OURS]:
            pair = {OURS: of[OURS], peer: of[peer]}
            cell = _at_once(pair) if state == "connections" else _one_by_one(pair, GOALS[state])
            found.append({"gb": gb, "memory": memory, "state": state, "peer": peer, "goal": GOALS[state], **cell})
    return found


def _one_by_one(pair: dict[str, list[dict]], goal: float) -> dict:
    ours, theirs = ({row["query"]: row["wall_s"] for row in of if "failed" not in row} for of in pair.values())
    both = ours.keys() & theirs.keys()
    sums = [round(sum(of[query] for query in both), 3) for of in (ours, theirs)]
    slowest = sorted(both, key=lambda query: theirs[query] - ours[query])[:_WORST]
    return {"figures": sums, "answered": [len(ours), len(theirs)], "asked": len(pair[OURS]), "ratio": round(sums[0] / sums[1], 3) if both else None,
            "missed": len(ours) < len(pair[OURS]) or sums[0] > goal * sums[1],
            "failed": sorted(row["query"] for row in pair[OURS] if "failed" in row),
            "slowest": [[query, ours[query], theirs[query]] for query in slowest if ours[query] > goal * theirs[query]]}


def _at_once(pair: dict[str, list[dict]]) -> dict:
    ours, theirs = ({"queries_s": 0, "answered": 0, "errors": None, **of[0]} for of in pair.values())
    rates = [ours["queries_s"], theirs["queries_s"]]
    fails = bool(ours["errors"]) or "failed" in ours
    return {"figures": rates, "answered": [ours["answered"], theirs["answered"]], "errors": [ours["errors"], theirs["errors"]],
            "ratio": round(rates[0] / rates[1], 3) if rates[1] else None, "missed": fails or rates[0] < GOALS["connections"] * rates[1]}


def _told(engine: str, cold: dict, hot: dict) -> str:
    if "failed" in cold or "failed" in hot:
        return f"{engine}: {' '.join((cold.get('failed') or hot['failed']).split())[:60]}"
    return f"{engine}: {cold['wall_s']:.2f} s, {hot['wall_s']:.2f} s, {hot['peak_rss_bytes'] // MIB} MiB"


def _line(row: dict) -> str:
    answered = f"{row['answered']} answered, {row['errors']} errors, {row['queries_s']:.2f} a second" if "answered" in row else ""
    return " ".join([f"{row['engine']}:", answered, row.get("failed", ""), *row.get("texts", [])[:1]])


def table(cells: list[dict]) -> str:
    """The cells, with what misses its goal and the queries that lose most seconds."""
    lines = [f"{'MiB':>5} {'':<12} {'peer':<11} {'ours':>9} {'peer':>9} {'answered':>14} {'errors':>12} {'ratio':>6} {'goal':>5}"]
    for cell in cells:
        figures = " ".join(f"{figure:>9.2f}" for figure in cell["figures"])
        both = lambda values: ", ".join("-" if value is None else str(value) for value in values)
        ratio = "" if cell["ratio"] is None else f"{cell['ratio']:.2f}"
        lines.append(f"{cell['memory'] // MIB:>5} {cell['state']:<12} {cell['peer']:<11} {figures} {both(cell['answered']):>14} "
                     f"{both(cell.get('errors', [])):>12} {ratio:>6} {cell['goal']:>5}{'  missed' if cell['missed'] else ''}")
        if cell.get("failed"):
            lines.append(f"{'':>18} we fail {', '.join(map(str, cell['failed']))}")
        if cell["missed"] and cell.get("slowest"):
            lines.append(f"{'':>18} {'; '.join(f'query {query}: {ours:.2f} s, {theirs:.2f} s' for query, ours, theirs in cell['slowest'])}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
