"""From runs to what people read: pairs of stock and ours, a table on the terminal, and a page."""

import statistics

from bench.page import Page

_FIGURES = ("blocks", "hits", "device_bytes", "wall_s", "cpu_s")


def settings(values: dict) -> str:
    """Settings that are not the server's defaults, as people read them."""
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "as the server's"


def pairs(runs: list[dict]) -> list[dict]:
    """Each of our runs beside the stock run of the same workload, streams and seed."""
    stock = {_key(run): run for run in runs if run["variant"] == "stock"}
    ours = [run for run in runs if run["variant"] != "stock" and _key(run) in stock]
    return [{**dict(zip(("workload", "streams", "seed"), _key(run))), "mode": run["variant"],
             "stock": _figures(stock[_key(run)]), "ours": _figures(run), "same_results": results(run) == results(stock[_key(run)])}
            for run in ours]


def _key(run: dict) -> tuple:
    return run["workload"], run["streams"], run["seed"]


def _figures(run: dict) -> dict:
    return {name: run[name] for name in _FIGURES}


def results(run: dict) -> list:
    """The digest of every answer, by stream."""
    return [(query["stream"], query["name"], query["result"]) for query in run["queries"]]


def summary(found: list[dict]) -> list[dict]:
    """For each workload, number of streams and mode the medians over the seeds, and the medians of
    the pairs' ratios."""
    groups: dict[tuple, list[dict]] = {}
    for pair in found:
        groups.setdefault((pair["workload"], pair["streams"], pair["mode"]), []).append(pair)
    lines = []
    for (workload, streams, mode), group in groups.items():
        line = {"workload": workload, "streams": streams, "mode": mode, "pairs": len(group),
                "same_results": all(pair["same_results"] for pair in group)}
        for side in ("stock", "ours"):
            line[side] = {name: statistics.median(pair[side][name] for pair in group) for name in _FIGURES}
        line["ratio"] = {name: statistics.median(pair["ours"][name] / pair["stock"][name] if pair["stock"][name] else 1.0 for pair in group)
                         for name in _FIGURES}
        lines.append(line)
    return lines


_HEADS = ["workload", "mode", "streams", "pairs", "blocks of 8 KiB", "ratio", "device", "ratio", "wall", "ratio", "CPU", "ratio", "results"]


def cells(line: dict) -> list[str]:
    """A line of the summary as text: stock's median, ours, and the median of the ratios."""
    shown = {"blocks": (1000, ".0f", " thousand"), "device_bytes": (1 << 30, ".2f", " GiB"), "wall_s": (1, ".1f", " s"), "cpu_s": (1, ".1f", " s")}
    figures = []
    for name, (unit, form, suffix) in shown.items():
        figures += [f"{line['stock'][name] / unit:{form}} \u2192 {line['ours'][name] / unit:{form}}{suffix}", f"{line['ratio'][name]:.2f}"]
    return [line["workload"], line["mode"], str(line["streams"]), str(line["pairs"]), *figures, "identical" if line["same_results"] else "DIFFERENT"]


def table(lines: list[dict]) -> str:
    """The summary for a terminal."""
    rows = [_HEADS, *map(cells, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    return "\n".join("  ".join(cell.ljust(width) if column in (0, 1) else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def page(document: dict) -> str:
    """The report as one HTML page."""
    result = Page("PostgreSQL with and without pg_pagecast",
                  "The same queries on the same data: a stock server, and the same server with predictive eviction. Less is better everywhere.")
    for name, value in document["config"].items():
        result.fact(name.replace("_", " "), value)
    lines = document["summary"]
    result.chart("Bytes read from the device", "Median over the seeds, by workload and number of streams, that is of sessions at once; a cold cache at the start.", 340, _bars(lines, "device_bytes", "=bytes"))
    result.chart("Blocks read into shared buffers", "Blocks of 8 KiB, counted by the server; the kernel's cache answers a part of them.", 340, _bars(lines, "blocks", "=count"))
    result.chart("Time until the last stream ended", "Median over the seeds.", 340, _bars(lines, "wall_s", "=seconds"))
    result.table("Medians, stock to ours", _HEADS, 2, [cells(line) for line in lines])
    rows = [[pair["workload"], pair["mode"], pair["streams"], pair["seed"],
             *(f"{pair['ours'][name] / pair['stock'][name]:.3f}" if pair["stock"][name] else "-" for name in ("blocks", "device_bytes", "wall_s", "cpu_s")),
             "identical" if pair["same_results"] else "DIFFERENT"] for pair in document["pairs"]]
    result.table("Every pair, ours over stock", ["workload", "mode", "streams", "seed", "blocks", "device bytes", "wall", "CPU", "results"], 2, rows)
    return str(result)


def _bars(lines: list[dict], figure: str, formatter: str) -> dict:
    places = list(dict.fromkeys((line["workload"], line["streams"]) for line in lines))
    series: dict[str, dict] = {}
    for line in lines:
        place = line["workload"], line["streams"]
        series.setdefault("stock", {})[place] = line["stock"][figure]
        series.setdefault(line["mode"], {})[place] = line["ours"][figure]
    return {
        "tooltip": {"trigger": "axis", "valueFormatter": formatter}, "legend": {"top": 0},
        "grid": {"left": 70, "right": 20, "top": 40, "bottom": 50},
        "xAxis": {"type": "category", "data": [f"{workload}, {streams}" for workload, streams in places]},
        "yAxis": {"type": "value", "axisLabel": {"formatter": formatter}},
        "series": [{"name": name, "type": "bar", "data": [values.get(place) for place in places]} for name, values in series.items()],
    }
