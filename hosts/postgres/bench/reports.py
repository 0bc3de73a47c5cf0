"""Reports that come by the clock beside pgbench, with pg_pagecast over a stock server, in pairs.

As cron would have it: each of some reports sums a part of a table of facts every so many seconds,
by a bitmap scan, and pgbench goes on beside them at a fixed rate over tables larger than the pool.
The runs of a pair have the same data, seed and length, in an order that alternates: a stock server,
one with pg_pagecast that expects nothing (pg_pagecast.forecast = off), and one that does. The first
rounds of each report are to learn from and are not counted. Results are ratios over stock. Never
run in CI.
"""

import argparse
import json
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench.__main__ import size
from bench.latency import pgbench
from bench.measure import VARIANTS
from cluster import Cluster, Installation, Limits, ServerFailed, find_with_pagecast
from cluster.limits import forget_cached

_SETTINGS = {"autovacuum": "off", "jit": "off", "max_parallel_workers_per_gather": 0, "synchronous_commit": "off", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
             "max_connections": 60, "compute_query_id": "on"}
_VARIANTS = {"stock": VARIANTS["stock"], "without": {**VARIANTS["cooperative"], "pg_pagecast.forecast": "off"}, "forecast": VARIANTS["cooperative"]}
# Rounds of a report from which its rhythm is learned.
_FIRST = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.reports", description="Reports by the clock beside pgbench, over those of a stock server.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--reports", type=int, default=4, help="different ones; default 4")
    parser.add_argument("--every", type=float, default=30, help="seconds from a run of a report to the next; default 30")
    parser.add_argument("--rounds", type=int, default=7, help=f"of each report; the first {_FIRST} are not counted")
    parser.add_argument("--share", type=float, default=0.1, help="of the pool that a report reads; default 0.1")
    parser.add_argument("--rate", type=int, default=200, help="transactions a second; default 200")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--script", default="select-only", choices=["select-only", "tpcb-like"])
    parser.add_argument("--scale", type=int, default=40, help="of pgbench's tables; default 40, 600 MB")
    parser.add_argument("--shared-buffers", type=size, default=size("96MiB"))
    parser.add_argument("--memory", type=size, default=size("160MiB"), help="of the server with the kernel's cache for it")
    parser.add_argument("--bandwidth", type=size, default=size("200MiB"), help="reads a second from the device")
    parser.add_argument("--variants", default="stock,without,forecast", type=lambda text: text.split(","))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("target/bench/postgres-reports.json"))
    given = parser.parse_args()
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    try:
        measure(given, installation)
    except ServerFailed as problem:
        print(f"reports: {problem}", file=sys.stderr)
        return 1
    return 0


