"""Reports on a streaming replica while its primary works, with pg_pagecast on the replica alone
over a stock replica, in pairs.

The primary runs pgbench's TPC-B at a fixed rate, and the replica replays it. Streams report on the
replica over a table of 3.3 times its buffers, by sequential scans, each the same list of queries.
The two runs of a pair have the same data and seed, in an order that alternates. What the replica
has not replayed yet is looked at twice a second. Never run in CI.
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import facts
from bench.__main__ import size
from bench.measure import Bench
from bench.report import results
from cluster import Cluster, Installation, ServerFailed, SqlError, find_with_pagecast

_TABLE = 3.3
# What a report still needs is not removed on the primary, which knows it by a slot. Otherwise the
# replica would end the report, or stop its replay.
_SETTINGS = {"hot_standby_feedback": "on"}
_SLOT = ("--create-slot", "--slot=reports")
_PRIMARY = {"autovacuum": "off", "synchronous_commit": "off", "checkpoint_timeout": "1h", "max_connections": 60}
_FIGURES = ("device_bytes", "blocks", "wall_s", "mean_latency_s", "max_latency_s", "cpu_s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.replica", description="Reports on a streaming replica with pg_pagecast, over those on a stock one.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--streams", type=int, default=8, help="of reports; default 8")
    parser.add_argument("--queries", type=int, default=3, help="of a stream; default 3")
    parser.add_argument("--rate", type=int, default=100, help="transactions a second on the primary; default 100")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables; default 10, 150 MB")
    parser.add_argument("--shared-buffers", type=size, default=size("96MiB"), help="of the replica")
    parser.add_argument("--memory", type=size, default=size("192MiB"), help="of the replica with the kernel's cache for it")
    parser.add_argument("--bandwidth", type=size, default=size("100MiB"), help="reads a second from the replica's device")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("target/bench/postgres-replica.json"))
    given = parser.parse_args()
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    try:
        return measure(given, installation)
    except (ServerFailed, SqlError) as problem:
        print(f"replica: {problem}", file=sys.stderr)
        return 1


def measure(given: argparse.Namespace, installation: Installation) -> int:
    """Runs the pairs and prints each run, and medians of all; 1 when a result differs."""
    pairs: list[dict] = []
    with ExitStack() as stack:
        primary = stack.enter_context(Cluster(installation, _PRIMARY))
        load(primary, given)
        replica = stack.enter_context(Cluster(installation, _SETTINGS)).follow(primary, *_SLOT)
        meet(primary, replica)
        bench = Bench(installation, replica.folder, 0, given.shared_buffers, given.memory, given.bandwidth, _SETTINGS)
        for number in range(given.pairs):
            order = ["stock", "cooperative"] if number % 2 == 0 else ["cooperative", "stock"]
            pair = {variant: run(bench, primary, variant, given, given.seed + number) for variant in order}
            pairs.append({"stock": pair["stock"], "ours": pair["cooperative"]})
            write(given, installation, pairs)
    for name in _FIGURES:
        ratios = [pair["ours"][name] / pair["stock"][name] for pair in pairs]
        print(f"{name}: {statistics.median(ratios):.2f} of stock ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0 if all(results(pair["ours"]) == results(pair["stock"]) for pair in pairs) else 1


def load(primary: Cluster, given: argparse.Namespace) -> None:
    """Makes the tables of pgbench and of the reports, and leaves the primary running. The views can
    be made there alone, and want no library that is loaded."""
    primary.create().start()
    primary.run("pgbench", "-i", "-q", "-s", str(given.scale))
    with primary.connect() as session:
        facts.make_table(session, "facts", int(given.shared_buffers * _TABLE))
        session.execute("create extension pg_pagecast")
        session.execute("vacuum (freeze, analyze)")
        session.execute("checkpoint")


def meet(primary: Cluster, replica: Cluster) -> None:
    """Lets the primary learn what the replica needs, before it has rows to remove."""
    replica.start()
    with primary.connect() as session:
        while session.value("select count(xmin) from pg_replication_slots") == "0":
            time.sleep(0.1)
    replica.stop()


def run(bench: Bench, primary: Cluster, variant: str, given: argparse.Namespace, seed: int) -> dict:
    """A run: what was read and how long it took, and how far the replica was behind at most."""
    workload = dataclasses.replace(facts.workload("whole", given.shared_buffers, 1.0), first=[])
    with transactions(primary, given, seed) as behind:
        found = bench.run(workload, variant, seed, given.streams, given.queries)
    times = [query["wall_s"] for query in found["queries"]]
    found |= {"mean_latency_s": statistics.mean(times), "max_latency_s": max(times), "behind_bytes": max(behind)}
    print(f"{variant:<12} seed {seed}  device {found['device_bytes'] / (1 << 20):.0f} MiB  wall {found['wall_s']:.1f} s  latency {found['mean_latency_s']:.2f} s"
          f"  behind {found['behind_bytes'] >> 10} KiB at most", flush=True)
    return found


@contextmanager
def transactions(primary: Cluster, given: argparse.Namespace, seed: int) -> Iterator[list[int]]:
    """Runs pgbench on the primary meanwhile; gives a list of how many bytes of its log the replica
    had not replayed, which grows."""
    command = [str(primary.installation.program("pgbench")), "-n", "-c", "4", "-T", "3600", f"--rate={given.rate}", f"--random-seed={seed}"]
    load = subprocess.Popen(primary.as_user(command), env=primary.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    behind, done = [0], threading.Event()

    def watch() -> None:
        with primary.connect() as session:
            while not done.wait(0.5):
                behind.extend(int(rest) for rest, in session.rows("select pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint from pg_stat_replication where state = 'streaming' and replay_lsn is not null"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield behind
        if load.poll() is not None:
            raise ServerFailed(f"pgbench on the primary ended with status {load.returncode}")
    finally:
        done.set()
        watcher.join()
        load.terminate()
        load.wait()


def write(given: argparse.Namespace, installation: Installation, pairs: list[dict]) -> None:
    """All that was asked for and found."""
    given.json.parent.mkdir(parents=True, exist_ok=True)
    options = {name: str(value) for name, value in vars(given).items()}
    given.json.write_text(json.dumps({"schema": 1, "server": installation.version, "settings": _SETTINGS, "options": options, "pairs": pairs}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
