"""What the extension costs where it cannot help: processor time of a server for a transaction, over
that of stock servers.

Who runs beside takes caches and half of a core away, so throughput and processor time both differ
by several per cent from one second to the next. So all servers are up at once, on copies of the
same data, each with a pgbench of the same seed. These take turns of 20 milliseconds, in an order
that is drawn anew and then mirrored, and are stopped in between: all meet the same weather. A turn
is over when the server has done what was begun in it; its transactions are counted by pgbench's
log, and the processor time is that of all processes of the server, by its control group. What
disturbs a turn only adds, so a round takes the lower quartile of its turns.

Where a server's pages happen to lie in memory is good for a per cent, and stays so while it runs.
So each round starts all servers anew and gives each variant another copy of the data, and a round
is one observation: a variant over the mean of two stock servers. The result is the mean of the
rounds without the upper and lower fifth, and its 95 % interval by bootstrap over the rounds.
`control` is one of the two stock servers over the other: its interval should hold 1, and how wide
it is tells what the method resolves. Throughput, of the turns, stands beside it. Never run in CI.
"""

import argparse
import contextlib
import json
import random
import signal
import statistics
import subprocess
import sys
import time
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.measure import VARIANTS
from cluster import Cluster, Installation, Limits, ServerFailed, find_with_pagecast
from cluster.server import waits

# pgbench's arguments, or a statement: all rows; a filter that few pass; an index scan across a
# table, and one along it; a bitmap of all blocks.
_CASES = {
    "select": ["-S"], "tpcb": ["-b", "tpcb-like"],
    "count": "select count(*) from cached;", "filter": "select count(*) from cached where b + 1 = 5;",
    "index": "set enable_seqscan = off; set enable_bitmapscan = off; select count(a) from scattered where key > 0;",
    "along": "set enable_seqscan = off; set enable_bitmapscan = off; select count(key) from scattered where a > 0;",
    "bitmap": "set enable_seqscan = off; set enable_indexscan = off; set enable_indexonlyscan = off; select count(a) from cached where b < 30;",
}
_POINTS = ("select", "tpcb")
_SETTINGS = {
    # A quarter of the buffers holds each table, so that reading one whole does not go through a
    # ring.
    "shared_buffers": "1GB", "max_connections": 60, "autovacuum": "off", "max_parallel_workers_per_gather": 0, "jit": "off",
    "max_wal_size": "8GB", "checkpoint_timeout": "1h", "synchronous_commit": "off", "fsync": "off",
}
# As many branches as clients, or these wait for each other.
_SCALE = 16
_RESAMPLES = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.overhead", description="Processor time and throughput of pgbench with pg_pagecast over those of stock servers.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--cases", default="select,count,tpcb", help=f"of {', '.join(_CASES)}")
    parser.add_argument("--variants", default="steering,disabled", help=f"of {', '.join(name for name in VARIANTS if name != 'stock')}")
    parser.add_argument("--clients", default="2,16", help="for select and tpcb; the others run with one")
    parser.add_argument("--rounds", type=int, default=20, help="in each all servers are started anew; two at least")
    parser.add_argument("--turns", type=int, default=40, help="of a variant in a round")
    parser.add_argument("--milliseconds", type=int, default=20, help="of a turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a further setting of our servers; with pg_pagecast.cooperation_least=0 "
                                                                                         "the variant cooperative reads also these small tables in chunks")
    parser.add_argument("--json", type=Path, default=Path("target/bench/postgres-overhead.json"))
    given = parser.parse_args()
    if given.rounds < 2 or given.turns < 2:
        parser.error("--rounds and --turns must be 2 or more")
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    try:
        measure(given, installation)
    except ServerFailed as problem:
        print(f"overhead: {problem}", file=sys.stderr)
        return 1
    return 0


