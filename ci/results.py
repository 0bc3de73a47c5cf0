#!/usr/bin/env python3
"""Writes docs/results.md from what the benchmarks measured: `make results`.

Each benchmark writes a JSON file to target/bench. What is newer there than in lab/measured is
reduced to what the tables need, with command, machine and date, and kept in lab/measured. The
document is made of lab/measured alone, so that everybody gets the same: `--check` (part of
`make lint`) fails where it differs. A benchmark that was not run has no row, and its command is
named.

It is Python without dependencies: it only reshapes JSON, and `make lint` runs it without a build.
"""

import json
import platform
import statistics
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path

WRITTEN = Path("target/bench")
MEASURED = Path("lab/measured")
DOCUMENT = Path("docs/results.md")
MOST_LINES = 175
COLUMNS_OF_TEXT = 100
MIB = 1 << 20

Row = dict


@dataclass
class Reduced:
    """What is kept of a file: its command and rows, and what else it says of its circumstances."""
    command: str
    rows: list[Row]
    machine: str | None = None
    under: str = ""


# How the files are reduced.

def made(target: str, arguments: str) -> str:
    return f"make {target}" + (f" ARGS='{arguments}'" if arguments else "")


def sql(given: dict) -> Reduced:
    config = given["config"]
    at = config["machine"]
    if not at["optimized"]:
        raise Problem("the figures are of a debug build: run `make bench-sql`")
    if given.get("partial"):
        raise Problem("the bench was interrupted: run `make bench-sql`")
    policies = [run["policy"] for run in given["runs"] if run["delivery"] == "in-order"]
    flags = {"streams": config["streams"], "queries": config["queries_per_stream"],
             "pool": config["pool"], "policies": ",".join(dict.fromkeys(policies)),
             "repeat": config["repeat"]}
    command = "pagecast bench " + " ".join(f"--{flag} {value}" for flag, value in flags.items())
    machine = f"{at['os']} {at['arch']}, {at['cpus']} x {at['cpu']}, {at['memory_bytes'] >> 30} GiB"
    kept = ("streams", "seed", "delivery", "policy", "bytes_read", "belady_bytes_read", "wall_s")
    rows = [{name: run[name] for name in kept} for run in given["runs"]]
    return Reduced(command, rows, machine)


def postgres(given: dict) -> Reduced:
    config = given["config"]
    cells = given["summary"]
    listed = {name: ",".join(dict.fromkeys(str(cell[name]) for cell in cells))
              for name in ("workload", "streams", "mode")}
    buffers = config["shared_buffers"].replace(" ", "")
    lengths = {sum(query["runs"] for query in run["queries"]) // run["streams"]
               for run in given["runs"]}
    queries = f" --queries {lengths.pop()}" if len(lengths) == 1 else ""
    command = (f"make bench-postgres ARGS='--workloads {listed['workload']} --streams "
               f"{listed['streams']}{queries} --variants {listed['mode']} --scale "
               f"{config['scale']:g} --shared-buffers {buffers} --seeds "
               f"{max(cell['pairs'] for cell in cells)}'")
    rows = []
    for cell in cells:
        same = ("workload", "streams", "mode")
        pairs = [pair for pair in given["pairs"] if all(pair[name] == cell[name] for name in same)]
        device = [pair["ours"]["device_bytes"] / pair["stock"]["device_bytes"]
                  for pair in pairs if pair["stock"]["device_bytes"]]
        rows.append({**{name: cell[name] for name in (*same, "pairs", "same_results")},
                     **{name: round(ratio, 3) for name, ratio in cell["ratio"].items()},
                     "device": [round(min(device), 3), round(max(device), 3)] if device else None,
                     "server": config["server"]})
    return Reduced(command, rows, under=config["limits"])


