"""What PostgreSQL's suites may answer otherwise where scans cooperate: the order of rows that their
query does not order.

Two outputs of psql or of the isolation tester are compared line by line. Only the rows of a result
may have another order, and only below a statement that is listed here with the reason. Nothing is
normalized: a row more, less or other than stock's is a difference, and so is a column's width.
"""

import re
from collections import Counter
from dataclasses import dataclass

# By suite and test: the last line of a statement as the suite prints it, and why its rows have no
# order of their own.
UNORDERED: dict[str, dict[str, dict[str, str]]] = {
    "regress": {
        "event_trigger": {"SELECT * FROM dropped_objects WHERE object_type = 'schema';": "the query orders nothing; the table has several chunks"},
    },
    "isolation": {},
}

_RULE = re.compile(r"-+(\+-+)*$")
_FOOTER = re.compile(r"\((\d+) rows?\)$")


@dataclass(frozen=True)
class Result:
    """Rows between the line under their header and the count below them."""

    statement: str
    rows: tuple[str, ...]


def differences(ours: str, stock: str, listed: dict[str, str]) -> tuple[list[str], list[str]]:
    """What of two outputs differs: the statements whose rows have another order as is `listed`, and
    descriptions of all else."""
    mine, theirs = _parts(ours), _parts(stock)
    allowed, found = [], []
    for number, (part, other) in enumerate(zip(mine, theirs)):
        if part == other:
            continue
        if not _same_rows(part, other):
            # Behind this nothing need be in its place any more.
            return allowed, [*found, f"part {number}: {_shown(part)}\nstock: {_shown(other)}"]
        if part.statement in listed:
            allowed.append(part.statement)
        else:
            found.append(f"rows in another order, which is not listed, below: {part.statement}")
    if len(mine) != len(theirs):
        found.append(f"{len(mine)} lines and results, {len(theirs)} of stock")
    return allowed, found


def _parts(output: str) -> list[str | Result]:
    """Lines, and between them the rows of results."""
    lines = output.splitlines()
    parts: list[str | Result] = []
    at = 0
    while at < len(lines):
        parts.append(lines[at])
        at += 1
        rows = _rows(lines, at)
        if rows is not None:
            parts.append(Result(lines[at - 3], tuple(rows)))
            at += sum(row.count("\n") + 1 for row in rows)
    return parts


def _rows(lines: list[str], first: int) -> list[str] | None:
    """The rows that begin at a line, if a statement, a header and a rule as long as it are above
    and their number is below. A value with line breaks has several lines, each marked at the right
    end of its column."""
    if first < 3 or not _RULE.match(lines[first - 1]) or len(lines[first - 1]) != len(lines[first - 2]):
        return None
    # psql begins a header by a space; the isolation tester does not.
    if not lines[first - 2].startswith(" ") and not lines[first - 3].endswith((";", "<... completed>")):
        return None
    ends = _ends(lines[first - 1])
    rows: list[str] = []
    goes_on = False
    for line in lines[first:]:
        if footer := _FOOTER.match(line):
            return rows if int(footer.group(1)) == len(rows) else None
        if not line or any(line[end:end + 1] != "|" for end in ends[:-1]):
            return None
        if goes_on:
            rows[-1] += "\n" + line
        else:
            rows.append(line)
        goes_on = any(line[end - 1:end] == "+" for end in ends)
    return None


def _ends(rule: str) -> list[int]:
    """Where columns end, by the rule under their header."""
    return [at for at, sign in enumerate(rule) if sign == "+"] + [len(rule)]


def _same_rows(part: str | Result, other: str | Result) -> bool:
    return isinstance(part, Result) and isinstance(other, Result) and part.statement == other.statement and Counter(part.rows) == Counter(other.rows)


def _shown(part: str | Result) -> str:
    return part if isinstance(part, str) else "\n".join([f"below: {part.statement}", *part.rows])
