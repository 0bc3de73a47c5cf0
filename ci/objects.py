#!/usr/bin/env python3
"""Tables in an object store, beside the same tables in files: `make bench-objects`.

Two runs of `pagecast bench` over lineitem, of the same seed and query list: one of files, one of a
store. The store is declared: its objects are the files, each request takes its latency, and bodies
share the bandwidth. `--url` measures a real one instead, as fast as it is. What they gave stays in
target/bench/objects, and target/bench/objects.json has the rows of both.

With `--foyer PROGRAM` (`make bench-foyer`) there are rows with a tier on flash: ours, by prediction
and by second touch, and plain DataFusion over foyer's hybrid cache. The program is that cache; it
stands between the reader and the same declared store, over HTTP, with as many bytes of memory and
of flash as our pool. What it counts is kept; its time has HTTP in it, and is left out.

Bytes and requests are counted, so that they hold for a debug build, too. Times do not.

It is Python without dependencies: it only runs the command and reshapes JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

WRITTEN = Path("target/bench")
PLAIN, CLOCK, OURS = ("none", "none"), ("stock", "clock"), ("out-of-order", "pbm")
READERS = {"none": "DataFusion", "stock": "pool, DataFusion's order", "in-order": "pool, in order",
           "out-of-order": "pool, out of order"}
# What issue and roadmap want: at most so much of the peer's.
GOALS = (
    ("bytes without gaps, of the same from files", 1.05),
    ("requests, of DataFusion's", 1.0),
    ("wall time, of DataFusion's", 0.65),
    ("wall time, of a pool with clock", 1.0),
)


def bench(command: Path, options: argparse.Namespace, name: str, more: list[str],
          deliveries: str = "none,stock,out-of-order") -> dict:
    """Runs the bench, and gives what it wrote."""
    to = WRITTEN / "objects" / f"{name}.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    words = [str(command), "bench", "--streams", str(options.streams), "--queries",
             str(options.queries), "--pool", options.pool, "--seed", str(options.seed),
             "--repeat", str(options.repeat), "--policies", "pbm",
             "--delivery", deliveries, "--json", str(to), *more]
    print("$ " + " ".join(words), flush=True)
    status = subprocess.run(words).returncode
    if status != 0:
        sys.exit(f"pagecast bench ended with status {status}")
    return json.loads(to.read_text())


def rows_of(given: dict, where: str) -> list[dict]:
    rows = []
    for run in given["runs"]:
        store = run["store"] or {}
        asked = [store.get(kind, 0) for kind in ("gets", "heads", "lists")]
        rows.append({
            "reader": READERS[run["delivery"]], "policy": run["policy"], "where": where,
            "delivery": run["delivery"], "repetition": run["repetition"], "seed": run["seed"],
            "streams": run["streams"], "bytes_requested": run["bytes_requested"],
            "bytes_read": run["bytes_read"], "gap_bytes": store.get("gap_bytes"),
            "requests": sum(asked) if run["store"] else run["storage_requests"],
            **{kind: store.get(kind) for kind in ("gets", "heads", "lists", "refused", "cost_usd")},
            "bypassed_bytes": run["bypassed_bytes"], "wall_s": run["wall_s"],
            "flash_read": None, "flash_written": None,
        })
        if run["flash"]:
            rows[-1]["policy"] += ", " + run["flash"]["filling"]
            rows[-1]["flash_read"] = run["flash"]["bytes_read"]
            rows[-1]["flash_written"] = run["flash"]["bytes_written"]
    return rows


def of_unit(text: str, units: dict[str, float]) -> int:
    """A number with one of these units."""
    for unit, worth in units.items():
        if text.endswith(unit):
            return round(float(text.removesuffix(unit)) * worth)
    sys.exit(f"{text}: units are {', '.join(units)}")


def over_foyer(options: argparse.Namespace, store: dict) -> list[dict]:
    """Plain DataFusion over foyer's hybrid cache, with memory and flash as our pool has them."""
    config = store["config"]
    latency = of_unit(options.latency, {"ms": 1, "s": 1000})
    bandwidth = of_unit(options.bandwidth, {"GB/s": 1e9, "MB/s": 1e6, "KB/s": 1e3})
    flash = int(config["touched_bytes"] * options.flash)
    with tempfile.TemporaryDirectory(dir=WRITTEN) as folder:
        file = Path(config["data"].removeprefix("file://")) / "lineitem.parquet"
        words = [options.foyer, file, config["pool_bytes"], flash, config["page_bytes"], latency,
                 bandwidth, folder]
        with subprocess.Popen([str(word) for word in words], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as cache:
            url = cache.stdout.readline().strip()
            given = bench(options.command, options, "foyer", ["--data", url], "none")
            counted, _ = cache.communicate()
    counted = json.loads(counted)
    print(f"foyer: {counted}")
    [row] = rows_of(given, "foyer")
    none = dict.fromkeys(("requests", "gets", "heads", "lists", "refused", "cost_usd", "wall_s"))
    return [{**row, **none, "policy": "foyer", "bytes_read": counted["bytes_read"],
             "flash_read": counted["flash_bytes_read"],
             "flash_written": counted["flash_bytes_written"]}]


def median(rows: list[dict], where: str, row: tuple[str, str], figure) -> float:
    of = sorted(figure(made) for made in rows
                if made["where"] == where and (made["delivery"], made["policy"]) == row)
    return of[len(of) // 2]


def without_gaps(row: dict) -> float:
    return row["bytes_read"] - (row["gap_bytes"] or 0)


def summary(rows: list[dict], optimized: bool) -> list[dict]:
    """The goals, and what came of them."""
    of = lambda where, row, name: median(rows, where, row, lambda made: made[name])
    measured = (
        median(rows, "store", OURS, without_gaps) / median(rows, "files", OURS, without_gaps),
        of("store", OURS, "requests") / of("store", PLAIN, "requests"),
        of("store", OURS, "wall_s") / of("store", PLAIN, "wall_s"),
        of("store", OURS, "wall_s") / of("store", CLOCK, "wall_s"),
    )
    goals = [{"what": what, "at_most": most, "is": round(ratio, 3)}
             for (what, most), ratio in zip(GOALS, measured)
             if optimized or not what.startswith("wall")]
    for goal in goals:
        met = "met" if goal["is"] <= goal["at_most"] else "NOT MET"
        print(f"{goal['what']:<45} {goal['is']:.3f}, at most {goal['at_most']:.2f}: {met}")
    if not optimized:
        print("times: not of a debug build")
    return goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", type=Path, help="the pagecast command")
    parser.add_argument("--sf", type=float, default=1)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--queries", type=int, default=6)
    parser.add_argument("--pool", default="30%")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--bandwidth", default="40MB/s")
    parser.add_argument("--latency", default="30ms")
    parser.add_argument("--refused", help="share of the requests that the store refuses at first")
    parser.add_argument("--data", help="a folder with a lineitem, instead of the generated one")
    parser.add_argument("--page-size", help="of the pool")
    parser.add_argument("--url", help="where the same lineitem.parquet lies in a real store")
    parser.add_argument("--endpoint")
    parser.add_argument("--foyer", help="the program bench-foyer, for rows with a tier on flash")
    parser.add_argument("--flash", type=float, default=0.6, help="the tier, of what is touched")
    options = parser.parse_args()
    declared = ["--bandwidth", options.bandwidth, "--latency", options.latency]
    if options.page_size:
        declared += ["--page-size", options.page_size]
    data = ["--data", options.data] if options.data else ["--sf", f"{options.sf:g}"]
    files = bench(options.command, options, "files", [*data, *declared])
    if options.url:
        more = ["--data", options.url]
        more += ["--endpoint", options.endpoint] if options.endpoint else []
    else:
        more = ["--data", "file://" + files["config"]["data"], *declared]
        more += ["--refused", options.refused] if options.refused else []
    store = bench(options.command, options, "store", more)
    rows = rows_of(files, "files") + rows_of(store, "store")
    if options.foyer:
        tier = ["--flash", f"{WRITTEN}:{options.flash:.0%}",
                "--flash-policies", "predicted,second-touch"]
        rows += rows_of(bench(options.command, options, "flash", [*more, *tier], "out-of-order"),
                        "flash")
        rows += over_foyer(options, store)
    optimized = store["config"]["machine"]["optimized"]
    kept = ("sf", "streams", "queries", "pool", "seed", "repeat", "bandwidth", "latency", "refused",
            "page_size")
    arguments = {name.replace("_", "-"): getattr(options, name) for name in kept}
    if options.data:
        arguments["sf"], arguments["data"] = None, "FOLDER"
    if options.foyer:
        arguments["flash"] = options.flash
    written = {"target": "bench-foyer" if options.foyer else "bench-objects",
               "arguments": arguments, "optimized": optimized,
               "store": store["config"]["storage"]["label"], "prices": store["config"]["storage"]["prices"],
               "goals": summary(rows, optimized), "rows": rows}
    target = WRITTEN / "objects.json"
    beside = target.with_suffix(".tmp")
    beside.write_text(json.dumps(written, indent=1) + "\n")
    beside.replace(target)
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
