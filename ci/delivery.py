#!/usr/bin/env python3
"""Delivery out of order beside delivery in order and stock: `make bench-delivery`.

Each job is one `pagecast bench`: a seed, a number of streams, a pool, its rows in turns. What a job
gave stays in target/bench/delivery, also when it is broken off, and target/bench/delivery.json has
the rows of all jobs that are there. A job that is whole and newer than the command is kept, so the
benchmark can be made in parts: `make bench-delivery ARGS='--streams 16 --seeds 1'`.

The table has medians over seeds of each seed's median, beside the named peer of the same job, and
from the least seed to the most.

It is Python without dependencies: it only runs the command and reshapes JSON.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WRITTEN = Path("target/bench")
IN_ORDER, OUT_OF_ORDER, STOCK = ("in-order", "pbm"), ("out-of-order", "pbm"), ("stock", "clock")
# Streams, and the queries of each: about as many in all, as far as there is one for each stream.
QUERIES = {8: 6, 16: 3, 32: 2, 64: 2, 128: 1}
MIX = "1%,10%,50%,100%"
# Figures of a row that are compared with the peer's.
FIGURES = ("bytes_read", "wall_s", "mean_latency_s", "max_latency_s")


@dataclass(frozen=True)
class Job:
    streams: int
    pool: str
    seed: int
    selectivity: str
    peer: tuple[str, str]

    @property
    def name(self) -> str:
        parts = [f"{self.streams}", self.pool, self.selectivity.replace(",", "+"), f"seed{self.seed}"]
        return "-".join(part.replace("%", "pc") for part in parts) + ".json"


def jobs(options: argparse.Namespace) -> list[Job]:
    """All jobs that are asked for, those of the first seed first."""
    chosen = []
    for seed in options.seeds:
        for streams in options.streams:
            # Where a hundred queries begin at once, in-order delivery is not the one to beat.
            peer = STOCK if streams >= 64 else IN_ORDER
            pools = options.pools if streams < 64 else options.pools[:1]
            chosen += [Job(streams, pool, seed, "30%", peer) for pool in pools]
        if options.mix:
            chosen += [Job(16, pool, seed, MIX, IN_ORDER) for pool in options.pools]
    return chosen


def run(job: Job, command: Path, options: argparse.Namespace, to: Path) -> bool:
    """Runs a job, unless it is there; whether it was broken off."""
    partial = to.with_suffix(".partial")
    if to.exists() and to.stat().st_mtime > command.stat().st_mtime and not options.again:
        return False
    arguments = {
        "sf": options.sf, "streams": job.streams, "queries": QUERIES.get(job.streams, 1),
        "selectivity": job.selectivity, "pool": job.pool, "seed": job.seed, "repeat": options.repeat,
        # The stock row has clock, whatever the policies are.
        "bandwidth": options.bandwidth, "policies": "pbm",
        "delivery": f"{job.peer[0]},{OUT_OF_ORDER[0]}", "json": partial,
    }
    words = [str(command), "bench"]
    for flag, value in arguments.items():
        words += [f"--{flag}", str(value)]
    print("$ " + " ".join(words), flush=True)
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
    given = json.loads(path.read_text())
    config = given["config"]
    rows = []
    for made in given["runs"]:
        latencies = [query["wall_s"] for query in made["queries"]]
        by_share: dict[str, list[float]] = {}
        for query in made["queries"]:
            by_share.setdefault(f"{query['selectivity']:g}", []).append(query["wall_s"])
        kept = ("seed", "streams", "delivery", "policy", "repetition", "bytes_read", "bytes_requested",
                "belady_bytes_read", "wall_s", "cpu_s")
        rows.append({
            **{name: made[name] for name in kept},
            "pool": config["pool"], "selectivity": config["selectivity"], "sf": config["sf"],
            "bandwidth_bytes_s": config["storage"]["bandwidth_bytes_s"], "cores": config["machine"]["cpus"],
            "mean_latency_s": statistics.mean(latencies), "max_latency_s": max(latencies),
            "mean_latency_by_selectivity_s": {share: statistics.mean(of) for share, of in by_share.items()},
            "partial": given["partial"],
        })
    return rows


def collect(folder: Path) -> list[dict]:
    """The rows of all jobs that are there, written to delivery.json."""
    rows = [row for path in sorted(folder.glob("*.json")) for row in rows_of(path)]
    target = WRITTEN / "delivery.json"
    beside = target.with_suffix(".tmp")
    beside.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    beside.replace(target)
    return rows


def seeds_medians(rows: list[dict], figure) -> dict[int, float]:
    seeds: dict[int, list[float]] = {}
    for row in rows:
        seeds.setdefault(row["seed"], []).append(figure(row))
    return {seed: statistics.median(of) for seed, of in seeds.items()}


def ratios(ours: list[dict], peers: list[dict], figure) -> str:
    """The median over seeds of ours beside the peer's, and the least and the most."""
    mine, theirs = seeds_medians(ours, figure), seeds_medians(peers, figure)
    of = sorted(mine[seed] / theirs[seed] for seed in mine.keys() & theirs.keys() if theirs[seed])
    return f"{statistics.median(of):.2f} ({of[0]:.2f}-{of[-1]:.2f})" if of else "-"


