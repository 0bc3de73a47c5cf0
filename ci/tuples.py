#!/usr/bin/env python3
"""Buffers of tuples at equal bytes: `make bench-tuples`.

Each cell of the grid is a generated trace and a memory. `pagecast simulate --tuples` replays it
under the best page-only policies, AMG-Buffer, a cache of rows and ours, with three seeds. What a
replay gave stays in target/bench/tuples, and is kept while it is newer than the command. So the
benchmark can be made in parts: `make bench-tuples ARGS='--seeds 1 --cells scattered'`. The report
of the clusterings is target/bench/tuples-clustering.html.

target/bench/tuples.json has every row's medians, and each goal beside what was measured. It is
Python without dependencies: it only runs the command and reshapes JSON.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

WRITTEN = Path("target/bench")
PAGES = ("lru", "arc", "w-tinylfu", "s3-fifo", "pbm")
BASES = ("pbm", "arc")
FIXED = ("share=50%", "share=85%", "share=97%")
MEMORY = "12.5%"
# A third of a trace fills the memory.
WARM_UP = "33%"


@dataclass(frozen=True)
class Goal:
    """`figure` of ours over pbm, at most `most` times that of the best of `PEERS[of]`."""

    most: float
    of: str
    figure: str = "misses"


AMG, AMG_SPILL = "amg(f=20%,rate=50%,spill=off)", "amg(f=20%,rate=50%,spill=on)"
BEST_PAGES, SAME, OF_AMG, BEST_FIXED = "best pages", "same pages", "AMG", "best share"
PEERS = {
    BEST_PAGES: tuple(f"{policy} off" for policy in PAGES),
    SAME: ("pbm off",),
    OF_AMG: (AMG,),
    BEST_FIXED: ("pbm off", *(f"pbm {share}" for share in FIXED)),
}
FIXED_GOAL = Goal(1.02, BEST_FIXED)


@dataclass(frozen=True)
class Cell:
    name: str
    workload: str
    goals: tuple[Goal, ...]
    options: tuple[str, ...] = field(default=())


def grid() -> list[Cell]:
    def cell(name, parameters, *goals, options=()):
        return Cell(name, f"tuples({parameters})", goals, options)

    return [
        cell("scattered", "", Goal(0.65, BEST_PAGES), Goal(0.90, OF_AMG), FIXED_GOAL),
        cell("clustering-0.125", "clustering=0.125", Goal(0.75, BEST_PAGES), Goal(0.90, OF_AMG), FIXED_GOAL),
        cell("clustering-0.25", "clustering=0.25", Goal(0.87, BEST_PAGES), FIXED_GOAL),
        cell("clustering-0.5", "clustering=0.5", Goal(1.01, SAME), FIXED_GOAL),
        cell("clustering-1", "clustering=1", Goal(1.01, SAME), FIXED_GOAL),
        cell("wide", "clustering=0.25,wide=50%", Goal(1.01, SAME), FIXED_GOAL),
        cell("uniform", "skew=0", Goal(1.01, SAME), FIXED_GOAL),
        Cell("scans", "sequential(streams=16,queries=8,pages=16000)", (Goal(1.01, SAME),)),
        cell("epochs", "epochs=6,wide=50%,clustering=1", Goal(1.01, SAME)),
        cell("pages-64KiB", "page=65536,pages=2048", Goal(0.45, BEST_PAGES), FIXED_GOAL),
        cell("half-writes-checkpoints", "writes=50%", Goal(0.80, BEST_PAGES, "device_requests"), options=("--checkpoint", "100000")),
        cell("few-writes", "writes=5%", Goal(0.70, BEST_PAGES, "device_requests")),
    ]


def run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit(f"bench-tuples: `{' '.join(command)}` ended with {done.returncode}")


def label(row: dict) -> str:
    return f"{row['policy']} {row['tuples']}".strip()


def asked(cell: Cell, of_goals: bool) -> list[tuple[tuple[str, ...], str]]:
    """Policies, and buffers over them: all, or those that the cell's goals are judged by."""
    peers = {peer for goal in cell.goals for peer in PEERS[goal.of]}
    return [
        (PAGES if not of_goals or peers >= set(PEERS[BEST_PAGES]) else ("pbm",), "off"),
        (("pbm",) if of_goals else BASES, "learn"),
        *([(("pbm",), ",".join(FIXED))] if not of_goals or peers >= set(PEERS[BEST_FIXED]) else []),
        *([(("arc",), f"row(50%),mg(f=20%),{AMG},{AMG_SPILL},bound")] if not of_goals else []),
        *([(("arc",), AMG)] if of_goals and AMG in peers else []),
    ]


