"""Where pagecast loses, for docs/results.md: what `results.py` puts first."""

from delivery import GOALS, OUT_OF_ORDER, ratio
from document import Document
from measured import BESIDE, Kept, Row

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


def with_spread(of: list[float]) -> str:
    """A median, with least and most."""
    return "{:.2f} ({:.2f}–{:.2f})".format(*of)


def device(row: Row) -> str:
    return with_spread([row["device_bytes"], *row["device"]]) if row["device"] else f"{row['device_bytes']:.2f}"


# What is told of a cell of PostgreSQL's grid.
SCANS = ("device_bytes", "mean_latency_s", "max_latency_s")


def grid_of_deliveries(files: list[Kept]) -> dict[tuple, dict[float, list[Row]]]:
    """Rows by scale, busy loops and streams, and then by pool."""
    grid: dict[tuple, dict[float, list[Row]]] = {}
    for file in files:
        for row in file.rows:
            of = grid.setdefault((row["sf"], row["busy"], row["streams"]), {})
            of.setdefault(float(row["pool"].rstrip("%")), []).append(row)
    return grid


def lost_cells(files: dict[str, list[Kept]]) -> list[tuple[list[Kept], list[str]]]:
    """A row for each number of streams of a grid that has a cell beyond stock."""
    names = {"bytes_read": "bytes", "wall_s": "time", "max_latency_s": "slowest query",
             "device_bytes": "device bytes", "mean_latency_s": "mean latency"}
    lost: dict[str, list[str]] = {}

    def tell(where: str, pool: object, shares: dict[str, float | None]) -> None:
        beyond = [f"{names[figure]} {share:.2f}" for figure, share in shares.items() if share and share >= 1.005]
        if beyond:
            lost.setdefault(where, []).append(f"pool {pool}: {', '.join(beyond)}")

    for (sf, busy, streams), pools in sorted(grid_of_deliveries(files["delivery"]).items()):
        beside = f", {busy} busy loops beside" if busy else ""
        for pool, rows in sorted(pools.items()):
            tell(f"Parquet out of order, scale {sf:g}, {streams} streams{beside}", f"{pool:g} %",
                 {figure: ratio(rows, OUT_OF_ORDER, figure) for figure in GOALS})
    of_parquet = len(lost)
    for row in (row for file in files["grid"] for row in file.rows):
        tell(f"PostgreSQL {row['server']}, scans read together, {row['streams']} streams", f"{row['share']} %",
             {figure: row[figure] for figure in SCANS})
    kinds = ["delivery"] * of_parquet + ["grid"] * (len(lost) - of_parquet)
    return [(files[kind], [where, "; ".join(cells)]) for kind, (where, cells) in zip(kinds, lost.items())]


# Cells that are shown, and the points of hit rate from which on one counts.
MOST_BEHIND = 3
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
                     f"{row['variant']}", "processor time {:.3f} ({:.3f}–{:.3f}) of stock's".format(*row["cpu"])])
             for file in files["overhead"] for row in file.rows]
    rows += [([file], [f"{BESIDE[row['figure']]}, beside reporting on PostgreSQL",
                       f"{with_spread(row['ratio'])} of stock's"])
             for file in files["beside"] for row in file.rows if row["ratio"][0] > 1]
    rows += slower_hits(files["pool"])
    rows = lost_cells(files) + rows
    simulated = cells(files["prediction"])
    about = "Cells beyond stock; PostgreSQL where it cannot gain; caches with faster hits."
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