def cooperative(given: dict) -> Reduced:
    config, cells = given["config"], given["summary"]
    kept = ("kind", "server", "parallel", "read_ahead", "streams", "pairs", "same_results", "goal")
    figures = ("device_bytes", "mean_latency_s", "max_latency_s")
    rows = []
    for cell in cells:
        rows.append({name: cell[name] for name in kept})
        for peer in ("ratio", "ratio_best"):
            if peer in cell:
                rows[-1][peer] = {figure: list(cell[peer][figure].values()) for figure in figures}
    listed = {name: ",".join(dict.fromkeys(str(cell[name]) for cell in cells))
              for name in ("streams", "parallel")}
    command = (f"make bench-postgres ARGS='--workloads cooperative --streams {listed['streams']} "
               f"--parallel {listed['parallel']}'")
    under = (f"{config['limits']}, shared_buffers {config['shared_buffers']}, "
             f"table {config['table']}")
    return Reduced(command, rows, under=under)


def overhead(given: dict) -> Reduced:
    estimate = ("mean", "from", "to")
    rows = [{"case": line["case"], "clients": line["clients"], "variant": line["variant"],
             "cpu": [round(line["cpu"][name], 4) for name in estimate]} for line in given["lines"]]
    return Reduced("PYTHONPATH=hosts/postgres chrt -r 1 python3 -m bench.overhead", rows)


def beside(given: dict) -> Reduced:
    options, pairs = given["options"], given["pairs"]
    rows = []
    for figure in [name for name in BESIDE if name in pairs[0]["ours"]]:
        ratios = [pair["ours"][figure] / pair["stock"][figure] for pair in pairs]
        rows.append({"figure": figure, "pairs": len(pairs), "server": given["server"],
                     "ratio": [round(of(ratios), 3) for of in (statistics.median, min, max)]})
    command = (f"PYTHONPATH=hosts/postgres python3 -m bench.latency --job "
               f"{options.get('job', 'tpcb')} --rate {options['rate']}")
    return Reduced(command, rows, under=pairs[0]["limits"])


# What is shown of others' work beside reporting.
BESIDE = {"p50": "TPC-B, median latency", "p99": "TPC-B, 99th percentile of the latency",
          "seconds": "time of a `pg_dump`"}


def prediction(given: dict) -> Reduced:
    rows = []
    for cell in given["cells"]:
        at = {name: cell[name] for name in ("order", "workload", "streams", "pool")}
        if not rows or rows[-1]["at"] != at:
            rows.append({"at": at, "rates": {}})
        rows[-1]["rates"][cell["policy"]] = round(100 * cell["hit_rate"], 2)
    rows += [{"cost": {name: cost[name] for name in ("policy", "scans")},
              "instructions": cost["instructions_per_eviction"]} for cost in given.get("costs", [])]
    return Reduced(made("bench-prediction", given["arguments"]), rows)


def pool(given: dict) -> Reduced:
    rows = [{**{name: row[name] for name in ("policy", "workload", "threads", "peer")},
             "ours_ns": round(row["ours_ns"], 1), "ratio": round(row["ratio"], 3)}
            for row in given["hit_path"]]
    return Reduced(made("bench-pool", given["arguments"]), rows)


def delivery(given: dict) -> Reduced:
    kept = ("streams", "pool", "selectivity", "seed", "delivery", "policy", "bytes_read",
            "belady_bytes_read", "wall_s", "mean_latency_s", "max_latency_s", "cpu_s")
    rows = [{name: row[name] for name in kept} for row in given["rows"] if not row["partial"]]
    repeat = max(row["repetition"] for row in given["rows"])
    rate = given["rows"][0]["bandwidth_bytes_s"] / 1e6
    seeds = ",".join(map(str, sorted({row["seed"] for row in rows})))
    arguments = f"--seeds {seeds} --repeat {repeat} --bandwidth {rate:g}MB/s"
    return Reduced(made("bench-delivery", arguments), rows)


# The tables: what each says, its heads, and its rows.

