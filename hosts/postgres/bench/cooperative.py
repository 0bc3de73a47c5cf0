"""Sequential scans of one table by many streams at once: a stock server against ours, over streams,
the device's read-ahead, and parallel query.

The table is 3.3 times the pool, and the control group leaves the kernel's cache about as much as
the pool has. The second opponent is a stock server that gives the same total memory to a smaller
pool and a larger kernel's cache. Runs of a seed follow each other, in an order that turns with the
seed, and ratios are of runs with the same seed.

With `--pools` it is a grid: one table, and pools that are so many per cent of it. Beside the pool
and as much for the kernel's cache, the server then has what its processes need.

Each run is appended to a log beside the JSON file as soon as it has ended. What the log has is not
run again, so a benchmark that was broken off goes on, and one of an hour can be made in parts. What
was measured with another build of the extension, or in other circumstances, is measured anew.
"""

import argparse
import hashlib
import itertools
import json
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bench import facts, together
from bench.device import LoopDisk
from bench.measure import Bench
from cluster import Installation, ServerFailed
from cluster.installation import BUILT

_MIB = 1 << 20
# What else than the table and the fillers lies on the disk: the system's catalogs, log and journal.
_REST = 300 * _MIB
# Of the table to the pool.
_TABLE = 3.3
# In a grid: what a process of the server needs of its own.
_PROCESS = 4 * _MIB


@dataclass(frozen=True)
class Cell:
    """What the runs that are compared have in common, but for the seed."""

    kind: str
    parallel: str
    read_ahead: int
    # The pool, in per cent of the table.
    share: int
    streams: int


def add_arguments(parser: argparse.ArgumentParser, size, names) -> None:
    """The options that only this benchmark has."""
    of_cooperative = parser.add_argument_group("of the workload `cooperative`")
    of_cooperative.add_argument("--read-ahead", type=lambda text: [size(word) for word in text.split(",")], default=[128 << 10, _MIB, 8 * _MIB],
                                help="of the device; default 128KiB,1MiB,8MiB")
    of_cooperative.add_argument("--parallel", type=names({"off": 0, "on": 0}), default=["off", "on"], help="parallel query; default off,on")
    of_cooperative.add_argument("--kinds", type=names(facts.KINDS), default=["whole"], help=f"of {', '.join(facts.KINDS)}; default whole")
    of_cooperative.add_argument("--splits", type=lambda text: [size(word) for word in text.split(",")] if text else [],
                                help="sizes of the pool of further stock servers with the same memory in all; default a quarter and a half; '' for none")
    of_cooperative.add_argument("--pools", type=lambda text: [int(word.removesuffix("%")) for word in text.split(",")],
                                help="a grid: pools in per cent of the table, as 5%%,10%%; then --shared-buffers is the largest that there may be")
    of_cooperative.add_argument("--again", action="store_true", help="measure also what the log has already")


def measure(given: argparse.Namespace, installation: Installation) -> int:
    """Measures what was asked for and the log does not have; 1 when a result differs from
    stock's."""
    ours = next((name for name in given.variants if name not in ("stock", "freelist")), "cooperative")
    library = build(installation) if ours != "control" else "stock"
    circumstances = {"server": installation.version, "bandwidth": given.bandwidth, "table": int(given.shared_buffers * _TABLE), "length": given.queries or 3,
                     "settings": given.set}
    log = Log(given.json.with_suffix(".runs.jsonl"))
    shares = given.pools or [round(100 / _TABLE)]
    cells = [Cell(*values) for values in itertools.product(given.kinds, given.parallel, given.read_ahead, shares, given.streams)]
    with LoopDisk(BUILT / f"facts-{installation.major}-{given.shared_buffers // _MIB}.img", circumstances["table"] + given.shared_buffers * 2 + _REST) as disk:
        facts.load(installation, disk.folder / "cluster", circumstances["table"], given.shared_buffers)
        for cell, number in itertools.product(cells, range(given.seeds)):
            seed = given.seed + number
            memory = _memory(given, cell)
            sides = [("stock", memory["shared_buffers"]), (ours, memory["shared_buffers"]), *(("stock", split) for split in _splits(given))]
            builds = {"stock": "stock", ours: library}
            keys = {side: {**circumstances, **memory, **vars(cell), "seed": seed, "variant": side[0], "pool": side[1], "build": builds[side[0]]} for side in sides}
            missing = [side for side in sides if given.again or not log.has(keys[side])]
            # Stock and ours are one pair: both anew, if one is.
            if set(missing) & set(sides[:2]):
                missing = sides[:2] + [side for side in missing if side not in sides[:2]]
            turn = number % max(1, len(missing))
            for variant, pool in missing[turn:] + missing[:turn]:
                disk.read_ahead(cell.read_ahead)
                run = _run(installation, disk.folder / "cluster", given, cell, seed, variant, pool, memory["memory"])
                log.add({**keys[variant, pool], **run})
                print(together.line(log.runs[-1]), flush=True)
                _write(given, log, circumstances, ours)
    found = _write(given, log, circumstances, ours)
    print(together.table(found["summary"]))
    print(f"wrote {given.json} and {given.html}; the runs are in {log.path}")
    return 0 if all(line["same_results"] for line in found["summary"]) else 1


