"""What the extension costs where it cannot help: pairs of short runs of pgbench on two servers, in alternating order.

Both servers run all the time and one of each pair is idle, so the machine's drift meets both; the first of a pair alternates. After half of the
pairs the two exchange their parts, because where a server's pages happen to lie in memory is good for a per cent. The result is the
mean of the ratios of throughput with its 95 % confidence interval by Student's t. Never run in CI: the interval needs a quiet machine.
"""

import argparse
import json
import math
import re
import statistics
import sys
from pathlib import Path

from bench.measure import VARIANTS
from cluster import Cluster, ServerFailed, find

# Two-sided 95 % quantiles of Student's t by degrees of freedom; between two, the lower one's larger value is used.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 14: 2.14, 19: 2.09, 29: 2.05, 59: 2.00}

# pgbench's arguments, or a statement: all rows; a filter that few pass; an index scan across a table, and one along it; a bitmap of all blocks.
_CASES = {
    "select": ["-S"], "tpcb": ["-b", "tpcb-like"],
    "count": "select count(*) from cached;", "filter": "select count(*) from cached where b + 1 = 5;",
    "index": "set enable_seqscan = off; set enable_bitmapscan = off; select count(a) from scattered where key > 0;",
    "along": "set enable_seqscan = off; set enable_bitmapscan = off; select count(key) from scattered where a > 0;",
    "bitmap": "set enable_seqscan = off; set enable_indexscan = off; set enable_indexonlyscan = off; select count(a) from cached where b < 30;",
}
_SETTINGS = {
    "shared_buffers": "512MB", "max_connections": 60, "autovacuum": "off", "max_parallel_workers_per_gather": 0, "jit": "off",
    "max_wal_size": "8GB", "checkpoint_timeout": "1h", "synchronous_commit": "off", "fsync": "off",
}


def throughput(cluster: Cluster, case: str, clients: int, seconds: int) -> float:
    """Transactions a second of one run."""
    arguments = _CASES[case]
    if isinstance(arguments, str):
        script = cluster.folder / f"{case}.sql"
        script.write_text(arguments)
        arguments = ["-f", str(script)]
    output = cluster.run("pgbench", "-n", "-M", "prepared" if case in ("select", "tpcb") else "simple", "-c", str(clients), "-j", "2",
                         "-T", str(seconds), *arguments).stdout
    return float(re.search(r"tps = ([0-9.]+)", output).group(1))


def interval(ratios: list[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % confidence interval."""
    freedom = len(ratios) - 1
    quantile = _T[max(known for known in _T if known <= freedom)]
    return statistics.mean(ratios), quantile * statistics.stdev(ratios) / math.sqrt(len(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.overhead", description="Throughput of pgbench with pg_pagecast over that of a stock server.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--cases", default="select,tpcb,count,index,bitmap", help=f"of {', '.join(_CASES)}")
    parser.add_argument("--variants", default="steering,disabled", help=f"of {', '.join(VARIANTS)}; stock tells what the method itself resolves")
    parser.add_argument("--clients", default="2,16", help="for select and tpcb; the others run with one")
    parser.add_argument("--pairs", type=int, default=30, help="even; many short ones meet the same weather")
    parser.add_argument("--seconds", type=int, default=1, help="of one run")
    parser.add_argument("--shared-buffers", default="512MB", help="64MB holds half of pgbench's tables, so pages are evicted")
    parser.add_argument("--json", type=Path, default=Path("target/bench/postgres-overhead.json"))
    given = parser.parse_args()
    if given.pairs < 2 or given.pairs % 2:
        parser.error("--pairs must be even and at least 2")
    installation = find(given.version)
    if installation is None or not installation.has_extension("pg_pagecast"):
        print("skipped: no PostgreSQL server with pg_pagecast is installed")
        return 0
    try:
        measure(given, installation)
    except ServerFailed as problem:
        print(f"overhead: {problem}", file=sys.stderr)
        return 1
    return 0


def measure(given: argparse.Namespace, installation) -> None:
    """Measures all cases of all variants and prints a line for each."""
    lines = []
    settings = {**_SETTINGS, "shared_buffers": given.shared_buffers}
    runs = [(case, clients) for case in given.cases.split(",") for clients in (map(int, given.clients.split(",")) if case in ("select", "tpcb") else [1])]
    with Cluster(installation, settings) as one, Cluster(installation, settings) as other:
        for cluster in (one, other):
            fill(cluster)
        for variant in given.variants.split(","):
            ratios = {run: [] for run in runs}
            for stock, ours in ((one, other), (other, one)):
                warm(stock, {})
                warm(ours, VARIANTS[variant])
                for run in runs:
                    ratios[run] += [pair(stock, ours, *run, given.seconds, number % 2 == 1) for number in range(given.pairs // 2)]
            for (case, clients), found in ratios.items():
                mean, half = interval(found)
                lines.append({"variant": variant, "case": case, "clients": clients, "pairs": given.pairs, "ratio": mean, "half_width": half, "ratios": found})
                print(f"{variant:<9} {case:<7} {clients:>3} clients  throughput {mean:.4f} of stock, 95 % between {mean - half:.4f} and {mean + half:.4f}, "
                      f"median {statistics.median(found):.4f}", flush=True)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"schema": 2, "server": installation.version, "settings": settings, "seconds": given.seconds, "lines": lines}, indent=1))


def fill(cluster: Cluster) -> None:
    """Fills pgbench's tables, one of a million short rows, and one whose rows lie in another order than their keys."""
    cluster.create().start()
    cluster.run("pgbench", "-i", "-q", "-s", "8")
    with cluster.connect() as session:
        session.execute("create table cached as select i as a, i % 100 as b from generate_series(1, 1000000) i; create index on cached (b)")
        session.execute("create table scattered as select i as a, i * 48271::bigint % 2147483647 as key, repeat('x', 60) as filler from generate_series(1, 200000) i; "
                        "create index on scattered (key); create index on scattered (a)")
        session.execute("vacuum (freeze, analyze)")
        session.execute("checkpoint")


def warm(cluster: Cluster, settings: dict) -> None:
    """Starts the server anew with these settings, and has it read all tables into its buffers."""
    cluster.stop()
    cluster.start(**settings)
    for case in ("count", "index", "along", "bitmap", "select"):
        throughput(cluster, case, 1, 1)


def pair(stock: Cluster, ours: Cluster, case: str, clients: int, seconds: int, ours_first: bool) -> float:
    """Our throughput over stock's."""
    found = {}
    for cluster in (ours, stock) if ours_first else (stock, ours):
        found[cluster] = throughput(cluster, case, clients, seconds)
    return found[ours] / found[stock]


if __name__ == "__main__":
    sys.exit(main())
