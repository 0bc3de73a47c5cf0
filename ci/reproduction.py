#!/usr/bin/env python3
"""Writes docs/reproduction.md and its pictures: every figure of the papers, beside ours.

Result files lie in target/reproduction and target/bench. What is newer there than in
lab/reproduction.json is measured again and kept there with its date; the document is made
of that file alone, so that everybody gets the same. `--check` fails where it differs.
"""

import json
import platform
import statistics
import sys
import textwrap
from datetime import datetime, timezone
from pathlib import Path

import figures_2009
import figures_2011
import figures_2021
import figures_2025
import figures_postgres
from figure import Chart, Figure, Given, Missing
from lines_svg import draw

DOCUMENT = Path("docs/reproduction.md")
PICTURES = Path("docs/pictures")
KEPT = Path("lab/reproduction.json")
RESULTS = [Path("target/reproduction"), Path("target/bench")]
COLUMNS = 100
FIGURES: list[Figure] = [*figures_2025.FIGURES, *figures_postgres.FIGURES, *figures_2011.FIGURES, *figures_2021.FIGURES, *figures_2009.FIGURES]

PAPERS = {
    "2025": "Khalaji, Vanderkooy, Guo, Daudjee: Sampling-based Predictive Database Buffer Management, PVLDB 18(13), 2025; "
            "in the simulator. Tables of 8,000 pages stand for 5.6 million.",
    "2025, PostgreSQL": "The same on PostgreSQL, with the extension: three seeds; medians, and how far these are apart.",
    "2011": "Świtakowski: Integrating Cooperative Scans in a column-oriented DBMS, 2011; in the simulator's closed loop, "
            "and on DataFusion.",
    "2021": "Wang, Jin: Adaptive Multi-Grained Buffer Management, Future Internet 13(12), 2021; in the simulator. "
            "FD-Buffer, which it names, is left out: the formulas for its device's costs are in no text at hand.",
    "2009": "Ding, Jiang, Zhang: BP-Wrapper, ICDE 2009; policies under threads of this machine. SEQ, which it names, is left out: "
            "it guesses from faults by address which pages a scan will read, and scans here say so.",
}


def name(figure: Figure) -> str:
    return f"{figure.source} {figure.number}"


def processor() -> str:
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")] if Path("/proc/cpuinfo").exists() else []
    return f"{platform.system().lower()} {platform.machine()}, {len(names)} x {names[0] if names else 'unknown'}"


def measure(figure: Figure, given: Given) -> dict | None:
    """What is kept of a figure; None where nobody has run its command, or it has no claims."""
    if not figure.claims:
        return None
    try:
        claims = [claim.measure(given) for claim in figure.claims]
        chart = figure.chart(given) if figure.chart else None
    except Missing:
        return None
    # A figure by seeds is kept as its median, and how far the seeds are apart.
    by_seed = [value if isinstance(value, list) else [value] for value in claims]
    kept = {"claims": [round(statistics.median(values), 4) for values in by_seed]}
    if any(len(values) > 1 for values in by_seed):
        kept["spread"] = [[round(min(values), 4), round(max(values), 4)] for values in by_seed]
    if chart:
        kept["chart"] = {"x": chart.x, "y": chart.y,
                         "lines": {line: [[x, round(y, 2)] for x, y in points] for line, points in chart.lines.items()}}
    return kept


