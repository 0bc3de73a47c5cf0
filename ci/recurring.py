"""Reports that come back, for docs/results.md: what `results.py` says of forecasts."""

import statistics

from document import Document
from measured import Kept, Row

MIB = 1 << 20


def dashboards(document: Document, files: list[Kept]) -> None:
    """A line for each share of queries that do not come back, pool and policy."""
    rows = []
    several = len({row["pool"] for file in files for row in file.rows}) > 1
    for file in files:
        groups: dict[tuple, list[Row]] = {}
        for row in file.rows:
            groups.setdefault((row["one_off"], row["pool"], row["policy"], row["forecast"]), []).append(row)
        for (one_off, pool, policy, forecast), of in groups.items():
            name = f"`{policy}`" + (", forecast" if forecast else "")
            middle = lambda figure: statistics.median(row[figure] for row in of)
            rows.append(([file], [f"{one_off * 100:g}%", *[pool] * several, name,
                                  f"{middle('bytes_read') / MIB:.0f}", f"{middle('report_median_s'):.2f}",
                                  f"{middle('report_max_s'):.2f}"]))
    document.table(
        "SQL on Parquet: reports that come back", "Twelve reports every 8 to 32 s, beside queries that "
        "run once. Reports' first two runs do not count. Storage is declared, or a disk.",
        ["once", *["pool"] * several, "policy", "MiB read", "report, s", "worst"], rows)


def by_the_clock(document: Document, files: list[Kept]) -> None:
    """A line for each server: medians of its runs."""
    names = {"stock": "stock", "without": "pg_pagecast without forecast", "forecast": "pg_pagecast"}
    figures = (("report_s", ".2f"), ("report_max_s", ".2f"), ("report_blocks", ".0f"), ("pgbench_reads", ".0f"),
               ("p50_ms", ".2f"), ("p99_ms", ".1f"), ("device_mib", ".0f"))
    rows = []
    for file in files:
        for variant in dict.fromkeys(row["variant"] for row in file.rows):
            of = [row for row in file.rows if row["variant"] == variant]
            rows.append(([file], [f"{of[0]['every']:g} s", names[variant],
                                  *(format(statistics.median(row[name] for row in of), form) for name, form in figures)]))
    document.table(
        "PostgreSQL: reports by the clock", "Four reports, each of a tenth of the pool, beside pgbench's "
        "point queries. A report's first three runs do not count.",
        ["every", "server", "report, s", "worst", "its reads", "pgbench's", "p50, ms", "p99", "MiB"], rows)
