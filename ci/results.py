#!/usr/bin/env python3
"""Writes docs/results.md and the README's table from what benchmarks measured: `make results`.

`measured.py` keeps in lab/measured what is newer in target/bench. Both are made of lab/measured
alone, so that everybody gets the same: `--check` (part of `make lint`) fails where one differs. A
benchmark that was not run has no row, and its command is named.

It is Python without dependencies: it only reshapes JSON, and `make lint` runs it without a build.
"""

import statistics
import sys
from pathlib import Path

from clickbench import clickbench
from delivery import GOALS, OUT_OF_ORDER, ratio
from document import DOCUMENT, Document, line
from losses import (COLUMNS, OPTIMUM, OURS, SCANS, best, cells, device, does_not_help, grid_of_deliveries,
                    with_spread)
from little_memory import memory
from measured import BESIDE, KINDS, MEASURED, Kept, Problem, Row, kind_of, read, take_newer
from recurring import by_the_clock, dashboards

README = Path("README.md")
# Between these lines the README has its tables.
MAIN_JOB, OTHER_ENGINES = "<!-- results: main job -->\n", "<!-- results: peers -->\n"
ENDS = "<!-- end of results -->\n"
MIB = 1 << 20


def mean(values: list[float]) -> str:
    """The mean, with its standard error where there are several values."""
    if len(values) < 2:
        return f"{values[0]:.0f}"
    return f"{statistics.mean(values):.0f}±{statistics.stdev(values) / len(values) ** 0.5:.0f}"


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
            mean(belady) if belady else "", seconds_and_busy([row for _, row in of]), share("wall_s")]))
    document.table(
        "SQL on Parquet", "TPC-H lineitem through a pool of 30 % of what the queries touch, on "
        "declared storage. Means over the runs, ± standard error; *stock* is DataFusion's own "
        "delivery with clock. *Belady* is the optimum on the same requests.",
        ["streams", "delivery", "policy", "runs", "MiB read", "of stock", "Belady", "s", "of stock"],
        rows)


def seconds_and_busy(rows: list[Row]) -> str:
    busy = processors_busy(rows)
    return mean([row["wall_s"] for row in rows]) + (f"/{busy}" if busy else "")


def processors_busy(rows: list[Row]) -> str:
    """The median part of the processors that worked, if it was measured."""
    busy = [row["processors_busy"] for row in rows if row.get("processors_busy") is not None]
    return f"{statistics.median(busy):.2f}" if busy else ""


def runs(of: list[tuple[Kept, Row]]) -> str:
    """How many runs, and of which seeds."""
    seeds = sorted({row["seed"] for _, row in of})
    return f"{len(of)}, seed {seeds[0]}" + (f" to {seeds[-1]}" if len(seeds) > 1 else "")


# From how much of stock's bytes on a cell of the heat map is so dark.
SHADES = ((0.0, "░"), (0.5, "▒"), (0.9, "▓"), (1.005, "█"))


def heat(shares: list[float]) -> str:
    """A cell: shares of stock's, the first with its shade, losses bold."""
    shade = [shade for least, shade in SHADES if shares[0] >= least][-1]
    return f"{shade} " + "/".join(f"**{share:.2f}**" if share >= 1.005 else f"{share:.2f}" for share in shares)


def deliveries(document: Document, files: list[Kept]) -> None:
    """A heat map: a row for each number of streams, a column for each pool."""
    grid = grid_of_deliveries(files)
    pools = sorted({pool for of in grid.values() for pool in of})

    def cell(rows: list[Row]) -> str:
        shares = [ratio(rows, OUT_OF_ORDER, figure) for figure in GOALS]
        busy = processors_busy([row for row in rows if row["delivery"] == OUT_OF_ORDER])
        return "" if None in shares else heat(shares) + (f", {busy}" if busy else "")

    rows = [(files, [f"{sf:g}", str(streams), str(busy), *(cell(of.get(pool, [])) for pool in pools)])
            for (sf, busy, streams), of in sorted(grid.items())]
    document.table(
        "SQL on Parquet: delivery out of order", "Lineitem, out of order with `pbm` over "
        "stock with clock: bytes read / time / slowest query, medians over seeds; processors "
        "busy. Bytes: ░ to half of stock's, ▒ to 0.90, ▓ to all, █ beyond. Losses are bold.",
        ["scale", "streams", "loops beside", *(f"pool {pool:g} %" for pool in pools)], rows)