@dataclass
class Kept:
    """A file of lab/measured."""
    command: str
    under: str
    machine: str
    date: str
    rows: list[Row]

    def how(self) -> str:
        return f"`{self.command}`" + (f" ({self.under})" if self.under else "")


class Document:
    """The text in the making."""

    def __init__(self) -> None:
        self.lines = ["# Results", "", "Written by `make results` from the JSON files of the "
                      "benchmarks. Do not edit.", "A ratio below 1 is in favour of pagecast."]
        self.machines: list[str] = []

    def table(self, title: str, about: str, heads: list[str],
              rows: list[tuple[list[Kept], list[str]]]) -> None:
        """A table. Its rows end with a number, under which command, machine and date stand."""
        sources = list(dict.fromkeys(self.source(files) for files, _ in rows))
        self.lines += ["", f"## {title}", "", *textwrap.wrap(about, COLUMNS_OF_TEXT), "",
                       line([*heads, "from"]), line(["---"] * (len(heads) + 1))]
        self.lines += [line([*cells, str(sources.index(self.source(files)) + 1)])
                       for files, cells in rows]
        self.lines.append("")
        for number, source in enumerate(sources, 1):
            self.lines += textwrap.wrap(f"{number}. {source}", COLUMNS_OF_TEXT,
                                        break_on_hyphens=False, subsequent_indent="   ")

    def source(self, files: list[Kept]) -> str:
        """Command, machine and date of the figures that these files gave."""
        commands = ", ".join(dict.fromkeys(file.how() for file in files))
        machines = ", ".join(dict.fromkeys(self.machine(file.machine) for file in files))
        dates = sorted({file.date[:10] for file in files})
        days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        return f"{commands}, machine {machines}, {days}"

    def missing(self, title: str, command: str) -> None:
        self.lines += ["", f"## {title}", "", f"Not measured yet: `{command}`, then `make results`."]

    def machine(self, name: str) -> str:
        """The letter of a machine."""
        if name not in self.machines:
            self.machines.append(name)
        return chr(ord("A") + self.machines.index(name))

    def text(self) -> str:
        named = [f"- {self.machine(name)}: {name}" for name in self.machines]
        lines = [*self.lines, "", "## Machines", "", *named] if named else self.lines
        if len(lines) > MOST_LINES:
            raise Problem(f"{DOCUMENT} would have {len(lines)} lines, and may have {MOST_LINES}")
        return "\n".join(lines) + "\n"


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def mean(values: list[float]) -> str:
    """The mean, with its standard error where there are several values."""
    if len(values) < 2:
        return f"{values[0]:.0f}"
    return f"{statistics.mean(values):.0f} ± {statistics.stdev(values) / len(values) ** 0.5:.0f}"


def main_job(document: Document, files: list[Kept]) -> None:
    groups: dict[tuple, list[tuple[Kept, Row]]] = {}
    for file in files:
        job = file.command.split(" --policies ")[0]
        for row in file.rows:
            key = row["streams"], job, row["delivery"], row["policy"]
            groups.setdefault(key, []).append((file, row))
    rows = []
    for (streams, job, delivery, policy), of in sorted(groups.items(), key=lambda at: at[0][:2]):
        stock = [row for _, row in groups.get((streams, job, "stock", "clock"), [])]

        def share(name: str) -> str:
            if not stock:
                return ""
            ours = statistics.mean(row[name] for _, row in of)
            return f"{ours / statistics.mean(row[name] for row in stock):.2f}"

        belady = [row["belady_bytes_read"] / MIB for _, row in of if row["belady_bytes_read"]]
        rows.append(([file for file, _ in of], [
            str(streams), delivery, "" if delivery == "none" else f"`{policy}`", runs(of),
            mean([row["bytes_read"] / MIB for _, row in of]), share("bytes_read"),
            mean(belady) if belady else "", mean([row["wall_s"] for _, row in of]), share("wall_s")]))
    document.table(
        "SQL on Parquet", "TPC-H lineitem through a pool of 30 % of what the queries touch, on "
        "declared storage. Means over the runs, ± standard error; *stock* is DataFusion's own "
        "delivery with clock. *Belady* is the optimum on the same requests.",
        ["streams", "delivery", "policy", "runs", "MiB read", "of stock", "Belady", "s", "of stock"],
        rows)


