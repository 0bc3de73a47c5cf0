"""The table of `make bench-clickbench`."""

from document import Document
from measured import MIB, Kept, Row

# Queries that are named where a goal is missed.
NAMED = 3
STATES = {"cold": "cold, s", "hot": "hot, s", "connections": "at once, queries a second"}


def clickbench(document: Document, files: list[Kept]) -> None:
    """A line for each limit, state and peer, those first that miss their goal."""
    rows = [(file, row) for file in files for row in file.rows]
    document.table(
        "ClickBench in little memory", "43 queries over a generated table, at the memory that 2, 4 and 8 GB are for 100 M rows: seconds of "
        "what both answer, queries a second of ten connections, of which more is better, and ours over the peer's with the goal. "
        "*Answered* counts queries, and at once errors.",
        ["MiB", "state", "peer", "answered", "theirs", "ours", "theirs", "ratio", "slowest"],
        [([file], _cells(row)) for file, row in sorted(rows, key=lambda at: not at[1]["missed"])])


def _cells(row: Row) -> list[str]:
    ended = [str(count) for count in row["answered"]]
    if row["state"] == "connections":
        ended = ["ended" if count is None else f"{count} errors" for count in row["errors"]]
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f} "
    slowest = ", ".join(f"{query}: {ours / theirs:.1f}" for query, ours, theirs in row.get("slowest", [])[:NAMED] if row["missed"])
    return [f"{row['memory'] // MIB}", STATES[row["state"]], row["peer"], *ended, *(f"{figure:.1f}" for figure in row["figures"]),
            f"{ratio}({row['goal']:g}{', missed' if row['missed'] else ''})", slowest]