def object_store(document: Document, files: list[Kept]) -> None:
    """Medians over repetitions. Of files, only what the store's rows are beside."""
    rows = []
    for file in files:
        of: dict[tuple, list[Row]] = {}
        for row in file.rows:
            of.setdefault((row["where"], row["delivery"], row["policy"]), []).append(row)

        def figure(key: tuple, name: str) -> float | None:
            figures = [row[name] for row in of[key] if row.get(name) is not None]
            return statistics.median(figures) if figures else None

        for where, delivery, policy in of:
            if where == "files" and delivery != "out-of-order":
                continue
            # Rows with a tier on flash are beside those of the store without one.
            key = (where, delivery, policy)
            stock = ("files" if where == "files" else "store", "none", "none")
            gaps, cost, wall = (figure(key, name) for name in ("gap_bytes", "cost_usd", "wall_s"))
            useful, requests = figure(key, "bytes_read") - (gaps or 0), figure(key, "requests")
            written = figure(key, "flash_written")
            rows.append(([file], [
                where, delivery, "" if policy == "none" else f"`{policy}`",
                f"{useful / MIB:.1f}", "" if gaps is None else f"{gaps / MIB:.1f}",
                "" if written is None else f"{written / MIB:.1f}",
                "" if requests is None else f"{requests:.0f}",
                "" if requests is None else f"{requests / figure(stock, 'requests'):.2f}",
                "" if cost is None else f"{1e6 * cost:.0f}",
                "" if wall is None else f"{wall / figure(stock, 'wall_s'):.2f}"]))
    document.table(
        "Object stores", "The main job over files, and over a declared object store. *Gaps* were "
        "read over between wanted ranges and thrown away; of DataFusion alone they are among the "
        "bytes. Requests are GETs, HEADs and LISTs; *of stock* is beside DataFusion alone. Rows with "
        "flash have a second tier, and `foyer` is DataFusion alone over that hybrid cache.",
        ["where", "delivery", "policy", "MiB read", "MiB of gaps", "MiB to flash", "requests", "of stock",
         "$ / million runs", "time, of stock"], rows)


def postgres_pairs(document: Document, files: list[Kept]) -> None:
    rows = [([file], [row["workload"], str(row["streams"]), row["mode"], str(row["pairs"]),
                    f"{row['blocks']:.2f}", device(row), f"{row['wall_s']:.2f}",
                    "identical" if row["same_results"] else "DIFFERENT", row["server"].split()[1]])
            for file in files for row in file.rows]
    document.table(
        "PostgreSQL", "A server with pg_pagecast over the same server without; medians of the "
        "pairs' ratios, device bytes with least and most.",
        ["workload", "streams", "mode", "pairs", "blocks", "device bytes", "wall", "results",
         "server"], rows)


def beside_reporting(document: Document, files: list[Kept]) -> None:
    rows = [([file], [BESIDE[row["figure"]], str(row["pairs"]),
                      with_spread(row["ratio"]), row["server"]])
            for file in files for row in file.rows]
    document.table("PostgreSQL: work beside reporting", "What else runs while sessions report "
                   "without a pause, over the same on a stock server; medians of pairs, with least "
                   "and most.", ["work", "pairs", "of stock", "server"], rows)