def _memory(given: argparse.Namespace, cell: Cell) -> dict:
    """Bytes of the pool of a cell, and of its whole server."""
    if not given.pools:
        return {"shared_buffers": given.shared_buffers, "memory": given.memory}
    pool = int(given.shared_buffers * _TABLE) * cell.share // 100
    return {"shared_buffers": pool, "memory": 2 * pool + _PROCESS * (cell.streams + 8)}


def _splits(given: argparse.Namespace) -> list[int]:
    """Pools of the further stock servers."""
    if given.pools:
        return []
    return [given.shared_buffers // 4, given.shared_buffers // 2] if given.splits is None else given.splits


def _run(installation: Installation, folder: Path, given: argparse.Namespace, cell: Cell, seed: int, variant: str, pool: int, memory: int) -> dict:
    settings = {"max_parallel_workers_per_gather": 2 if cell.parallel == "on" else 0, **dict(setting.split("=", 1) for setting in given.set)}
    bench = Bench(installation, folder, 0, pool, memory, given.bandwidth, settings)
    # As long as the device takes for the table.
    stagger = given.shared_buffers * _TABLE / given.bandwidth
    run = bench.run(facts.workload(cell.kind, given.shared_buffers, stagger), variant, seed, cell.streams, given.queries or 3)
    if "not possible here" in run["limits"]:
        raise ServerFailed(f"the benchmark needs its limits: {run['limits']}")
    times = [query["wall_s"] for query in run["queries"]]
    return {"date": date.today().isoformat(), **run, "mean_latency_s": round(sum(times) / len(times), 4), "max_latency_s": max(times)}


class Log:
    """Runs as lines of a file. Of runs with the same key the last counts."""

    # What a run is known by.
    KEY = ("server", "shared_buffers", "memory", "bandwidth", "table", "length", "settings", "kind", "parallel", "read_ahead", "streams", "seed", "variant", "pool")

    def __init__(self, path: Path):
        self.path = path
        self.runs: list[dict] = []
        if path.is_file():
            # The last line may be half of one, if the machine went down.
            whole, _, half = path.read_text().rpartition("\n")
            if half:
                path.write_text(f"{whole}\n" if whole else "")
            self.runs = [json.loads(line) for line in whole.splitlines()]

    def has(self, key: dict) -> bool:
        """Whether there is a run with this key, by the same build."""
        return any(run["build"] == key["build"] and all(run[name] == key[name] for name in self.KEY) for run in self.runs)

    def add(self, run: dict) -> None:
        """Appends a run."""
        self.runs.append(run)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(run) + "\n")

    def latest(self) -> list[dict]:
        """The run that counts of each key."""
        return list({json.dumps([run[name] for name in self.KEY]): run for run in self.runs}.values())


def build(installation: Installation) -> str:
    """What the installed library is told by."""
    library = Path(installation.ask("pkglibdir")) / "pg_pagecast.so"
    return hashlib.md5(library.read_bytes()).hexdigest()[:12]


def _write(given: argparse.Namespace, log: Log, circumstances: dict, ours: str) -> dict:
    """Writes both reports of all servers in these circumstances; each appears whole or not at
    all."""
    same = {name: value for name, value in circumstances.items() if name != "server"}
    if not given.pools:
        same |= {"shared_buffers": given.shared_buffers, "memory": given.memory}
    runs = [run for run in log.latest() if all(run[name] == value for name, value in same.items())]
    document = together.document(runs, ours, {**circumstances, **same})
    for path, text in ((given.json, json.dumps(document, indent=1)), (given.html, together.page(document))):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(text)
        unfinished.replace(path)
    return document