def measure(given: argparse.Namespace, installation: Installation) -> None:
    """Measures all cases of all variants and prints a line for each."""
    further = dict(setting.split("=", 1) for setting in given.set)
    variants = {"stock": {}, "control": {}, **{name: {**VARIANTS[name], **further} for name in given.variants.split(",")}}
    runs = [(case, clients) for case in given.cases.split(",") for clients in (map(int, given.clients.split(",")) if case in _POINTS else [1])]
    draw = random.Random(given.seed)
    # By run and variant, what each round's turns took.
    rounds = {run: defaultdict(list) for run in runs}
    with contextlib.ExitStack() as stack:
        clusters = copies(installation, len(variants), stack)
        for number in range(given.rounds):
            at = dict(zip(variants, clusters[number % len(clusters):] + clusters[:number % len(clusters)]))
            # The server that is started first was seen to be slower by a per cent or two for as
            # long as it ran.
            for variant in draw.sample(list(at), len(at)):
                warm(at[variant], variants[variant], dict(runs))
            for run in runs:
                for variant, took in in_turns(at, *run, given, draw).items():
                    rounds[run][variant].append(took)
            print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
            for cluster in clusters:
                cluster.stop()
    lines = [line for run in runs for line in summary(*run, rounds[run])]
    for line in lines:
        print(f"{line['variant']:<9} {line['case']:<7} {line['clients']:>3} clients  processor time {_shown(line['cpu'])} of stock, throughput {_shown(line['throughput'])}", flush=True)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"schema": 3, "server": installation.version, "settings": {**_SETTINGS, **further}, "rounds": given.rounds,
                                      "turns": given.turns, "milliseconds": given.milliseconds, "seed": given.seed, "lines": lines}, indent=1))


def copies(installation: Installation, number: int, stack: contextlib.ExitStack) -> list[Cluster]:
    """Clusters with the same files: pgbench's tables, one of a million short rows, and one whose
    rows lie in another order than their keys."""
    clusters = []
    for _ in range(number):
        cluster = stack.enter_context(Cluster(installation, _SETTINGS))
        cluster.limits = stack.enter_context(Limits(cluster.folder))
        # The server leaves its group before the group goes.
        stack.callback(cluster.stop)
        clusters.append(cluster)
    first, *others = clusters
    first.create().start()
    first.run("pgbench", "-i", "-q", "-s", str(_SCALE))
    with first.connect() as session:
        session.execute("create table cached as select i as a, i % 100 as b from generate_series(1, 1000000) i; create index on cached (b)")
        session.execute("create table scattered as select i as a, i * 48271::bigint % 2147483647 as key, repeat('x', 60) as filler from generate_series(1, 200000) i; "
                        "create index on scattered (key); create index on scattered (a)")
        session.execute("vacuum (freeze, analyze)")
    first.stop()
    for other in others:
        subprocess.run(["cp", "-a", str(first.data), str(other.data)], check=True)
    return clusters


def warm(cluster: Cluster, settings: dict, cases: Iterable[str]) -> None:
    """Starts the server with these settings and has it read all tables and indexes into its
    buffers."""
    cluster.start(**settings)
    with cluster.connect() as session:
        for query in ("select count(*) from pgbench_accounts", "select count(aid) from pgbench_accounts where aid > 0"):
            session.execute(f"set enable_seqscan = {'off' if 'where' in query else 'on'}; {query}")
    for case in cases:
        with Work(cluster, case, 1, 1) as work:
            work.turn(0.1)


@dataclass
class Turn:
    """From when to when a pgbench was to begin transactions, and what its server took for these."""

    begin: float
    end: float
    drained: float
    cpu: float
    transactions: int = 0


class Work:
    """A pgbench on a server, which runs in turns; a context manager that ends it."""

    def __init__(self, cluster: Cluster, case: str, clients: int, seed: int):
        arguments = _CASES[case]
        if isinstance(arguments, str):
            script = cluster.folder / f"{case}.sql"
            script.write_text(arguments)
            arguments = ["-f", str(script)]
        self._log = cluster.folder / "transactions"
        command = [str(cluster.installation.program("pgbench")), "-n", "-M", "prepared" if case in _POINTS else "simple", "-c", str(clients), "-T", "3600",
                   f"--random-seed={seed}", "--log", f"--log-prefix={self._log}", *arguments]
        self._cluster = cluster
        self._turns: list[Turn] = []
        await_sessions(cluster, 0)
        self._process = subprocess.Popen(cluster.as_user(command), env=cluster.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # To connect, and the first transactions of a session, are no part of it.
        self._sessions = await_sessions(cluster, clients)
        self.turn(0.05)
        self._turns.clear()

    def __enter__(self) -> "Work":
        return self

    def __exit__(self, *_) -> None:
        self._process.kill()
        self._process.wait()
        await_sessions(self._cluster, 0)

    def turn(self, seconds: float) -> None:
        """Lets it begin transactions for so long, and waits until the server has done them."""
        before, begin = self._cluster.cpu_seconds(), time.time()
        self._process.send_signal(signal.SIGCONT)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGSTOP)
        end, quiet = time.time(), 0
        while quiet < 2:
            time.sleep(0.0005)
            quiet = quiet + 1 if all(map(waits, self._sessions)) else 0
        self._turns.append(Turn(begin, end, time.time(), self._cluster.cpu_seconds() - before))

    def turns(self) -> list[Turn]:
        """Ends it as at the end of its time. All turns, with the transactions that each began."""
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGALRM)
        self._process.wait()
        log = Path(f"{self._log}.{self._process.pid}")
        begun = []
        for line in log.read_text().splitlines():
            _, _, took, _, seconds, microseconds = map(int, line.split()[:6])
            begun.append(seconds + (microseconds - took) / 1e6)
        log.unlink()
        begun.sort()
        for turn in self._turns:
            turn.transactions = bisect(begun, turn.end) - bisect(begun, turn.begin)
        return self._turns


