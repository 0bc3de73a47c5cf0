"""The command: parses what to measure, runs it in alternating order, and writes the reports after
every seed."""

import argparse
import json
import os
import re
import sys
from datetime import date
from pathlib import Path

from bench import cooperative, data, report
from bench.measure import SETTINGS, VARIANTS, Bench
from bench.workloads import WORKLOADS
from cluster import ServerFailed, SqlError, find


def size(text: str) -> int:
    """Bytes of `64MiB`, `1GiB` or a plain number of bytes."""
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"`{text}` is no size like 256MiB")
    return int(found.group(1)) << {None: 0, "KiB": 10, "MiB": 20, "GiB": 30}[found.group(2)]


def names(known: dict):
    """A parser of comma-separated names out of `known`."""
    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"`{name}` is none of {', '.join(known)}")
        return text.split(",")
    return parse


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Stock PostgreSQL against the same server with pg_pagecast.")
    parser.add_argument("--version", type=int, help="major version of the server (default: the newest of the system)")
    parser.add_argument("--workloads", type=names({**WORKLOADS, "cooperative": None}), default=["brin"],
                        help=f"comma-separated: {', '.join(WORKLOADS)}; or cooperative alone; default brin")
    parser.add_argument("--variants", type=names(VARIANTS), help="what to compare with stock; default steering,freelist; of cooperative: cooperative")
    parser.add_argument("--streams", type=lambda text: [int(word) for word in text.split(",")], help="numbers of streams; default 8,16; of cooperative 1,2,4,8,16,32")
    parser.add_argument("--queries", type=int, help="queries of a stream (default: the workload's)")
    parser.add_argument("--seeds", type=int, default=5, help="pairs of each cell; default 5")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; default 1")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor; default 1, 0.9 GiB of lineitem")
    parser.add_argument("--shared-buffers", type=size, help="default 288MiB, a third of lineitem at scale 1; of cooperative 128MiB")
    parser.add_argument("--memory", type=size, help="of the whole server with the kernel's cache for it; default twice the shared buffers")
    parser.add_argument("--bandwidth", type=size, default=size("200MiB"), help="reads a second from the device; default 200MiB")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a further setting of the server")
    parser.add_argument("--quick", action="store_true", help="a minute: scale 0.1 (cooperative: a pool of 32 MiB), one seed, 4 streams, a sixth of the queries")
    parser.add_argument("--json", type=Path, default=Path("target/bench/postgres.json"))
    parser.add_argument("--html", type=Path, default=Path("target/bench/postgres.html"))
    cooperative.add_arguments(parser, size, names)
    given = parser.parse_args()
    if "cooperative" in given.workloads and len(given.workloads) > 1:
        parser.error("--workloads cooperative stands alone: its table and its limits are others")
    alone = "cooperative" in given.workloads
    if given.quick:
        given.scale, given.seeds, given.streams, given.shared_buffers = 0.1, 1, [4], size("32MiB" if alone else "24MiB")
        given.read_ahead, given.parallel, given.splits = [size("1MiB")], ["off"], []
    given.variants = given.variants or (["cooperative"] if alone else ["steering", "freelist"])
    given.streams = given.streams or ([1, 2, 4, 8, 16, 32] if alone else [8, 16])
    given.shared_buffers = given.shared_buffers or size("128MiB" if alone else "288MiB")
    given.memory = given.memory or max(size("96MiB"), given.shared_buffers * 2)
    return given


def main() -> int:
    given = arguments()
    installation = find(given.version)
    if installation is None:
        print(f"skipped: no PostgreSQL server{f' {given.version}' if given.version else ''} is installed")
        return 0
    if not installation.has_extension("pg_pagecast") and any(VARIANTS[name] for name in given.variants):
        print(f"bench: pg_pagecast is not installed in {installation.ask('sharedir')}; run `python3 -m cluster install`, or see hosts/postgres/README.md", file=sys.stderr)
        return 1
    try:
        return (cooperative.measure if given.workloads == ["cooperative"] else measure)(given, installation)
    except (ServerFailed, SqlError, OSError) as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1


def measure(given: argparse.Namespace, installation) -> int:
    """Measures everything that was asked for; 1 when a result differs from stock's."""
    bench = Bench(installation, data.folder(installation, given.scale), given.scale, given.shared_buffers, given.memory, given.bandwidth,
                  dict(setting.split("=", 1) for setting in given.set))
    runs: list[dict] = []
    variants = ["stock", *(variant for variant in given.variants if variant != "stock")]
    for name in given.workloads:
        workload = WORKLOADS[name]
        bench.prepare(workload)
        length = given.queries or (max(3, workload.length // 6) if given.quick else workload.length)
        for streams in given.streams:
            for number in range(given.seeds):
                # Every variant comes first, second, ... equally often, so a drift of the machine
                # meets all of them.
                turn = number % len(variants)
                for variant in variants[turn:] + variants[:turn]:
                    run = bench.run(workload, variant, given.seed + number, streams, length)
                    runs.append({"workload": name, "streams": streams, "seed": given.seed + number, **run})
                    print(line(runs[-1]), flush=True)
                write(given, installation, runs)
    found = report.summary(report.pairs(runs))
    print(report.table(found))
    print(f"wrote {given.json} and {given.html}")
    return 0 if all(cell["same_results"] for cell in found) else 1


def line(run: dict) -> str:
    """One run for the terminal."""
    share = run["hits"] / max(1, run["hits"] + run["blocks"])
    return (f"{run['workload']:<10} {run['streams']:>3} streams  seed {run['seed']:<3} {run['variant']:<9} {run['blocks']:>9} blocks  {share:>5.1%} hit  "
            f"{run['device_bytes'] / (1 << 30):>6.2f} GiB  {run['wall_s']:>6.1f} s  CPU {run['cpu_s']:>6.1f} s")


def write(given: argparse.Namespace, installation, runs: list[dict]) -> None:
    """Writes both reports; each appears whole or not at all."""
    found = report.pairs(runs)
    config = {
        "date": date.today().isoformat(), "server": installation.ask("version"), "scale": given.scale, "shared_buffers": f"{given.shared_buffers >> 20} MiB",
        "limits": runs[-1]["limits"], "processors": os.cpu_count(), "settings": report.settings({**SETTINGS, **dict(setting.split("=", 1) for setting in given.set)}),
        "settings_of_sessions": "; ".join(f"{name}: {report.settings(WORKLOADS[name].settings)}" for name in given.workloads),
        "a_block": "8 KiB, a page of the server", "cache": "cold at each start",
    }
    document = {"schema": 1, "config": config, "pairs": found, "summary": report.summary(found), "runs": runs}
    for path, text in ((given.json, json.dumps(document, indent=1)), (given.html, report.page(document))):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(text)
        unfinished.replace(path)


if __name__ == "__main__":
    sys.exit(main())
