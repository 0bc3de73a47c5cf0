"""The table of `make bench-clickbench`."""

from document import Document
from measured import MIB, Kept, Row

STATES = {"cold": "cold, s", "hot": "hot, s", "connections": "answers a second"}


def clickbench(document: Document, files: list[Kept]) -> None:
    """A line for each limit and peer."""
    groups: dict[tuple[int, str], tuple[list[Kept], dict[str, Row]]] = {}
    for file in files:
        for row in file.rows:
            of, states = groups.setdefault((row["memory"], row["peer"]), ([], {}))
            of.append(file)
            states[row["state"]] = row
    document.table(
        "ClickBench in little memory", "43 queries over a generated table, at the memory that 2, 4 and 8 GB are for 100 M rows: how many are "
        "answered, seconds of what both answer, and answers and errors of ten connections. Ours, theirs, and the ratio beside its goal. Who "
        "fails at the large ones answers more.",
        ["MiB", "peer", "answered", *STATES.values(), "errors"],
        [(of, [f"{memory // MIB}", peer, *_cells(states)]) for (memory, peer), (of, states) in sorted(groups.items(), key=lambda at: at[0])])


def _cells(states: dict[str, Row]) -> list[str]:
    def pair(state: str, of: str, show: str) -> str:
        figures = states.get(state, {}).get(of) or []
        return ", ".join("ended" if figure is None else format(figure, show) for figure in figures)

    def with_ratio(state: str) -> str:
        row = states.get(state, {})
        return f"{pair(state, 'figures', '.1f')}: {row['ratio']:.2f} ({row['goal']:g})" if row.get("ratio") is not None else ""

    return [pair("cold", "answered", "d"), *map(with_ratio, STATES), pair("connections", "errors", "d")]
