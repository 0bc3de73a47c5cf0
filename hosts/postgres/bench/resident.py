"""What cooperation costs where it cannot help: processor time of a session that scans a table which
is all in the pool, with cooperation over without.

One session runs each query with and without in turn, in an order that alternates, so that both meet
the same weather and the same pages. The kernel counts the processor time of its process in
nanoseconds. The result is the ratio of the two medians, and that of the two least. Without is the
same library: what that costs over a stock server, `bench.overhead` tells.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from bench import facts
from bench.__main__ import size
from cluster import Cluster, Connection, Installation, ServerFailed, find_with_pagecast

_QUERIES = {
    "count": "select count(*) from facts",
    "filter": "select count(*) from facts where code < 0",
    "sum": "select sum(amount) from facts",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.resident", description="Processor time of scans of a resident table, with cooperation over without.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--table", type=size, default=size("120MiB"))
    parser.add_argument("--shared-buffers", type=size, default=size("384MiB"), help="default 384MiB, which is less than four times the table")
    parser.add_argument("--turns", type=int, default=30, help="of each query, with and without")
    parser.add_argument("--json", type=Path, default=Path("target/bench/resident.json"))
    given = parser.parse_args()
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    try:
        rows = measure(given, installation)
    except ServerFailed as problem:
        print(f"resident: {problem}", file=sys.stderr)
        return 1
    for row in rows:
        print(f"{row['query']:<7} {row['off_ms']:>7.1f} ms  cooperation {row['median']:.3f} of it, of the least {row['least']:.3f}; chunks read together {row['chunks']}")
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"schema": 1, "server": installation.version, "turns": given.turns, "rows": rows}, indent=1))
    return 0


def measure(given: argparse.Namespace, installation: Installation) -> list[dict]:
    """A row for each query."""
    settings = {"shared_preload_libraries": "pg_pagecast", "shared_buffers": f"{given.shared_buffers >> 10}kB", "autovacuum": "off", "jit": "off",
                "max_parallel_workers_per_gather": 0, "fsync": "off", "max_wal_size": "8GB"}
    with Cluster(installation, settings) as cluster:
        cluster.create().start()
        with cluster.connect() as session:
            # What is inserted stays in the pool.
            facts.make_table(session, "facts", given.table)
            session.execute("vacuum (freeze, analyze)")
            session.execute("create extension pg_pagecast")
            return [{"query": name, **in_turns(session, query, given.turns)} for name, query in _QUERIES.items()]


def in_turns(session: Connection, query: str, turns: int) -> dict:
    """Processor time of a query with cooperation over without."""
    took: dict[str, list[int]] = {"on": [], "off": []}
    session.execute(f"{query}; {query}")
    before = chunks(session)
    for turn in range(turns):
        for mode in ("on", "off") if turn % 2 else ("off", "on"):
            session.execute(f"set pg_pagecast.cooperation = {mode}")
            start = processor(session)
            session.execute(query)
            took[mode].append(processor(session) - start)
    return {"off_ms": statistics.median(took["off"]) / 1e6, "median": statistics.median(took["on"]) / statistics.median(took["off"]),
            "least": min(took["on"]) / min(took["off"]), "chunks": chunks(session) - before}


def processor(session: Connection) -> int:
    """Nanoseconds that the session's process has had."""
    return int(Path(f"/proc/{session.pid}/schedstat").read_text().split()[0])


def chunks(session: Connection) -> int:
    """Chunks that cooperative scans have been handed so far."""
    return int(session.value("select chunks from pg_pagecast_stats"))


if __name__ == "__main__":
    sys.exit(main())
