#!/usr/bin/env python3
"""Delivery out of order over a grid of streams and pools: `make bench-delivery`.

Each cell is one `pagecast bench`: stock delivery with clock, in-order and out-of-order delivery
with pbm, in turns. What a cell gave stays in target/bench/delivery, also when it is broken off, and
target/bench/delivery.json has the rows of all cells that are there. A cell that is whole and newer
than the command is kept, so the grid can be made in parts: `make bench-delivery ARGS='--streams
16'`.

Without arguments the grid is short: some cells, one seed, an idle machine. `--long` has them all,
three seeds, two sizes of the table, and each cell again beside two busy loops: that takes a day.

The table says what out of order took of stock: bytes, time and slowest query, each the median over
the seeds. Where a goal is missed it says so.

It is Python without dependencies: it only runs the command and reshapes JSON.
"""

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WRITTEN = Path("target/bench")
STOCK, OUT_OF_ORDER = "stock", "out-of-order"
# Streams, and the queries of each: about as many in all, as far as there is one for each stream.
QUERIES = {1: 8, 2: 8, 4: 8, 8: 6, 16: 4, 32: 2, 64: 2, 128: 1}
SHORT = {"streams": [8, 16, 32, 64, 128], "pools": ["5%", "10%", "30%"], "seeds": [1], "sf": [1.0], "busy": [0]}
LONG = {"streams": list(QUERIES), "pools": ["5%", "10%", "20%", "30%", "50%"], "seeds": [1, 2, 3],
        "sf": [1.0, 5.0], "busy": [0, 2]}
# What out of order may take of stock, where more than one stream runs.
GOALS = {"bytes_read": 0.90, "wall_s": 1.00, "max_latency_s": 1.20}


@dataclass(frozen=True)
class Cell:
    """One job of the bench."""
    sf: float
    streams: int
    pool: str
    busy: int
    seed: int

    @property
    def name(self) -> str:
        pool = self.pool.replace("%", "pc")
        return f"sf{self.sf:g}-{self.streams}-{pool}-busy{self.busy}-seed{self.seed}.json"


def cells(options: argparse.Namespace) -> list[Cell]:
    """All cells that are asked for, those of the first seed first."""
    grid = {name: getattr(options, name) or (LONG if options.long else SHORT)[name] for name in SHORT}
    return [Cell(sf, streams, pool, busy, seed)
            for seed in grid["seeds"] for sf in grid["sf"] for busy in grid["busy"]
            for streams in grid["streams"] for pool in grid["pools"]]


@contextlib.contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """So many processes that do nothing but use a processor."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(cell: Cell, command: Path, options: argparse.Namespace, to: Path) -> bool:
    """Runs a cell, unless it is there; whether it was broken off."""
    partial = to.with_suffix(".partial")
    if to.exists() and to.stat().st_mtime > command.stat().st_mtime and not options.again:
        return False
    arguments = {
        "sf": cell.sf, "streams": cell.streams, "queries": QUERIES.get(cell.streams, 1),
        "pool": cell.pool, "seed": cell.seed, "repeat": options.repeat,
        "bandwidth": options.bandwidth, "policies": "pbm",
        "delivery": f"{STOCK},in-order,{OUT_OF_ORDER}", "json": partial,
    }
    words = [str(command), "bench"]
    for flag, value in arguments.items():
        words += [f"--{flag}", f"{value:g}" if isinstance(value, float) else str(value)]
    print("$ " + " ".join(words) + (f"   # beside {cell.busy} busy loops" if cell.busy else ""), flush=True)
    with busy_loops(cell.busy):
        status = until_it_ends(words)
    whole = status == 0
    if partial.exists() and (whole or not to.exists()):
        partial.replace(to)
    if status not in (0, 130):
        sys.exit(f"pagecast bench ended with status {status}")
    return not whole


def until_it_ends(words: list[str]) -> int:
    """Runs the command; Ctrl-C ends it, and it keeps what is done."""
    process = subprocess.Popen(words)
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            # A terminal has told the command, too.
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
        return 130


def rows_of(path: Path) -> list[dict]:
    """The rows of a cell. How many loops were busy beside it is in the file's name."""
    given = json.loads(path.read_text())
    config = given["config"]
    busy = int(path.stem.split("busy")[1].split("-")[0])
    rows = []
    for made in given["runs"]:
        latencies = [query["wall_s"] for query in made["queries"]]
        kept = ("seed", "streams", "delivery", "policy", "repetition", "bytes_read", "bytes_requested",
                "belady_bytes_read", "wall_s", "cpu_s", "processors_busy")
        rows.append({
            **{name: made[name] for name in kept},
            "pool": config["pool"], "sf": config["sf"], "busy": busy,
            "bandwidth_bytes_s": config["storage"]["bandwidth_bytes_s"], "cores": config["machine"]["cpus"],
            "mean_latency_s": statistics.mean(latencies), "max_latency_s": max(latencies),
            "partial": given["partial"],
        })
    return rows