def await_sessions(cluster: Cluster, number: int) -> list[int]:
    """Waits until the server has so many sessions; one that was closed is there for a moment still.
    Their processes."""
    end = time.monotonic() + 60
    while len(found := cluster.sessions()) != number:
        if time.monotonic() > end:
            raise ServerFailed(f"the server has {len(found)} sessions and not {number}:\n{cluster.tail()}")
        time.sleep(0.001)
    return found


def in_turns(at: dict[str, Cluster], case: str, clients: int, given: argparse.Namespace, draw: random.Random) -> dict[str, dict[str, list[float]]]:
    """Of each variant and turn, processor time and time for one transaction."""
    seed = draw.randrange(1 << 30)
    with contextlib.ExitStack() as stack:
        works = {variant: stack.enter_context(Work(at[variant], case, clients, seed)) for variant in draw.sample(list(at), len(at))}
        for _ in range(given.turns // 2):
            order = draw.sample(list(at), len(at))
            for variant in order + order[::-1]:
                works[variant].turn(given.milliseconds / 1000)
        turns = {variant: [turn for turn in works[variant].turns() if turn.transactions] for variant in at}
    if not all(turns.values()):
        raise ServerFailed(f"{case}: not a single transaction was begun in turns of {given.milliseconds} ms; try more --milliseconds or --turns, or a less busy machine")
    return {variant: {"cpu": [turn.cpu / turn.transactions for turn in found], "time": [(turn.drained - turn.begin) / turn.transactions for turn in found]}
            for variant, found in turns.items()}


def summary(case: str, clients: int, rounds: dict[str, list[dict[str, list[float]]]]) -> list[dict]:
    """A line for each variant but stock: by round and in all, its processor time over that of
    stock, and stock's time over its own."""
    lines = []
    for variant in rounds:
        if variant == "stock":
            continue
        ratios = {"cpu": [], "throughput": []}
        for stock, control, ours in zip(rounds["stock"], rounds["control"], rounds[variant]):
            for what, kind in (("cpu", "cpu"), ("throughput", "time")):
                a, b, c = (level(x[kind]) for x in (stock, control, ours))
                reference = a if variant == "control" else (a + b) / 2
                ratios[what].append(c / reference if what == "cpu" else reference / c)
        lines.append({"variant": variant, "case": case, "clients": clients, **{what: estimate(found) for what, found in ratios.items()}})
    return lines


def level(values: list[float]) -> float:
    """The lower quartile, of turns that little has disturbed."""
    return sorted(values)[len(values) // 4]


def estimate(ratios: list[float]) -> dict:
    """The trimmed mean with its 95 % interval by bootstrap, and the median."""
    draw = random.Random(1)
    means = sorted(trimmed_mean(draw.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES))
    return {"mean": trimmed_mean(ratios), "from": means[round(0.025 * _RESAMPLES)], "to": means[round(0.975 * _RESAMPLES) - 1],
            "median": statistics.median(ratios), "rounds": ratios}


def trimmed_mean(values: list[float]) -> float:
    """The mean without the upper and lower fifth."""
    cut = len(values) // 5
    return statistics.mean(sorted(values)[cut:len(values) - cut])


def _shown(found: dict) -> str:
    return f"{found['mean']:.4f} ({found['from']:.4f} to {found['to']:.4f})"


if __name__ == "__main__":
    sys.exit(main())