def replay(pagecast: str, cell: Cell, seed: int, of_goals: bool) -> list[dict]:
    """The rows of a cell for a seed, or those of an earlier run that are newer than the command."""
    made = WRITTEN / "tuples" / f"{cell.name}-{seed}.json"
    if not made.exists() or made.stat().st_mtime < Path(pagecast).stat().st_mtime:
        trace = WRITTEN / "tuples" / f"{cell.name}.pct"
        run([pagecast, "trace", "generate", cell.workload, "--seed", str(seed), "--out", str(trace)])
        common = ["--sizes", MEMORY, "--page-size", "4KiB", "--warm-up", WARM_UP, "--seed", str(seed), *cell.options]
        rows = []
        for policies, tuples in asked(cell, of_goals):
            part = WRITTEN / "tuples" / "part.json"
            these = ["--policies", ",".join(policies), "--tuples", tuples, "--json", str(part)]
            run([pagecast, "simulate", str(trace), *these, *common])
            rows += json.loads(part.read_text())["rows"]
        trace.unlink()
        made.write_text(json.dumps(rows))
    return json.loads(made.read_text())


def medians(of_seeds: list[list[dict]]) -> dict[str, dict]:
    """By label, the medians over the seeds; shares of misses, and device requests a request."""
    rows: dict[str, list[dict]] = {}
    for of_seed in of_seeds:
        for row in of_seed:
            rows.setdefault(label(row), []).append(row)

    def median(of: list[dict], figure: str) -> float:
        return statistics.median(row[figure] / row["requests"] for row in of)

    return {
        name: {
            "misses": median(of, "misses"),
            "device_requests": median(of, "device_requests"),
            "tuple_hits": median(of, "tuple_hits"),
            "share": statistics.median(row["share"] for row in of),
            "memory": of[0]["memory"],
            "seeds": len(of),
        }
        for name, of in rows.items()
    }


def judge(rows: dict[str, dict], goal: Goal) -> dict:
    peer = min((name for name in PEERS[goal.of] if name in rows), key=lambda name: rows[name][goal.figure])
    ratio = rows["pbm learn"][goal.figure] / rows[peer][goal.figure]
    return {"figure": goal.figure, "of": goal.of, "peer": peer, "goal": goal.most, "ratio": round(ratio, 4), "met": ratio <= goal.most}


def pictures(pagecast: str, seed: int) -> None:
    """The hit rate over the clustering, as the command's own report."""
    traces = []
    for clustering in ("0", "0.125", "0.25", "0.5", "1"):
        traces.append(str(WRITTEN / "tuples" / f"clustering {clustering}.pct"))
        run([pagecast, "trace", "generate", f"tuples(clustering={clustering})", "--seed", str(seed), "--out", traces[-1]])
    tuples = f"off,learn,mg(f=20%),{AMG},{AMG_SPILL},row(50%),bound,bound(pages)"
    html = str(WRITTEN / "tuples-clustering.html")
    run([pagecast, "simulate", *traces, "--policies", "pbm,arc", "--tuples", tuples, "--sizes", MEMORY,
         "--warm-up", WARM_UP, "--seed", str(seed), "--html", html])
    for trace in traces:
        Path(trace).unlink()
    print(html)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pagecast", help="the command")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--cells", nargs="+", help="only these", choices=[cell.name for cell in grid()])
    parser.add_argument("--goals", action="store_true", help="only the rows that goals are judged by")
    parser.add_argument("--no-pictures", action="store_true")
    options = parser.parse_args()
    (WRITTEN / "tuples").mkdir(parents=True, exist_ok=True)
    cells = []
    print(f"{'cell':24} {'figure':16} {'ours':>7} {'ratio':>6} {'goal':>5}  peer")
    for cell in grid():
        if options.cells and cell.name not in options.cells:
            continue
        rows = medians([replay(options.pagecast, cell, seed, options.goals) for seed in options.seeds])
        goals = [judge(rows, goal) for goal in cell.goals]
        for goal in goals:
            ours = rows["pbm learn"][goal["figure"]]
            missed = "" if goal["met"] else "  MISSED"
            print(f"{cell.name:24} {goal['figure']:16} {ours:7.4f} {goal['ratio']:6.3f} {goal['goal']:5.2f}  {goal['peer']}{missed}")
        cells.append({"cell": cell.name, "workload": cell.workload, "options": cell.options, "rows": rows, "goals": goals})
    result = {"schema": 1, "memory": MEMORY, "warm_up": WARM_UP, "seeds": options.seeds, "only_goals": options.goals, "ours": "pbm learn", "cells": cells}
    (WRITTEN / "tuples.json").write_text(json.dumps(result, indent=1) + "\n")
    if not options.no_pictures:
        pictures(options.pagecast, options.seeds[0])


if __name__ == "__main__":
    main()