def summary(rows: list[dict]) -> None:
    jobs_of: dict[tuple, list[dict]] = {}
    for row in rows:
        key = (row["streams"], row["pool"], tuple(row["selectivity"]), row["sf"])
        jobs_of.setdefault(key, []).append(row)
    for (streams, pool, selectivity, sf), made in sorted(jobs_of.items(), key=lambda item: str(item[0])):
        ours = [row for row in made if (row["delivery"], row["policy"]) == OUT_OF_ORDER]
        peers = [row for row in made if (row["delivery"], row["policy"]) != OUT_OF_ORDER]
        if not ours or not peers:
            continue
        peer = f"{peers[0]['delivery']} {peers[0]['policy']}"
        shares = ", ".join(f"{share:.0%}" for share in selectivity)
        busy = statistics.median(row["cpu_s"] / row["wall_s"] / row["cores"] for row in made if row["cpu_s"])
        rate = made[0]["bandwidth_bytes_s"]
        print(f"{streams} streams, pool {pool}, ranges {shares}, sf {sf:g}: out-of-order pbm beside {peer}; "
              f"{len({row['seed'] for row in ours})} seeds, {len(ours)} runs, "
              f"{'local disk' if rate is None else f'{rate / 1e6:g} MB/s'}, processors {busy:.0%} busy")
        for name in FIGURES:
            print(f"    {name:<28} {ratios(ours, peers, lambda row, name=name: row[name])}")
        for share in selectivity if len(selectivity) > 1 else ():
            figure = f"mean latency of {share:.0%}"
            of = lambda row, share=share: row["mean_latency_by_selectivity_s"].get(f"{share:g}", 0.0)
            print(f"    {figure:<28} {ratios(ours, peers, of)}")
        belady = seeds_medians(peers, lambda row: row["belady_bytes_read"])
        read = seeds_medians(ours, lambda row: row["bytes_read"])
        of = sorted(read[seed] / belady[seed] for seed in read.keys() & belady.keys() if belady[seed])
        if of:
            print(f"    bytes_read / Belady of peer  {statistics.median(of):.2f} ({of[0]:.2f}-{of[-1]:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser.add_argument("command", type=Path, help="the pagecast command")
    parser.add_argument("--sf", type=float, default=5)
    parser.add_argument("--streams", type=numbers, default=[8, 16, 32, 64, 128])
    parser.add_argument("--pools", type=lambda text: text.split(","), default=["30%", "10%"])
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--bandwidth", default="20MB/s",
                        help="so slow that two cores, which decode at about 50 MB/s each, wait for it")
    parser.add_argument("--mix", action=argparse.BooleanOptionalAction, default=True,
                        help=f"a job with ranges of {MIX.replace('%', ' %%')}")
    parser.add_argument("--again", action="store_true", help="run also what is there")
    options = parser.parse_args()
    folder = WRITTEN / "delivery"
    folder.mkdir(parents=True, exist_ok=True)
    broken_off = False
    for job in jobs(options):
        broken_off = run(job, options.command, options, folder / job.name)
        collect(folder)
        if broken_off:
            break
    summary(collect(folder))
    if broken_off:
        sys.exit(130)


if __name__ == "__main__":
    main()
