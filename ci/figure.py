"""A figure of a paper beside ours: what it claims, what was measured, and how far that agrees.

A claim is a number that a paper's text states, or an order that its figure shows. Its verdict
follows from the measured number alone, by one of the rules below.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HOLDS, WEAKER, NOT = "holds", "holds weaker", "does not hold"

Rule = Callable[[float], str]


def below(paper: float | None = None) -> Rule:
    """A ratio that is below 1 in the paper, at `paper` if its text says so. Half of what the paper
    saves is enough to hold; 1 % is, where it says no number."""
    needed = 0.99 if paper is None else 1 - (1 - paper) / 2

    def rule(measured: float) -> str:
        return HOLDS if measured <= needed else WEAKER if measured < 1 else NOT

    return rule


def above() -> Rule:
    """A ratio that is above 1 in the paper."""
    return lambda measured: HOLDS if measured >= 1.01 else NOT


def equal(within: float) -> Rule:
    """A ratio that is 1 in the paper."""
    def rule(measured: float) -> str:
        off = abs(measured - 1)
        return HOLDS if off <= within else WEAKER if off <= 2 * within else NOT

    return rule


def between(least: float, most: float) -> Rule:
    """A number that the paper has in this range."""
    def rule(measured: float) -> str:
        return HOLDS if least <= measured <= most else NOT

    return rule


class Missing(Exception):
    """A result file that nobody has made."""


class Given:
    """The result files, read once."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        self._read: dict[str, dict] = {}

    def json(self, name: str) -> dict:
        if name not in self._read:
            paths = [folder / f"{name}.json" for folder in self.folders]
            path = next((path for path in paths if path.is_file()), None)
            if path is None:
                raise Missing(name)
            self._read[name] = json.loads(path.read_text())
        return self._read[name]

    def missing(self, what: str) -> float:
        """For a figure that a file lacks."""
        raise Missing(what)

    def misses(self, name: str, policy: str, size: int = 0) -> float:
        """Misses of a policy as a part of the requests; of several sizes the one of this number,
        from 0, the smallest."""
        rows = [row for row in self.json(name)["rows"] if row["policy"] == policy]
        if not rows:
            raise Missing(f"{policy} in {name}")
        rows.sort(key=lambda row: row["size_pages"])
        return rows[size]["misses"] / rows[size]["requests"]

    def closed(self, name: str, figure: str, policy: str, delivery: str,
               size: int = 0, workload: int = 0) -> float:
        """The mean of a figure of the closed loop: of the size and the workload of these numbers,
        from 0, smallest and first."""
        rows = self.json(name)["rows"]
        workloads = list(dict.fromkeys(row.get("workload_params", "") for row in rows))
        rows = [row for row in rows if row.get("workload_params", "") == workloads[workload]
                and row["policy"] == policy and row["delivery"] == delivery]
        if not rows:
            raise Missing(f"{policy} {delivery} in {name}")
        rows.sort(key=lambda row: row["size_pages"])
        return rows[size][figure]["mean"]


# A number, or one for each seed.
Measure = Callable[[Given], float | list[float]]


@dataclass
class Claim:
    """What a paper says, its number as text, and how ours is measured and judged."""
    says: str
    paper: str
    measure: Measure
    rule: Rule


@dataclass
class Chart:
    """Lines on the axes of the paper."""
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]


@dataclass
class Figure:
    source: str
    number: str
    title: str
    command: str
    claims: list[Claim] = field(default_factory=list)
    chart: Callable[[Given], Chart] | None = None
    # Why ours differs, or why there is none of ours.
    why: str = ""
