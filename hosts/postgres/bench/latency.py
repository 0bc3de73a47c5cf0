"""What is done beside reporting, with pg_pagecast over a stock server, in pairs: the latency of a
TPC-B at a fixed rate, or a pg_dump of a TOAST table.

A private server has the job's tables and a table of three times its buffers. Sessions report over
random ranges of that table by bitmap scans, or over all of it by sequential ones, without a pause,
unless they are given a rate. pgbench begins transactions at a fixed rate; a transaction's latency
counts from when it was to begin. The two runs of a pair have the same data, seed and length, one
with the library and one without, in an order that alternates.

Ratios of percentiles differ by a lot from pair to pair, so the result is the median of the pairs'
ratios, with a 95 % interval of their trimmed mean by bootstrap. Further calls with --append add
their pairs to those of the file. Never run in CI.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench.__main__ import size
from bench.measure import VARIANTS
from bench.overhead import estimate
from cluster import Cluster, Installation, Limits, ServerFailed, find_with_pagecast
from cluster.limits import forget_cached

# Commits do not wait for the device: what it is busy with besides would be measured.
_SETTINGS = {"autovacuum": "off", "jit": "off", "max_parallel_workers_per_gather": 0, "synchronous_commit": "off", "max_wal_size": "8GB", "checkpoint_timeout": "1h",
             "max_connections": 60}
_PERCENTILES = (50, 99)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.latency", description="Latency of pgbench's TPC-B at a fixed rate beside reporting, over that of a stock server.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--variant", default="steering", choices=[name for name in VARIANTS if name != "stock"])
    parser.add_argument("--job", choices=list(_JOBS), default="tpcb", help="what is measured beside the reports; default tpcb")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=12, help="of a run; two more come before, and are not counted")
    parser.add_argument("--rate", type=int, default=200, help="transactions a second; default 200")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--reporters", type=int, default=4, help="sessions that report; default 4")
    parser.add_argument("--scans", choices=["bitmap", "sequential"], default="bitmap", help="what the reports are; default bitmap")
    parser.add_argument("--reports", type=float, default=0, help="a second of each of these; 0, the default: as many as it can")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables; default 10, 150 MB; for dump 10 are 720 MB")
    parser.add_argument("--shared-buffers", type=size, default=size("96MiB"))
    parser.add_argument("--memory", type=size, default=size("256MiB"), help="of the server with the kernel's cache for it")
    parser.add_argument("--bandwidth", type=size, default=size("200MiB"), help="reads a second from the device")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--append", action="store_true", help="add to the pairs in the file")
    parser.add_argument("--json", type=Path, default=Path("target/bench/postgres-latency.json"))
    given = parser.parse_args()
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    pairs = json.loads(given.json.read_text())["pairs"] if given.append and given.json.exists() else []
    try:
        measure(given, installation, pairs)
    except ServerFailed as problem:
        print(f"latency: {problem}", file=sys.stderr)
        return 1
    return 0


def measure(given: argparse.Namespace, installation: Installation, pairs: list[dict]) -> None:
    """Adds the pairs and prints each, and what is said of all."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(installation, {**_SETTINGS, "shared_buffers": f"{given.shared_buffers >> 10}kB"}))
        rows = load(cluster, given)
        cluster.limits = stack.enter_context(Limits(cluster.folder, given.memory, given.bandwidth))
        # The server leaves its group before the group goes.
        stack.callback(cluster.stop)
        for number in range(given.pairs):
            order = ["stock", given.variant] if (len(pairs) + number) % 2 == 0 else [given.variant, "stock"]
            pair = {variant: run(cluster, variant, given, rows, given.seed * 1000 + number) for variant in order}
            pairs.append({"seed": given.seed, "limits": cluster.limits.description, "stock": pair["stock"], "ours": pair[given.variant]})
            for side, found in (("stock", pair["stock"]), ("ours", pair[given.variant])):
                print(f"{side:<6}", "  ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
            write(given, installation, pairs)
    for name in pairs[0]["ours"]:
        if not all(pair["stock"][name] for pair in pairs):
            continue
        found = estimate([pair["ours"][name] / pair["stock"][name] for pair in pairs])
        print(f"{name}: median {found['median']:.3f} of stock in {len(pairs)} pairs ({min(found['rounds']):.2f} to {max(found['rounds']):.2f}), mean {found['mean']:.3f} ({found['from']:.3f} to {found['to']:.3f})")


def write(given: argparse.Namespace, installation: Installation, pairs: list[dict]) -> None:
    """All that was asked for and found."""
    given.json.parent.mkdir(parents=True, exist_ok=True)
    options = {name: str(value) for name, value in vars(given).items()}
    given.json.write_text(json.dumps({"schema": 1, "server": installation.version, "settings": _SETTINGS, "options": options, "pairs": pairs}, indent=1))


def load(cluster: Cluster, given: argparse.Namespace) -> int:
    """Makes the tables; the rows of the one that is reported on."""
    # About 80 bytes in a page for each.
    rows = 3 * given.shared_buffers // 80
    cluster.create().start(fsync="off")
    with cluster.connect() as session:
        if given.job == "tpcb":
            cluster.run("pgbench", "-i", "-q", "-s", str(given.scale))
        else:
            session.execute("create table documents (id int, body text); alter table documents alter body set storage external; insert into documents "
                            f"select i, repeat(chr(65 + i % 26), 16000) from generate_series(1, {4500 * given.scale}) i")
        session.execute(f"create table facts as select i as day, i % 977 as amount, repeat('x', 40) as filler from generate_series(1, {rows}) i")
        session.execute("create index on facts using brin (day) with (pages_per_range = 16)")
        session.execute("vacuum (freeze, analyze)")
        session.execute("select pg_stat_reset()")
    cluster.stop()
    return rows


def run(cluster: Cluster, variant: str, given: argparse.Namespace, rows: int, seed: int) -> dict:
    """A run: what the job says, and reports and MiB read from the device in a second of it."""
    # What the kernel cached for somebody else would be free for this server.
    forget_cached(cluster.data)
    cluster.start(**{name.replace(".", "__"): value for name, value in VARIANTS[variant].items()})
    done, reports = threading.Event(), [0] * given.reporters
    before = cluster.limits.device_bytes() if cluster.limits.counted else 0

    def report(number: int) -> None:
        draw = random.Random(f"{seed} {number}")
        with cluster.connect() as session:
            session.execute("set enable_seqscan = off" if given.scans == "bitmap" else "set enable_bitmapscan = off; set enable_indexscan = off")
            start = time.monotonic()
            while not done.is_set():
                if given.reports:
                    done.wait(start + reports[number] / given.reports - time.monotonic())
                first = draw.randrange(rows * 7 // 10)
                session.execute(f"select count(*), sum(amount) from facts where day between {first} and {first + rows * 3 // 10}")
                reports[number] += 1

    threads = [threading.Thread(target=report, args=(number,)) for number in range(given.reporters)]
    for thread in threads:
        thread.start()
    try:
        start = time.monotonic()
        found = _JOBS[given.job](cluster, given, seed)
        seconds, made = time.monotonic() - start, sum(reports)
        read = cluster.limits.device_bytes() if cluster.limits.counted else 0
    finally:
        done.set()
        for thread in threads:
            thread.join()
    cluster.stop()
    return {**found, "reports": made / seconds, "read": (read - before) / (1 << 20) / seconds}


def dump(cluster: Cluster, given: argparse.Namespace, seed: int) -> dict:
    """Seconds of a dump of the TOAST table, and how many of its blocks it reads and finds."""
    start = time.monotonic()
    cluster.run("pg_dump", "-t", "documents", "-f", "/dev/null")
    seconds = time.monotonic() - start
    with cluster.connect() as session:
        columns = "toast_blks_read, toast_blks_hit from pg_statio_user_tables where relname = 'documents'"
        # A session reports its counts when it ends, and some time after.
        while (counts := session.rows(f"select {columns}"))[0][0] in (None, "0"):
            time.sleep(0.1)
        session.execute("select pg_stat_reset()")
    return {"seconds": seconds, "toast_read": int(counts[0][0]), "toast_found": int(counts[0][1])}


def transactions(cluster: Cluster, given: argparse.Namespace, seed: int) -> dict:
    """Percentiles of the latency of pgbench's transactions in milliseconds, without those of the
    first two seconds."""
    latencies = pgbench(cluster, "tpcb-like", given, seed, given.seconds + 2, 2)
    return {f"p{percent}": value for percent, value in latencies.items()}


def pgbench(cluster: Cluster, script: str, given: argparse.Namespace, seed: int, seconds: int, first: float) -> dict[int, float]:
    """Runs pgbench for so many seconds, by the clients and at the rate that were given: percentiles
    of its transactions' latency in milliseconds, without those of the `first` seconds."""
    log = cluster.folder / "transactions"
    command = [str(cluster.installation.program("pgbench")), "-n", "-M", "prepared", "-b", script, "-c", str(given.clients), "-T", str(seconds),
               f"--rate={given.rate}", f"--random-seed={seed}", "--log", f"--log-prefix={log}"]
    process = subprocess.Popen(cluster.as_user(command), env=cluster.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    _, said = process.communicate()
    if process.returncode != 0:
        raise ServerFailed(f"pgbench ended with status {process.returncode}: {said.strip()}")
    path = log.with_name(f"{log.name}.{process.pid}")
    lines = [list(map(int, line.split()[:6])) for line in path.read_text().splitlines()]
    path.unlink()
    # Its log says when each ended, in seconds and microseconds.
    begun = [(at + microseconds / 1e6 - took / 1e6, took / 1000) for _, _, took, _, at, microseconds in lines]
    counted = min(start for start, _ in begun) + first
    latencies = sorted(took for start, took in begun if start >= counted)
    return {percent: latencies[len(latencies) * percent // 100] for percent in _PERCENTILES}


_JOBS = {"tpcb": transactions, "dump": dump}


if __name__ == "__main__":
    sys.exit(main())