def read_together(document: Document, files: list[Kept]) -> None:
    """A line for each server, setting and opponent, with a column for each number of streams."""
    streams = sorted({row["streams"] for file in files for row in file.rows})
    groups: dict[tuple, dict[int, Row]] = {}
    for file in files:
        for row in file.rows:
            key = row["server"], row["parallel"], row["read_ahead"], row["kind"]
            # One file may have the pairs over stock, another those over the best stock.
            groups.setdefault(key, {}).setdefault(row["streams"], {}).update(row)
    rows = []
    for (server, parallel, read_ahead, kind), of in sorted(groups.items()):
        for peer, name in (("ratio", "stock"), ("ratio_best", "best stock")):
            told = [of_streams(of[count], peer) if count in of and peer in of[count] else ""
                    for count in streams]
            if any(told):
                rows.append((files, [server, parallel, f"{read_ahead >> 10} KiB", kind, name, *told]))
    document.table(
        "PostgreSQL: sequential scans read together", "Streams of three queries of different speed "
        "over a table of 3.3 times `shared_buffers`: device bytes and mean latency over those of a "
        "stock server; medians of pairs, with least, most and their number. *Best stock* gives the "
        "same memory to a smaller pool and a larger page cache.",
        ["server", "parallel", "read-ahead", "queries", "over",
         *(f"{count} streams" for count in streams)], rows)


def grid_of_scans(document: Document, files: list[Kept]) -> None:
    """A heat map: a row for each number of streams, a column for each pool."""
    grid: dict[tuple, dict[int, Row]] = {}
    for file in files:
        for row in file.rows:
            grid.setdefault((row["server"], row["streams"]), {})[row["share"]] = row
    shares = sorted({share for of in grid.values() for share in of})
    rows = [(files, [server, str(streams), *(heat([of[share][figure] for figure in SCANS])
                                             if share in of else "" for share in shares)])
            for (server, streams), of in sorted(grid.items())]
    document.table(
        "PostgreSQL: sequential scans read together, by streams and pools", "The same streams over "
        "`shared_buffers` of some per cent of the table: device bytes / mean latency / slowest query "
        "over those of a stock server, medians over seeds. Shades as above; losses are bold.",
        ["server", "streams", *(f"pool {share} %" for share in shares)], rows)


def of_streams(row: Row, peer: str) -> str:
    """Device bytes and mean latency of one number of streams."""
    told = [with_spread(row[peer][figure]) for figure in ("device_bytes", "mean_latency_s")]
    return f"{', '.join(told)}; {row[f'pairs_{peer}']}"


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


def peers(document: Document, files: list[Kept]) -> None:
    """A line for each device, number of streams and engine."""
    rows = []
    for file in files:
        ours = {(row["device"], row["streams"]): row for row in file.rows if row["engine"] == "pagecast"}
        for row in file.rows:
            of, own = ours.get((row["device"], row["streams"]), {}), row["engine"] == "pagecast"
            head = [row["device"].removesuffix(" MB/s").replace("no limit", "unlimited"), f"{row['streams']}×{row['queries']}", row["engine"]]
            if "failed" in row:
                rows.append(([file], [*head, row["failed"], *[""] * 6]))
                continue
            beside = "" if own or "wall_s" not in of else f"{of['wall_s'] / row['wall_s']:.2f}"
            # Where there are no control groups, these two are not known.
            read = "" if row["device_bytes"] is None else f"{row['device_bytes'] / MIB:.0f}"
            processor = "" if row["cpu_s"] is None else f"{row['cpu_s']:.1f}"
            busy = processors_busy([row])
            processor += f"/{busy}" if busy else ""
            rows.append(([file], [*head, read, f"{row['wall_s']:.1f}", beside, processor, f"{row['mean_latency_s']:.1f}",
                                  f"{row['max_latency_s']:.1f}", f"{row['peak_rss_bytes'] / MIB:.0f}"]))
    document.table(
        "SQL on Parquet, beside other engines", "Six reports over TPC-H's lineitem and orders, cold "
        "caches, a limit for memory with cached files; medians. Rows are equal. *Ours*: pagecast's "
        "time over the engine's.",
        ["MB/s", "streams", "engine", "MiB read", "s", "ours", "processor s/busy", "mean answer", "worst",
         "peak MiB"], rows)


