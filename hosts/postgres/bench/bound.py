"""What any policy could gain of index scans along the table: the pages that the streams of the
workload `index` read, replayed by the simulator with the clock and with the optimum.

The pages are the server's own: the table's blocks in the order of the index. Streams take turns,
one block each. The optimum knows all to come, so what it reads is a bound.
"""

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import data
from bench.workloads import WORKLOADS
from cluster import Cluster, find


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.bound", description="Clock and optimum over the pages of index scans along the table.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--streams", type=lambda text: [int(word) for word in text.split(",")], default=[2, 8, 32, 64])
    parser.add_argument("--queries", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--policies", default="clock,lru,arc,pbm,opt", help="of the simulator")
    parser.add_argument("--sizes", default="10%,30%", help="pools, of the pages that are read")
    parser.add_argument("--pagecast", default="target/release/pagecast", help="the command with the simulator")
    given = parser.parse_args()
    installation = find(given.version)
    if installation is None:
        print("skipped: no PostgreSQL server is installed")
        return 0
    days = blocks_by_day(installation, data.folder(installation, given.scale))
    for streams in given.streams:
        for seed in range(1, given.seeds + 1):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as trace:
                trace.writelines(f"{block}\n" for block in interleaved(days, streams, seed, given))
                trace.flush()
                print(f"{streams} streams, seed {seed}", flush=True)
                subprocess.run([given.pagecast, "simulate", "--policies", given.policies, "--sizes", given.sizes, trace.name], check=True)
    return 0


def blocks_by_day(installation, folder: Path) -> list[tuple[str, list[int]]]:
    """For each day the blocks that an index scan comes to, in its order; of equal ones in a row
    one."""
    days: dict[str, list[int]] = {}
    with Cluster(installation, {"autovacuum": "off"}, folder=folder) as cluster:
        cluster.start()
        with cluster.connect() as session:
            for day, block in session.rows("select distinct l_shipdate, (ctid::text::point)[0]::int from lineitem order by 1, 2"):
                days.setdefault(day, []).append(int(block))
    return list(days.items())


def interleaved(days: list[tuple[str, list[int]]], streams: int, seed: int, given: argparse.Namespace) -> list[int]:
    """The blocks of all streams, which take turns."""
    lists = [one_stream(days, WORKLOADS["index"].stream(seed, stream, given.scale, given.queries)) for stream in range(streams)]
    longest = max(map(len, lists))
    return [blocks[turn] for turn in range(longest) for blocks in lists if turn < len(blocks)]


def one_stream(days: list[tuple[str, list[int]]], queries: list) -> list[int]:
    """The blocks that a stream's queries read."""
    blocks = []
    for query in queries:
        first, last = map(datetime.date.fromisoformat, re.search(r"between '(.*?)' and '(.*?)'", query.sql).groups())
        for day, of_day in days:
            if first <= datetime.date.fromisoformat(day) <= last:
                blocks += of_day
    return blocks


if __name__ == "__main__":
    sys.exit(main())
