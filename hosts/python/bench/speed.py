"""The simulator from Python beside the command, and beside libcachesim (PyPI): `make bench-python`.

One trace of Zipf requests, one thread each, turn by turn. For the command the whole process counts,
start and loading included. From numpy the call counts: numbering the pages and the replay.
libcachesim takes no array: its Python reader is its `SyntheticReader` with our ids put in it, and
its loop calls `get` for each request. Its C++ reader, which reads a file, stands beside.

Processor time is shown beside wall time because other work on the machine lengthens the one and not
the other.
"""

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import pagecast

# Our name, libcachesim's name; the defaults are the papers' on both sides.
PAIRS = [("lru", "LRU"), ("arc", "ARC"), ("s3-fifo", "S3FIFO")]
SHARE = 0.1


class Lru:
    """The built-in rules in Python, to tell what a policy of one's own costs."""

    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def admit(self, page: int) -> None:
        self.order[page] = None

    def hit(self, page: int) -> None:
        self.order.move_to_end(page)

    def evict(self, incoming: int) -> int:
        return self.order.popitem(last=False)[0]


def timed(work: Callable[[], int]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds with those of children, and the misses."""
    def processor() -> float:
        both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(of.ru_utime + of.ru_stime for of in both)

    wall, before = time.perf_counter(), processor()
    misses = work()
    return time.perf_counter() - wall, processor() - before, misses


def numpy_ids(requests: int, pages: int) -> np.ndarray:
    """Zipf of skew 1, the ranks shuffled over the ids."""
    random = np.random.default_rng(1)
    odds = 1 / np.arange(1, pages + 1)
    ranks = np.searchsorted(np.cumsum(odds / odds.sum()), random.random(requests))
    return random.permutation(pages).astype(np.uint64)[np.minimum(ranks, pages - 1)]


def ours(ids: np.ndarray, policy, frames: int) -> int:
    return pagecast.simulate(ids, policy, frames, threads=1).rows()[0]["misses"]


def command(pagecast_command: str, file: Path, policy: str, frames: int) -> int:
    out = file.with_suffix(".json")
    arguments = ["simulate", str(file), "--policies", policy, "--sizes", str(frames), "--jobs", "1"]
    subprocess.run([pagecast_command, *arguments, "--json", str(out)], check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())["rows"][0]["misses"]


def their_reader(ids: np.ndarray, policy: str, frames: int) -> int:
    import libcachesim

    reader = libcachesim.SyntheticReader(num_of_req=len(ids), obj_size=1, num_objects=frames)
    reader._obj_ids = ids
    ratio, _ = getattr(libcachesim, policy)(frames).process_trace(reader)
    return round(ratio * len(ids))


def their_loop(ids: np.ndarray, policy: str, frames: int) -> int:
    import libcachesim

    cache, request, misses = getattr(libcachesim, policy)(frames), libcachesim.Request(), 0
    request.obj_size = 1
    for page in ids.tolist():
        request.obj_id = page
        misses += not cache.get(request)
    return misses


def their_file(file: Path, policy: str, frames: int, requests: int) -> int:
    import libcachesim

    parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
    reader = libcachesim.TraceReader(str(file), libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters)
    ratio, _ = getattr(libcachesim, policy)(frames).process_trace(reader)
    return round(ratio * requests)


def oracle_general(ids: np.ndarray, file: Path) -> None:
    """libcachesim's own format, which the command reads, too: page + 1, so that no id is 0."""
    record = np.zeros(len(ids), dtype=[("at", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    record["at"], record["id"], record["size"], record["next"] = np.arange(len(ids)), ids + np.uint64(1), 1, -1
    record.tofile(file)


def measure(options: argparse.Namespace) -> list[dict]:
    ids = numpy_ids(options.requests, options.pages)
    frames = int(SHARE * options.pages)
    # Their Python ways take microseconds a request: a part of the trace is enough for the rate.
    part = ids[: options.part]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "zipf.oracleGeneral")
        oracle_general(ids, file)
        for own, other in PAIRS:
            ways = {
                "numpy": (len(ids), lambda: ours(ids, own, frames)),
                "command": (len(ids), lambda: command(options.pagecast, file, own, frames)),
                "libcachesim_reader": (len(part), lambda: their_reader(part, other, frames)),
                "libcachesim_get": (len(part), lambda: their_loop(part, other, frames)),
                "libcachesim_file": (len(ids), lambda: their_file(file, other, frames, len(ids))),
            }
            if own == "lru":
                ways["own_policy"] = (len(part), lambda: ours(part, Lru, frames))
            runs = {way: [] for way in ways}
            for _ in range(options.runs):
                for way, (_, work) in ways.items():
                    runs[way].append(timed(work))
            assert len({run[2] for way in ("numpy", "command") for run in runs[way]}) == 1, "misses differ"
            rows.append(row(own, ways, runs))
            show(rows[-1])
    return rows


def interrupted() -> float:
    """Seconds from Ctrl-C to the exception, in the middle of long replays."""
    frames, ids = 100_000, np.arange(4_000_000, dtype=np.uint64) * np.uint64(48_271) % np.uint64(1_999_993)
    pressed = 0.0

    def press() -> None:
        nonlocal pressed
        time.sleep(1)
        pressed = time.perf_counter()
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press).start()
    try:
        pagecast.simulate(ids, "lru-k,hyperbolic,lirs", [frames] * 1000)
    except KeyboardInterrupt:
        return time.perf_counter() - pressed
    raise AssertionError("nobody pressed Ctrl-C")


def row(policy: str, ways: dict, runs: dict) -> dict:
    rate = {way: requests / statistics.median(run[0] for run in runs[way]) / 1e6 for way, (requests, _) in ways.items()}
    busy = {way: requests / statistics.median(run[1] for run in runs[way]) / 1e6 for way, (requests, _) in ways.items()}
    others = [way for way in ways if way != "numpy"]
    return {
        "policy": policy,
        "mreq_s": rate,
        "mreq_per_cpu_s": busy,
        "numpy_over": {way: rate["numpy"] / rate[way] for way in others},
        "numpy_over_by_cpu": {way: busy["numpy"] / busy[way] for way in others},
        "misses": {way: of[0][2] for way, of in runs.items()},
    }


def show(row: dict) -> None:
    print(f"{row['policy']}: {row['mreq_s']['numpy']:.2f} million requests/s from numpy")
    for way, ratio in row["numpy_over"].items():
        of_cpu = row["numpy_over_by_cpu"][way]
        print(f"  {ratio:8.2f} times {way} ({row['mreq_s'][way]:.3f}), {of_cpu:.2f} by processor time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pagecast", required=True, help="the pagecast command, built for speed")
    parser.add_argument("--requests", default=10_000_000, type=int)
    parser.add_argument("--part", default=300_000, type=int, help="requests for the ways that call Python for each")
    parser.add_argument("--pages", default=1_000_000, type=int)
    parser.add_argument("--runs", default=5, type=int, help="of each, turn by turn")
    parser.add_argument("--json", required=True, help="where to write the results")
    options = parser.parse_args()
    rows = measure(options)
    ctrl_c = [interrupted() for _ in range(options.runs)]
    print(f"Ctrl-C ends replays within {max(ctrl_c):.2f} s")
    machine = {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("pagecast", "libcachesim", "numpy")},
    }
    config = {"requests": options.requests, "part": options.part, "pages": options.pages, "runs": options.runs}
    Path(options.json).write_text(json.dumps({"config": config, "machine": machine, "rows": rows, "ctrl_c_s": ctrl_c}, indent=2) + "\n")


if __name__ == "__main__":
    main()