def runs(of: list[tuple[Kept, Row]]) -> str:
    """How many runs, and of which seeds."""
    seeds = sorted({row["seed"] for _, row in of})
    return f"{len(of)}, seed {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "")


def deliveries(document: Document, files: list[Kept]) -> None:
    jobs: dict[tuple, list[tuple[Kept, Row]]] = {}
    for file in files:
        for row in file.rows:
            key = row["streams"], row["pool"], tuple(row["selectivity"])
            jobs.setdefault(key, []).append((file, row))
    rows = []
    for (streams, pool, shares), of in sorted(jobs.items()):
        ours = [row for _, row in of if row["delivery"] == "out-of-order"]
        peers = [row for _, row in of if row["delivery"] != "out-of-order"]
        if not ours or not peers:
            continue

        def over(figure: str, of_peer: str = "") -> str:
            """The median over the seeds, with the least and the most."""
            ratios = []
            for seed in sorted({row["seed"] for row in ours}):
                both = [[row[name] for row in side if row["seed"] == seed]
                        for side, name in ((ours, figure), (peers, of_peer or figure))]
                if all(both):
                    ratios.append(statistics.median(both[0]) / statistics.median(both[1]))
            if not ratios:
                return ""
            middle, least, most = (f(ratios) for f in (statistics.median, min, max))
            return f"{middle:.2f} ({least:.2f} to {most:.2f})"

        rows.append(([file for file, _ in of], [
            str(streams), pool, ", ".join(f"{share:.0%}" for share in shares),
            f"{peers[0]['delivery']} `{peers[0]['policy']}`", over("bytes_read"),
            over("bytes_read", "belady_bytes_read"), over("mean_latency_s"), over("max_latency_s")]))
    document.table(
        "SQL on Parquet: delivery out of order", "The same lineitem at scale factor 5, delivered "
        "out of order with `pbm`, over another delivery; medians over seeds, with least and most. "
        "*Belady* is the optimum on that other delivery's requests.",
        ["streams", "pool", "ranges", "over", "bytes read", "bytes / Belady", "mean latency",
         "slowest query"], rows)


def postgres_pairs(document: Document, files: list[Kept]) -> None:
    rows = [([file], [row["workload"], str(row["streams"]), row["mode"], str(row["pairs"]),
                    f"{row['blocks']:.2f}", device(row), f"{row['wall_s']:.2f}",
                    "identical" if row["same_results"] else "DIFFERENT", row["server"]])
            for file in files for row in file.rows]
    document.table(
        "PostgreSQL", "A server with pg_pagecast over the same server without; medians of the "
        "pairs' ratios, device bytes with least and most.",
        ["workload", "streams", "mode", "pairs", "blocks", "device bytes", "wall", "results",
         "server"], rows)


def device(row: Row) -> str:
    spread = f" ({row['device'][0]:.2f} to {row['device'][1]:.2f})" if row["device"] else ""
    return f"{row['device_bytes']:.2f}{spread}"


def beside_reporting(document: Document, files: list[Kept]) -> None:
    rows = [([file], [BESIDE[row["figure"]], str(row["pairs"]),
                      "{:.2f} ({:.2f} to {:.2f})".format(*row["ratio"]), row["server"]])
            for file in files for row in file.rows]
    document.table("PostgreSQL: work beside reporting", "What else runs while sessions report "
                   "without a pause, over the same on a stock server; medians of pairs, with least "
                   "and most.", ["work", "pairs", "of stock", "server"], rows)


