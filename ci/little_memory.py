"""The tables of `make bench-memory`."""

import statistics

from document import Document
from measured import MIB, Kept, Row

# Statements of which the second table shows the times.
SHOWN = 6


def memory(document: Document, files: list[Kept]) -> None:
    """How many statements end, and those in which pagecast loses most."""
    cells: dict[tuple, dict[str, Row]] = {}
    for row in (row for file in files for row in file.rows):
        key = row["memory"] // MIB, row["data_bytes"] // row["memory"], row["at_once"], row["statement"]
        cells.setdefault(key, {})[asked(row)] = row
    engines = sorted({engine for of in cells.values() for engine in of}, key=lambda engine: (engine != "pagecast", engine))
    ends = lambda of, engine: "failed" not in of.get(engine, {"failed": ""})
    groups: dict[tuple, list[dict[str, Row]]] = {}
    for key, of in cells.items():
        groups.setdefault(key[:3], []).append(of)

    def beside(of: list[dict[str, Row]], engine: str) -> str:
        both = [one["pagecast"]["wall_s"] / one[engine]["wall_s"] for one in of if ends(one, "pagecast") and ends(one, engine)]
        return f", {statistics.median(both):.2f}" if both and engine != "pagecast" else ""

    def over(of: list[dict[str, Row]], engine: str) -> str:
        most = [one[engine]["peak_rss_bytes"] - one[engine]["idle_rss_bytes"] - one[engine]["memory"] for one in of if ends(one, engine)]
        return f", {max(most) // MIB:+} MiB" if most else ""

    rows = [(files, [f"{limit}", f"{times}", f"{count}", *(f"{sum(ends(one, engine) for one in of)}{beside(of, engine)}{over(of, engine)}"
                                                            for engine in engines)])
            for (limit, times, count), of in groups.items()]
    document.table(
        "Statements in less memory than they want", f"Of {len({key[3] for key in cells})} statements over Parquet files of so "
        "many times the limit, cold: right answers, pagecast's time over the engine's (median of those that both "
        "end), and most beyond what a process had at first and its limit.",
        ["MiB", "files", "at once", *engines], rows)

    def loss(of: dict[str, Row]) -> float:
        if not ends(of, "duckdb"):
            return 0
        return of["pagecast"]["wall_s"] / of["duckdb"]["wall_s"] if ends(of, "pagecast") else float("inf")

    told = lambda row: "error" if "failed" in row else f"{row['wall_s']:.1f}"
    worst = sorted((at for at in cells.items() if loss(at[1]) > 1.2), key=lambda at: -loss(at[1]))[:SHOWN]
    if worst:
        document.table(
            "Statements in less memory: where pagecast loses", "Seconds: what DuckDB alone ends, and the worst beyond 1.2 of its time.",
            ["MiB", "files", "at once", "statement", *engines],
            [(files, [*map(str, key), *(told(of[engine]) if engine in of else "" for engine in engines)]) for key, of in worst])


def asked(row: Row) -> str:
    """The engine, and the door by which it was asked where that is not files."""
    return row["engine"] if row["door"] == "files" else f"{row['engine']}, {row['door']}"