WORK = {("lookups_real", "1"): "lookups, 1 thread", ("lookups_real", "8"): "lookups, 8 threads",
        ("lookups_declared", "1"): "lookups, declared device, 1 thread",
        ("lookups_declared", "8"): "lookups, declared device, 8 threads",
        ("ycsb", "A"): "A: half updates", ("ycsb", "B"): "B: 5 % updates", ("ycsb", "C"): "C: reads",
        ("ycsb", "D"): "D: reads of the latest, 5 % inserts",
        ("ycsb", "E"): "E: scans of up to 100, 5 % inserts", ("ycsb", "F"): "F: half read, then updated"}


def stores(document: Document, files: list[Kept]) -> None:
    """A line for each kind of work, with a column for each store."""
    names = sorted({row["engine"] for file in files for row in file.rows},
                   key=lambda name: (not name.startswith("pagecast"), name))
    rows: list[tuple[list[Kept], list[str]]] = []
    for file in files:
        of = {(row["part"], row["work"], row["engine"]): row for row in file.rows}
        for work, told in WORK.items():
            cells = [of.get((*work, name)) for name in names]
            if any(cells):
                rows.append(([file], [told, *map(requests, cells)]))
    document.table(
        "Key-value stores", "1 Mi records of 128 bytes, 16 MiB of memory, keys by Zipf's law with "
        "0.99, hot ones scattered. Reads an operation, and KiB written where it writes; thousand "
        "operations a second, on a machine that does other work, too. Medians of rounds in which the "
        "stores take turns. What they read is not in the operating system's cache.",
        ["work", *names], rows)


def requests(row: Row | None) -> str:
    if row is None:
        return ""
    written = f", {row['bytes_written'] / 1024:.2f} KiB" if row["bytes_written"] >= 1 else ""
    return f"{row['reads']:.3f}{written}; {row['per_second'] / 1000:.1f}"


PEERS = ("best pages", "same pages", "AMG", "best share")


def tuple_buffers(document: Document, files: list[Kept]) -> None:
    """A line for each cell, with a column for each kind of peer."""
    def beside(goals: dict, peer: str) -> str:
        ratio, goal = goals.get(peer, (None, None))
        return "" if ratio is None else f"{ratio:.3f} ({goal:.2f}{'' if ratio <= goal else ', missed'})"

    rows = [([file], [f"`{row['workload']}`", f"{row['ours']:.4f}", f"{row['share']:.0%}",
                      *(beside(row["goals"], peer) for peer in PEERS)])
            for file in files for row in file.rows]
    document.table(
        "Buffers of tuples", "Simulated at equal bytes, 12.5 % of what is asked for: misses a "
        "request of `pbm` with the learned share, or with writes its requests to the device, and "
        "that over others', with the goal. Medians over seeds. *Best pages* is the best of five "
        "policies without tuples, *same pages* `pbm` without, *best share* the best fixed one.",
        ["workload", "ours", "mean share", *(f"over {peer}" for peer in PEERS)], rows)


def measured() -> dict[str, list[Kept]]:
    """The files of lab/measured, by kind."""
    files: dict[str, list[Kept]] = {kind: [] for kind in KINDS}
    for path in sorted(MEASURED.glob("*.json")):
        kind = kind_of(path.name)
        if kind is None:
            raise Problem(f"{path} is of no benchmark that is known")
        files[kind].append(Kept(**read(path)))
    return files


STREAMS_OF_README = 8


def readme(files: dict[str, list[Kept]]) -> str:
    """The README with its two tables anew."""
    text = put_between(README.read_text(), MAIN_JOB, main_job_short(files["sql"]))
    return put_between(text, OTHER_ENGINES, peers_short(files["peers"]))


