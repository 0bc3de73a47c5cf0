"""Where the bytes of the TPC-H mix go: for each table or index and each kind of scan the blocks
that were found in the pool and read, and what temporary files took, with and without the extension.

The streams run each query under EXPLAIN (ANALYZE, BUFFERS); what a node has read is its own count
less its children's. An InitPlan may be counted to the node that waits for it.
"""

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path

from bench import data
from bench.__main__ import names, size
from bench.measure import VARIANTS, Bench
from bench.query import Query
from bench.workloads import WORKLOADS, Workload
from cluster import ServerFailed, find_with_pagecast

_KINDS = ("Shared Hit Blocks", "Shared Read Blocks", "Temp Read Blocks", "Temp Written Blocks")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.account", description="Blocks of the TPC-H mix by relation and kind of scan.")
    parser.add_argument("--version", type=int)
    parser.add_argument("--variants", type=names(VARIANTS), default=["stock", "steering", "cooperative"])
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--shared-buffers", type=size, default=size("26MiB"))
    parser.add_argument("--memory", type=size, default=size("128MiB"))
    parser.add_argument("--bandwidth", type=size, default=size("200MiB"))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--least", type=int, default=1000, help="lines of fewer blocks read by each variant are left out")
    parser.add_argument("--json", type=Path, default=Path("target/bench/account.json"))
    given = parser.parse_args()
    installation = find_with_pagecast(given.version)
    if installation is None:
        return 0
    try:
        runs = measure(given, installation)
    except ServerFailed as problem:
        print(f"account: {problem}", file=sys.stderr)
        return 1
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(runs, indent=1))
    print(table(runs, given.variants, given.least))
    return 0


def measure(given: argparse.Namespace, installation) -> list[dict]:
    """A run of each variant and seed."""
    bench = Bench(installation, data.folder(installation, given.scale), given.scale, given.shared_buffers, given.memory, given.bandwidth,
                  dict(setting.split("=", 1) for setting in given.set))
    workload = explained(WORKLOADS["tpch"])
    bench.prepare(workload)
    runs = []
    for seed in range(1, given.seeds + 1):
        turn = seed % len(given.variants)
        for variant in given.variants[turn:] + given.variants[:turn]:
            run = bench.run(workload, variant, seed, given.streams, workload.length, keep_rows=True)
            nodes: Counter = Counter()
            for query in run.pop("queries"):
                add_nodes(json.loads(query["rows"][0][0])[0]["Plan"], nodes)
            lines = {f"{kind}: {node}": {what: nodes[kind, node, what] for what in _KINDS} for kind, node, _ in nodes}
            runs.append({"seed": seed, **run, "nodes": lines})
            print(f"seed {seed} {variant:<12} {run['blocks']} blocks, {run['device_bytes'] / (1 << 20):.0f} MiB from the device", flush=True)
    return runs


def explained(workload: Workload) -> Workload:
    """The same queries under EXPLAIN."""
    def queries(rng, scale, length):
        return [Query(query.name, f"explain (analyze, buffers, timing off, format json) {query.sql}") for query in workload.queries(rng, scale, length)]
    return Workload(workload.name, workload.about, queries, workload.indexes, workload.settings, workload.length)


def add_nodes(plan: dict, nodes: Counter) -> None:
    """Adds what each node has read itself."""
    children = plan.get("Plans", [])
    relation = plan.get("Relation Name") or plan.get("Index Name") or "-"
    kind = plan["Node Type"]
    if "Index Name" in plan and "Relation Name" in plan:
        relation += f" by {plan['Index Name']}"
    for what in _KINDS:
        own = plan.get(what, 0) - sum(child.get(what, 0) for child in children)
        nodes[kind, relation, what] += max(0, own)
    for child in children:
        add_nodes(child, nodes)


def table(runs: list[dict], variants: list[str], least: int) -> str:
    """Medians over the seeds: thousands of blocks read, and in brackets found."""
    def median(variant: str, name: str, what: str) -> float:
        return statistics.median(run["nodes"].get(name, {}).get(what, 0) for run in runs if run["variant"] == variant) / 1000

    rows = [["thousands of blocks read (found)", *variants]]
    for name in sorted({name for run in runs for name in run["nodes"]}, key=lambda name: -median(variants[0], name, _KINDS[1])):
        if max(median(variant, name, _KINDS[1]) for variant in variants) * 1000 >= least:
            rows.append([name, *(f"{median(variant, name, _KINDS[1]):.1f} ({median(variant, name, _KINDS[0]):.1f})" for variant in variants)])
    for what in _KINDS[2:]:
        total = {variant: statistics.median(sum(node[what] for node in run["nodes"].values()) for run in runs if run["variant"] == variant) / 1000 for variant in variants}
        rows.append([what, *(f"{total[variant]:.1f}" for variant in variants)])
    for what, unit in (("blocks", 1000), ("device_bytes", 8192 * 1000)):
        rows.append([what, *(f"{statistics.median(run[what] for run in runs if run['variant'] == variant) / unit:.1f}" for variant in variants)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))) for row in rows)


if __name__ == "__main__":
    sys.exit(main())
