"""One of ClickBench's queries three times, in a process of its own: `python -m peers.thrice
ENGINE`, with the job as JSON in the first line of stdin.

It says `ready` once the tables are there, and begins after another line. Each run is a line when it
ends, so that those before the end of the process are known. An error is the last line.
"""

import json
import sys
import time

import pyarrow

from peers.engines import ENGINES, Run
from peers.hits_queries import queries
from peers.runs import peak


def rows_of(run: Run, statement: str) -> list[tuple]:
    """Runs a statement and takes all of its rows, of which these queries give few."""
    table = pyarrow.RecordBatchReader.from_stream(run(statement)).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns)))


def main() -> None:
    job = json.loads(sys.stdin.readline())
    run, query = ENGINES[sys.argv[1]](job)(), queries(job["rows"])[job["query"]]
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        began, processor = time.monotonic(), time.process_time()
        try:
            rows = rows_of(run, query.sql())
        except Exception as problem:
            return print(json.dumps({"failed": f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"}), flush=True)
        ended = {"wall_s": round(time.monotonic() - began, 4), "cpu_s": round(time.process_time() - processor, 4)}
        print(json.dumps({**ended, "peak_rss_bytes": peak(), "digest": query.digest(rows)}), flush=True)


if __name__ == "__main__":
    main()