def read_together(document: Document, files: list[Kept]) -> None:
    """A line for each server and setting, with a column for each number of streams."""
    streams = sorted({row["streams"] for file in files for row in file.rows})
    over = (("ratio", "device_bytes", "device bytes"), ("ratio", "mean_latency_s", "mean latency"),
            ("ratio_best", "device_bytes", "device bytes, best stock"))
    groups: dict[tuple, dict[int, Row]] = {}
    for file in files:
        for row in file.rows:
            key = row["server"], row["parallel"], row["read_ahead"], row["kind"]
            groups.setdefault(key, {})[row["streams"]] = row
    rows = []
    for (server, parallel, read_ahead, kind), of in sorted(groups.items()):
        for peer, figure, name in over:
            told = ["{:.2f} ({:.2f} to {:.2f})".format(*of[count][peer][figure])
                    if count in of and peer in of[count] else "" for count in streams]
            if any(told):
                rows.append((files, [server, parallel, f"{read_ahead >> 10} KiB", kind, name, *told]))
    document.table(
        "PostgreSQL: sequential scans read together", "Streams of three queries of different speed "
        "over a table of 3.3 times `shared_buffers`, over stock; medians of pairs, with least and "
        "most. *Best stock* gives the same memory to a smaller pool and a larger page cache.",
        ["server", "parallel", "read-ahead", "queries", "over stock",
         *(f"{count} streams" for count in streams)], rows)


OURS, OPTIMUM, COLUMNS = "pbm", "opt", ("clock", "pbm-pq", "pbm-paper")


def cells(files: list[Kept]) -> list[tuple[Kept, Row]]:
    return [(file, row) for file in files for row in file.rows if "at" in row]


def best(rates: dict[str, float]) -> tuple[str, float]:
    """The best of the others that do not know the future; ours under other settings are no
    others.
    """
    others = {name: rate for name, rate in rates.items()
              if name not in (OURS, OPTIMUM) and "every frame" not in name
              and not name.startswith(OURS + "(")}
    return max(others.items(), key=lambda item: item[1])


def is_shown(at: Row) -> bool:
    """Not every number of streams of workloads that scan only: the document is short."""
    return at["streams"] in (8, 32) or not at["workload"].startswith(("sequential", "trailing"))


def hit_rates(document: Document, files: list[Kept]) -> None:
    shown = [(file, row) for file, row in cells(files) if is_shown(row["at"])]
    scans = [(file, row) for file, row in shown if row["at"]["workload"].startswith("sequential(")
             and row["at"]["pool"] == 0.3]
    others = [(file, row) for file, row in shown
              if not row["at"]["workload"].startswith("sequential(") and row["at"]["pool"] == 0.2]
    rows = []
    for file, row in [*scans, *others]:
        rates = row["rates"]
        name, rate = best(rates)
        cell = [f"`{row['at']['workload']}`", row["at"]["order"], f"{row['at']['pool']:.0%}"]
        cell += [f"{rates[name]:.1f}" if name in rates else "" for name in (*COLUMNS, OURS)]
        cell += [f"{rate:.1f} `{name}`", f"{rates[OPTIMUM]:.1f}" if OPTIMUM in rates else ""]
        rows.append(([file], cell))
    document.table(
        "Hit rates", "Simulated, in per cent of the requests. *Order* is that of the trace, or "
        "logical time, in which scans that hit go faster. *Best* is the best policy but `pbm`.",
        ["workload", "order", "pool", *(f"`{name}`" for name in (*COLUMNS, OURS)), "best",
         "Belady"], rows)


