"""Connections that ask ClickBench's queries one after another, each in an order of its own, until a
time is over.

An engine that has no server of its own answers in a process that has a thread for each of them:
`python -m peers.connections ENGINE`, with the job as JSON in the first line of stdin.
"""

import collections
import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Callable

from peers.hits_queries import queries
from peers.runs import peak

# Gives the rows of a statement.
Ask = Callable[[str], list[tuple]]
# Texts of errors that are told.
_TEXTS = 5


def ask(connect: Callable[[], Ask], job: dict) -> dict:
    """How many statements were answered, and the errors with their queries. A statement that runs
    when the time is over has its end awaited. An answer that differs from `job["digests"]`, where
    it knows the query, is an error. Who cannot connect once more gives up."""
    asked = queries(job["rows"])
    answered: list[float] = []
    errors: list[str] = []
    begins = threading.Barrier(job["connections"] + 1)

    def one(number: int, run: Ask) -> None:
        order = random.Random(f"clickbench {number}").sample(range(len(asked)), len(asked))
        begins.wait()
        until = time.monotonic() + job["seconds"]
        for query in itertools.cycle(order):
            began = time.monotonic()
            if began >= until:
                return
            try:
                digest = asked[query].digest(run(asked[query].sql()))
                if digest != job["digests"].get(str(query), digest):
                    raise ValueError("other rows than alone")
                answered.append(time.monotonic() - began)
            except Exception as problem:
                errors.append(f"query {query}: {type(problem).__name__}: {' '.join(str(problem).split())[:300]}")
                try:
                    run = connect()
                except Exception:
                    return

    threads = [threading.Thread(target=one, args=(number, connect())) for number in range(job["connections"])]
    for thread in threads:
        thread.start()
    begins.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    wall = time.monotonic() - began
    return {"wall_s": round(wall, 3), "answered": len(answered), "errors": len(errors), "queries_s": round(len(answered) / wall, 4),
            "longest_s": round(max(answered, default=0), 3), "texts": [text for text, _ in collections.Counter(errors).most_common(_TEXTS)]}


def main() -> None:
    from peers.engines import ENGINES
    from peers.thrice import rows_of

    job = json.loads(sys.stdin.readline())
    of_stream = ENGINES[sys.argv[1]](job)

    def connect() -> Ask:
        run = of_stream()
        return lambda statement: rows_of(run, statement)

    print("ready", flush=True)
    sys.stdin.readline()
    told = ask(connect, job)
    print(json.dumps({**told, "peak_rss_bytes": peak()}), flush=True)


if __name__ == "__main__":
    main()