def put_between(text: str, begins: str, lines: list[str]) -> str:
    before, mark, rest = text.partition(begins)
    _, end, after = rest.partition(ENDS)
    if not mark or not end:
        raise Problem(f"{README} has no lines `{begins.strip()}` and `{ENDS.strip()}`")
    return before + mark + "\n".join(lines) + "\n" + end + after


def main_job_short(files: list[Kept]) -> list[str]:
    """Means, as in the document."""
    read: dict[tuple, list[float]] = {}
    for row in (row for file in files for row in file.rows if row["streams"] == STREAMS_OF_README):
        read.setdefault((row["delivery"], row["policy"]), []).append(row["bytes_read"] / MIB)
    means = {key: statistics.mean(of) for key, of in read.items()}
    stock = means.get(("stock", "clock"))
    lines = [line(["delivery", "policy", "read", "of stock"]), line(["---"] * 4)]
    lines += [line(["DataFusion without a pool" if delivery == "none" else delivery,
                    "" if delivery == "none" else f"`{policy}`", f"{of:.0f}", f"{of / stock:.2f}"])
              for (delivery, policy), of in means.items() if stock]
    return lines


def peers_short(files: list[Kept]) -> list[str]:
    """Seconds of each engine on each device, of the run over most."""
    widest = max(files, key=lambda file: len(file.rows), default=Kept("", "", "", "", []))
    rows = [row for row in widest.rows if row["streams"] == STREAMS_OF_README]
    devices = list(dict.fromkeys(row["device"] for row in rows))
    told = {(row["engine"], row["device"]): row.get("failed") or f"{row['wall_s']:.1f}" for row in rows}
    return [line(["engine", *devices]), line(["---"] * (1 + len(devices))),
            *(line([engine, *(told.get((engine, device), "") for device in devices)])
              for engine in sorted({row["engine"] for row in rows}))]


def document(files: dict[str, list[Kept]]) -> str:
    """The document that lab/measured gives."""
    made = Document()
    if any(files[kind] for kind in KINDS if kind != "sql"):
        does_not_help(made, files)
    for kind, title, write in (("sql", "SQL on Parquet", main_job),
                               ("delivery", "SQL on Parquet: delivery out of order", deliveries),
                               ("peers", "SQL on Parquet, beside other engines", peers),
                               ("memory", "Statements in less memory than they want", memory),
                               ("clickbench", "ClickBench in little memory", clickbench),
                               ("dashboards", "SQL on Parquet: reports that come back", dashboards),
                               ("objects", "Object stores", object_store),
                               ("postgres", "PostgreSQL", postgres_pairs),
                               ("cooperative", "PostgreSQL: sequential scans read together",
                                read_together),
                               ("grid", "PostgreSQL: sequential scans read together, by streams and pools",
                                grid_of_scans),
                               ("beside", "PostgreSQL: work beside reporting", beside_reporting),
                               ("reports", "PostgreSQL: reports by the clock", by_the_clock),
                               ("prediction", "Hit rates", hit_rates),
                               ("pool", "Hit path", hit_path),
                               ("store", "Key-value stores", stores),
                               ("tuples", "Buffers of tuples", tuple_buffers)):
        if files[kind]:
            write(made, files[kind])
        else:
            made.missing(title, KINDS[kind].command)
    return made.text()


def main() -> int:
    try:
        checks = sys.argv[1:] == ["--check"]
        if not checks:
            take_newer()
        files = measured()
        for path, text in ((DOCUMENT, document(files)), (README, readme(files))):
            if path.exists() and path.read_text() == text:
                continue
            if checks:
                raise Problem(f"{path} is not what {MEASURED} gives: run `make results`")
            path.write_text(text)
            print(f"wrote {path}")
        return 0
    except Problem as problem:
        print(f"results: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