def take_newer(kept: dict) -> dict:
    """`kept`, with what can be measured from result files in its place, where that differs."""
    given = Given(RESULTS)
    now = {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "machine": processor()}
    for figure in FIGURES:
        found = measure(figure, given)
        before = kept.get(name(figure), {})
        if found and found != {key: value for key, value in before.items() if key not in now}:
            kept[name(figure)] = found | now
    wanted = {name(figure) for figure in FIGURES}
    return {figure: kept[figure] for figure in sorted(kept) if figure in wanted}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def rows(figure: Figure, kept: dict | None) -> list[str]:
    """A row for each claim, the first with the figure's name."""
    title = f"**{figure.number}** {figure.title}"
    if not figure.claims:
        return [f"| {title} | {cell(figure.why)} | | | |"]
    lines = []
    for place, claim in enumerate(figure.claims):
        known = kept is not None and place < len(kept["claims"])
        ours = f"{kept['claims'][place]:.2f}" if known else "not run"
        if known and "spread" in kept:
            least, most = kept["spread"][place]
            ours += f" ({least:.2f} to {most:.2f})"
        verdict = claim.rule(kept["claims"][place]) if known else "-"
        lines.append(f"| {title if place == 0 else ''} | {cell(claim.says)} | {claim.paper} | {ours} | {verdict} |")
    return lines


def picture_of(figure: Figure) -> Path:
    number = "".join(letter if letter.isalnum() else "-" for letter in f"{figure.source}-{figure.number}".lower())
    return PICTURES / f"reproduction-{'-'.join(filter(None, number.split('-')))}.svg"


def under(figures: list[Figure], kept: dict) -> list[str]:
    """Commands and dates, then why figures differ."""
    commands: dict[tuple[str, str], list[str]] = {}
    for figure in figures:
        date = kept.get(name(figure), {"date": "not run"})["date"] if figure.claims else ""
        commands.setdefault((figure.command, date), []).append(figure.number)
    lines = [f"- {', '.join(numbers)}: `{command}`{date and ', '}{date}" for (command, date), numbers in commands.items()]
    whys = [f"- **{figure.number}**: {figure.why}" for figure in figures if figure.why and figure.claims]
    wrapped = [part for item in [*lines, *whys]
               for part in textwrap.wrap(item, COLUMNS, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)]
    return ["", *wrapped]


def document(kept: dict) -> tuple[str, dict[Path, str]]:
    """The text, and the pictures that it shows."""
    machines = sorted({run["machine"] for run in kept.values()})
    head = ("Written by `make reproduction` from result files; do not edit. Numbers are ratios unless they say otherwise. "
            "A verdict follows from the number alone: a saving holds if it is at least half of the paper's, or 1 % where the "
            f"paper gives none. Machine: {', '.join(machines)}. Tables and figures that are diagrams are left out.")
    lines, pictures = ["# The papers, and what we get", "", *textwrap.wrap(head, COLUMNS)], {}
    for source, about in PAPERS.items():
        figures = [figure for figure in FIGURES if figure.source == source]
        if not figures:
            continue
        lines += ["", f"## {source}", "", *textwrap.wrap(about, COLUMNS), "",
                  "| figure | claim | paper | ours | verdict |", "|---|---|---|---|---|"]
        for figure in figures:
            lines += rows(figure, kept.get(name(figure)))
        lines += under(figures, kept)
        for figure in figures:
            chart = kept.get(name(figure), {}).get("chart")
            if chart:
                path, title = picture_of(figure), f"{source}, {figure.number}: {figure.title}"
                pictures[path] = draw(Chart(chart["x"], chart["y"], {
                    line: [(x, y) for x, y in points] for line, points in chart["lines"].items()}), title)
                lines += ["", f"![{title}](pictures/{path.name})"]
    return "\n".join(lines) + "\n", pictures


def main() -> int:
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    checking = "--check" in sys.argv[1:]
    if not checking:
        kept = take_newer(kept)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    text, pictures = document(kept)
    written = {DOCUMENT: text} | pictures
    if not checking:
        for old in PICTURES.glob("reproduction-*.svg"):
            old.unlink()
        for path, content in written.items():
            path.write_text(content)
        print(f"wrote {DOCUMENT} and {len(pictures)} pictures")
        return 0
    differ = [str(path) for path, content in written.items() if not path.is_file() or path.read_text() != content]
    for path in differ:
        print(f"{path}: not what `make reproduction` writes from {KEPT}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