def collect(folder: Path) -> list[dict]:
    """The rows of all cells that are there, written to delivery.json."""
    rows = [row for path in sorted(folder.glob("sf*.json")) for row in rows_of(path)]
    target = WRITTEN / "delivery.json"
    beside = target.with_suffix(".tmp")
    beside.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    beside.replace(target)
    return rows


def ratio(rows: list[dict], delivery: str, figure: str) -> float | None:
    """The median over the seeds of what a delivery took of stock."""
    ratios = []
    for seed in {row["seed"] for row in rows}:
        of = [[row[figure] for row in rows if row["seed"] == seed and row["delivery"] == name]
              for name in (delivery, STOCK)]
        if all(of):
            ratios.append(statistics.median(of[0]) / statistics.median(of[1]))
    return statistics.median(ratios) if ratios else None


def summary(rows: list[dict]) -> None:
    grid: dict[tuple, list[dict]] = {}
    for row in rows:
        key = row["sf"], row["busy"], row["streams"], float(row["pool"].rstrip("%"))
        grid.setdefault(key, []).append(row)
    missed = 0
    for (sf, busy, streams, pool), of in sorted(grid.items()):
        took = {figure: ratio(of, OUT_OF_ORDER, figure) for figure in GOALS}
        in_order = ratio(of, "in-order", "bytes_read")
        if None in took.values():
            continue
        goals = GOALS if streams > 1 else dict.fromkeys(GOALS, 1.0)
        beyond = [figure for figure, value in took.items() if round(value, 2) > goals[figure]]
        missed += bool(beyond)
        beside = f", beside {busy} busy loops" if busy else ""
        print(f"sf {sf:g}, {streams:3} streams, pool {pool:3g} %{beside}: bytes {took['bytes_read']:.2f}, "
              f"time {took['wall_s']:.2f}, slowest query {took['max_latency_s']:.2f} of stock"
              + (f"; in order {in_order:.2f} of its bytes" if in_order else "")
              + (f"; beyond its goal: {', '.join(beyond)}" if beyond else ""))
    print(f"{len(grid)} cells, {missed} with something beyond its goal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    listed = lambda of: lambda text: [of(part) for part in text.split(",")]
    parser.add_argument("command", type=Path, help="the pagecast command")
    parser.add_argument("--long", action="store_true", help="the whole grid")
    parser.add_argument("--sf", type=listed(float))
    parser.add_argument("--streams", type=listed(int))
    parser.add_argument("--pools", type=listed(str))
    parser.add_argument("--seeds", type=listed(int))
    parser.add_argument("--busy", type=listed(int), help="numbers of busy loops beside a cell")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--bandwidth", default="40MB/s")
    parser.add_argument("--again", action="store_true", help="run also what is there")
    options = parser.parse_args()
    folder = WRITTEN / "delivery"
    folder.mkdir(parents=True, exist_ok=True)
    broken_off = False
    for cell in cells(options):
        broken_off = run(cell, options.command, options, folder / cell.name)
        collect(folder)
        if broken_off:
            break
    summary(collect(folder))
    if broken_off:
        sys.exit(130)


if __name__ == "__main__":
    main()