def measure(given: argparse.Namespace, installation: Installation) -> None:
    """Runs the pairs, prints each run, and what is said of all."""
    runs: list[dict] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(installation, {**_SETTINGS, "shared_buffers": f"{given.shared_buffers >> 10}kB"}))
        load(cluster, given)
        cluster.limits = stack.enter_context(Limits(cluster.folder, given.memory, given.bandwidth))
        # The server leaves its group before the group goes.
        stack.callback(cluster.stop)
        for number in range(given.pairs):
            turn = number % len(given.variants)
            for variant in given.variants[turn:] + given.variants[:turn]:
                runs.append({"variant": variant, "seed": given.seed + number, **run(cluster, variant, given, given.seed + number)})
                print("  ".join(f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}" for name, value in runs[-1].items()), flush=True)
            document = {"schema": 1, "server": installation.version, "settings": _SETTINGS, "limits": cluster.limits.description,
                        "options": {name: str(value) for name, value in vars(given).items()}, "runs": runs}
            given.json.parent.mkdir(parents=True, exist_ok=True)
            given.json.write_text(json.dumps(document, indent=1))
    for line in summary(runs):
        print(line)


def summary(runs: list[dict]) -> list[str]:
    """For each variant the median of its ratios over stock, least and most."""
    stock = {run["seed"]: run for run in runs if run["variant"] == "stock"}
    lines = []
    for variant in dict.fromkeys(run["variant"] for run in runs):
        pairs = [(run, stock[run["seed"]]) for run in runs if run["variant"] == variant and run["seed"] in stock]
        if variant == "stock" or not pairs:
            continue
        ratios = {name: [ours[name] / theirs[name] for ours, theirs in pairs] for name in pairs[0][0] if all(isinstance(side[name], (int, float)) and side[name] for pair in pairs for side in pair) and name != "seed"}
        lines.append(f"{variant} over stock: " + ", ".join(f"{name} {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})" for name, found in ratios.items()))
    return lines


def load(cluster: Cluster, given: argparse.Namespace) -> None:
    """Makes pgbench's tables, and facts of three times the pool whose days lie in order."""
    rows = rows_of(given)
    cluster.create().start(fsync="off")
    cluster.run("pgbench", "-i", "-q", "-s", str(given.scale))
    with cluster.connect() as session:
        session.execute(f"create table facts as select i as day, i % 977 as amount, repeat('x', 40) as filler from generate_series(1, {rows}) i")
        session.execute("create index on facts using brin (day) with (pages_per_range = 16)")
        session.execute("vacuum (freeze, analyze)")
    cluster.stop()


def rows_of(given: argparse.Namespace) -> int:
    """Of the table of facts: about 80 bytes in a page for each."""
    return 3 * given.shared_buffers // 80


def run(cluster: Cluster, variant: str, given: argparse.Namespace, seed: int) -> dict:
    """A run: seconds and blocks of a report, the latency of pgbench in milliseconds, and MiB that
    were read from the device while reports counted."""
    # What the kernel cached for somebody else would be free for this server.
    forget_cached(cluster.data)
    cluster.start(**{name.replace(".", "__"): value for name, value in _VARIANTS[variant].items()})
    with cluster.connect() as session:
        session.execute("select pg_stat_reset()")
    start, took = time.monotonic() + 1, []
    device: list[int] = []

    def report(number: int) -> None:
        rows = rows_of(given)
        width = int(given.share * given.shared_buffers / 80)
        first = rows * number // given.reports
        with cluster.connect() as session:
            session.execute("set enable_seqscan = off")
            for turn in range(given.rounds):
                time.sleep(max(0, start + (turn + number / given.reports) * given.every - time.monotonic()))
                if turn == _FIRST and number == 0:
                    device.append(cluster.limits.device_bytes())
                began = time.monotonic()
                plan = session.value(f"explain (analyze, buffers, format json) select count(*), sum(amount) from facts where day between {first} and {first + width}")
                if turn >= _FIRST:
                    took.append((time.monotonic() - began, json.loads(plan)[0]["Plan"]["Shared Read Blocks"]))

    threads = [threading.Thread(target=report, args=(number,)) for number in range(given.reports)]
    for thread in threads:
        thread.start()
    latencies = pgbench(cluster, given.script, given, seed, int(given.rounds * given.every), _FIRST * given.every)
    for thread in threads:
        thread.join()
    read = cluster.limits.device_bytes() - device[0]
    with cluster.connect() as session:
        found, missed = map(int, session.rows("select sum(heap_blks_hit + idx_blks_hit), sum(heap_blks_read + idx_blks_read) from pg_statio_user_tables where relname like 'pgbench%'")[0])
        if variant == "forecast":
            session.execute("create extension if not exists pg_pagecast")
            print(session.records("select * from pg_pagecast_stats"), session.records("select expected - last_run as gap, trust, runs, came, failed, blocks from pg_pagecast_expected"))
    cluster.stop()
    return {"report_s": statistics.median(seconds for seconds, _ in took), "report_max_s": max(seconds for seconds, _ in took),
            "report_blocks": statistics.mean(blocks for _, blocks in took), "pgbench_reads": missed, "pgbench_found": found, "device_mib": read / (1 << 20),
            **{f"p{percent}_ms": value for percent, value in latencies.items()}}


if __name__ == "__main__":
    sys.exit(main())
