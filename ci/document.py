"""The text of docs/results.md: its tables, with where each figure is from."""

import textwrap
from pathlib import Path

from measured import Kept, Problem

DOCUMENT = Path("docs/results.md")
MOST_WORDS = 3570
COLUMNS_OF_TEXT = 100


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
        words = sum(word.strip("|-") != "" for line in lines for word in line.split())
        if words > MOST_WORDS:
            raise Problem(f"{DOCUMENT} would have {words} words, and may have {MOST_WORDS}")
        return "\n".join(lines) + "\n"


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