def hit_path(document: Document, files: list[Kept]) -> None:
    rows = []
    for file in files:
        groups: dict[tuple, list[Row]] = {}
        for row in file.rows:
            if row["policy"] in (OURS, "clock"):
                groups.setdefault((row["policy"], row["threads"]), []).append(row)
        for (policy, threads), of in groups.items():
            over = [[row["ratio"] for row in of if row["peer"] == peer]
                    for peer in ("quick_cache", "moka", "foyer")]
            ours = [round(row["ours_ns"]) for row in of]
            rows.append(([file], [f"`{policy}`", str(threads), f"{min(ours)} to {max(ours)}", *(
                f"{min(ratios):.2f} to {max(ratios):.2f}" for ratios in over)]))
    document.table(
        "Hit path", "Pin and unpin of a resident page, ns for each operation and thread, and over "
        "`get` of other caches in the same run. Least and most over three kinds of keys: uniform, "
        "Zipf's, disjoint.",
        ["policy", "threads", "ns", "/ quick_cache", "/ moka", "/ foyer"], rows)


MOST_BEHIND = 5
BEHIND = 0.5


def does_not_help(document: Document, files: dict[str, list[Kept]]) -> None:
    behind = []
    for file, row in cells(files["prediction"]):
        name, rate = best(row["rates"])
        behind.append((rate - row["rates"][OURS], file, row, name, rate))
    behind = sorted((cell for cell in behind if cell[0] > BEHIND), key=lambda cell: -cell[0])
    rows = [([file], [f"`{row['at']['workload']}`, {row['at']['order']}, {row['at']['pool']:.0%}",
                    f"hit rate {row['rates'][OURS]:.1f}, and {rate:.1f} with `{name}`"])
            for _, file, row, name, rate in behind[:MOST_BEHIND]]
    rows += [([file], [f"PostgreSQL, {row['workload']}, {row['streams']} streams, {row['mode']}",
                     f"{device(row)} of stock's device bytes"])
             for file in files["postgres"] for row in file.rows if row["device_bytes"] > 0.97]
    rows += [([file], [f"PostgreSQL, pgbench {row['case']}, {row['clients']} clients, "
                     f"{row['variant']}", "processor time {:.3f} ({:.3f} to {:.3f}) of stock's"
                     .format(*row["cpu"])])
             for file in files["overhead"] for row in file.rows]
    rows += [([file], [f"{BESIDE[row['figure']]}, beside reporting on PostgreSQL",
                       "{:.2f} ({:.2f} to {:.2f}) of stock's".format(*row["ratio"])])
             for file in files["beside"] for row in file.rows if row["ratio"][0] > 1]
    rows += slower_hits(files["pool"])
    simulated = cells(files["prediction"])
    about = "PostgreSQL where it reads as much as stock or cannot gain; caches with faster hits."
    if simulated:
        about = (f"{len(behind)} of {len(simulated)} simulated cells in which another policy hits "
                 f"more by over {BEHIND} points, here the {MOST_BEHIND} worst. {about}")
    document.table("When it does not help", about, ["where", "what"], rows)


def slower_hits(files: list[Kept]) -> list[tuple[list[Kept], list[str]]]:
    """Where a hit takes longer than another cache's."""
    rows = []
    for file in files:
        slower: dict[tuple, list[float]] = {}
        for row in file.rows:
            if row["ratio"] > 1:
                slower.setdefault((row["policy"], row["peer"]), []).append(row["ratio"])
        rows += [([file], [f"hit path, `{policy}`", f"up to {max(ratios):.2f} of {peer}'s time"])
                 for (policy, peer), ratios in slower.items()]
    return rows


@dataclass
class Kind:
    """A benchmark: its files in target/bench, how they are reduced, and its command."""
    files: str
    reduce: Callable[[dict], Reduced]
    command: str


KINDS = {
    "delivery": Kind("delivery.json", delivery, "make bench-delivery"),
    "sql": Kind("sql*.json", sql, "make bench-sql"),
    "cooperative": Kind("postgres-cooperative*.json", cooperative,
                        "make bench-postgres ARGS='--workloads cooperative'"),
    "overhead": Kind("postgres-overhead.json", overhead,
                     "PYTHONPATH=hosts/postgres python3 -m bench.overhead"),
    "beside": Kind("postgres-[ld]*.json", beside,
                   "PYTHONPATH=hosts/postgres python3 -m bench.latency"),
    "postgres": Kind("postgres*.json", postgres, "make bench-postgres"),
    "prediction": Kind("prediction*.json", prediction, "make bench-prediction"),
    "pool": Kind("pool.json", pool, "make bench-pool"),
}


class Problem(Exception):
    """What to say and to end with."""


def kind_of(name: str) -> str | None:
    return next((kind for kind, of in KINDS.items() if fnmatch(name, of.files)), None)


def read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Problem(f"{path}: {error}") from error


def here() -> str:
    """This machine, as `pagecast bench` names it."""
    def of(path: str, key: str) -> str:
        lines = Path(path).read_text().splitlines() if Path(path).exists() else []
        return next((line.split(":")[1].strip() for line in lines if line.startswith(key)), "")
    cpus = sum(line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines())
    memory = int(of("/proc/meminfo", "MemTotal").split()[0]) >> 20
    return (f"{platform.system().lower()} {platform.machine()}, {cpus} x "
            f"{of('/proc/cpuinfo', 'model name')}, {memory} GiB")


def name_of(path: Path) -> str:
    """What a file is kept as: one command writes two kinds of results under one name."""
    if path.name == "postgres.json" and "queries_of_a_stream" in read(path).get("config", {}):
        return "postgres-cooperative.json"
    return path.name


def take_newer() -> None:
    """Keeps what is newer in target/bench than in lab/measured."""
    for path in sorted(WRITTEN.glob("*.json")):
        name = name_of(path)
        kind, kept = kind_of(name), MEASURED / name
        date = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        if kind is None or kept.exists() and read(kept)["date"] >= date:
            continue
        try:
            reduced = KINDS[kind].reduce(read(path))
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from problem
        except KeyError as error:
            raise Problem(f"{path} has no {error}: run `{KINDS[kind].command}` anew") from error
        head = {"command": reduced.command, "under": reduced.under,
                "machine": reduced.machine or here(), "date": date}
        rows = ",\n".join(map(json.dumps, reduced.rows))
        text = f'{json.dumps(head)[:-1]}, "rows": [\n{rows}\n]}}\n'
        MEASURED.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
        print(f"took {path} of {date}")


def document() -> str:
    """The document that lab/measured gives."""
    files: dict[str, list[Kept]] = {kind: [] for kind in KINDS}
    for path in sorted(MEASURED.glob("*.json")):
        kind = kind_of(path.name)
        if kind is None:
            raise Problem(f"{path} is of no benchmark that is known")
        files[kind].append(Kept(**read(path)))
    made = Document()
    for kind, title, write in (("sql", "SQL on Parquet", main_job),
                               ("delivery", "SQL on Parquet: delivery out of order", deliveries),
                               ("postgres", "PostgreSQL", postgres_pairs),
                               ("cooperative", "PostgreSQL: sequential scans read together",
                                read_together),
                               ("beside", "PostgreSQL: work beside reporting", beside_reporting),
                               ("prediction", "Hit rates", hit_rates),
                               ("pool", "Hit path", hit_path)):
        if files[kind]:
            write(made, files[kind])
        else:
            made.missing(title, KINDS[kind].command)
    if any(files[kind] for kind in KINDS if kind != "sql"):
        does_not_help(made, files)
    return made.text()


def main() -> int:
    try:
        if sys.argv[1:] == ["--check"]:
            if not DOCUMENT.exists() or DOCUMENT.read_text() != document():
                raise Problem(f"{DOCUMENT} is not what {MEASURED} gives: run `make results`")
            return 0
        take_newer()
        DOCUMENT.write_text(document())
        print(f"wrote {DOCUMENT}")
        return 0
    except Problem as problem:
        print(f"results: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
