"""From the runs of the cooperative benchmark to what people read: pairs, medians beside the goals,
and a page."""

import os
import statistics

from bench.page import Page
from bench.report import results

_FIGURES = ("blocks", "hits", "device_bytes", "wall_s", "cpu_s", "mean_latency_s", "max_latency_s")
_CELL = ("kind", "server", "parallel", "read_ahead", "share", "streams")

# Ours over stock at most, by streams: device bytes and mean latency (issue 17), for 1 MiB of
# read-ahead and queries of the whole table. The slowest query of any mix: 1.1.
_OVER_STOCK = {1: (1.03, 1.03), 4: (0.75, 0.75), 8: (0.70, 0.60), 16: (0.60, 0.50)}
_OVER_BEST = {8: (1.05, 0.85), 16: (0.75, 0.85)}
_SLOWEST = 1.1
# The pool to which these goals belong, in per cent of the table. In others: no more than stock.
_USUAL_SHARE = 30


def pairs(runs: list[dict], ours: str) -> list[dict]:
    """Each run of ours beside the stock run of the same cell and seed, and beside the best of the
    stock servers with the same memory in all."""
    by_seed: dict[tuple, list[dict]] = {}
    for run in runs:
        by_seed.setdefault((*(run[name] for name in _CELL), run["seed"]), []).append(run)
    best = _best_split(runs)
    found = []
    for key, group in by_seed.items():
        own = next((run for run in group if run["variant"] == ours), None)
        stock = {run["pool"]: run for run in group if run["variant"] == "stock"}
        if own is None or own["pool"] not in stock:
            continue
        pair = {"workload": "cooperative", **dict(zip(_CELL, key)), "seed": key[-1], "mode": ours, "stock": _figures(stock[own["pool"]]), "ours": _figures(own)}
        split = best.get(key[:-1])
        if split in stock and len(stock) > 1:
            pair["best_stock"] = {"shared_buffers": split, **_figures(stock[split])}
        compared = list(stock.values())
        pair["same_results"] = all(results(run) == results(own) for run in compared)
        found.append(pair)
    return found


def _best_split(runs: list[dict]) -> dict[tuple, int]:
    """By cell the size of a stock server's pool with the fewest device bytes in the median."""
    read: dict[tuple, dict[int, list[int]]] = {}
    for run in runs:
        if run["variant"] == "stock":
            read.setdefault(tuple(run[name] for name in _CELL), {}).setdefault(run["pool"], []).append(run["device_bytes"])
    return {cell: min(pools, key=lambda pool: statistics.median(pools[pool])) for cell, pools in read.items()}


def _figures(run: dict) -> dict:
    return {name: run[name] for name in _FIGURES}


def summary(found: list[dict]) -> list[dict]:
    """For each cell the medians of the pairs' ratios, least and most, and what the goal is."""
    groups: dict[tuple, list[dict]] = {}
    for pair in found:
        groups.setdefault(tuple(pair[name] for name in (*_CELL, "mode")), []).append(pair)
    lines = []
    for key in sorted(groups):
        group = groups[key]
        line = {**dict(zip((*_CELL, "mode"), key)), "pairs": len(group), "same_results": all(pair["same_results"] for pair in group)}
        for side in ("stock", "ours"):
            line[side] = {name: statistics.median(pair[side][name] for pair in group) for name in _FIGURES}
        line["ratio"] = {name: _spread([_over(pair, "stock", name) for pair in group]) for name in _FIGURES}
        beside = [pair for pair in group if "best_stock" in pair]
        if beside:
            line["pairs_best"] = len(beside)
            line["best_shared_buffers"] = beside[0]["best_stock"]["shared_buffers"]
            line["ratio_best"] = {name: _spread([_over(pair, "best_stock", name) for pair in beside]) for name in _FIGURES}
        line["goal"] = _goal(line)
        lines.append(line)
    return lines


def _over(pair: dict, peer: str, name: str) -> float:
    return pair["ours"][name] / pair[peer][name] if pair[peer][name] else 1.0


def _spread(ratios: list[float]) -> dict:
    return {"median": round(statistics.median(ratios), 3), "least": round(min(ratios), 3), "most": round(max(ratios), 3)}


def _goal(line: dict) -> dict:
    """What is asked of a cell: most that a median may be, by figure; empty where nothing is."""
    if line["kind"] != "whole" or line["read_ahead"] != 1 << 20:
        return {}
    if line["share"] != _USUAL_SHARE:
        return {"device_bytes": 1.0, "mean_latency_s": 1.0, "max_latency_s": _SLOWEST}
    goal = {"max_latency_s": _SLOWEST}
    if line["streams"] in _OVER_STOCK:
        goal["device_bytes"], goal["mean_latency_s"] = _OVER_STOCK[line["streams"]]
    if line["streams"] in _OVER_BEST:
        goal["best_device_bytes"], goal["best_mean_latency_s"] = _OVER_BEST[line["streams"]]
    return goal


_HEADS = ["queries", "server", "parallel", "read-ahead", "pool", "streams", "pairs", "device", "device bytes", "mean latency", "slowest query", "wall", "CPU",
          "best stock", "bytes / best", "latency / best", "results"]
_TEXTS = 4


def cells(line: dict) -> list[str]:
    """A line of the summary as text: medians of the ratios with least and most, and beside them
    `≤` or `>` and the goal."""
    def shown(figure: str, best: bool = False) -> str:
        ratios = line.get("ratio_best" if best else "ratio")
        if ratios is None:
            return "-"
        ratio, goal = ratios[figure], line["goal"].get(f"best_{figure}" if best else figure)
        text = f"{ratio['median']:.2f} ({ratio['least']:.2f}-{ratio['most']:.2f})"
        if goal is None:
            return text
        return f"{text} > {goal:.2f}" if ratio["median"] > goal else f"{text} \u2264 {goal:.2f}"

    device = f"{line['stock']['device_bytes'] / 1e6:.0f} \u2192 {line['ours']['device_bytes'] / 1e6:.0f} MB"
    best = f"{line['best_shared_buffers'] >> 20} MiB, {line['pairs_best']} pairs" if "best_shared_buffers" in line else "-"
    return [line["kind"], line["server"], line["parallel"], _size(line["read_ahead"]), f"{line['share']} %", str(line["streams"]), str(line["pairs"]), device,
            shown("device_bytes"), shown("mean_latency_s"), shown("max_latency_s"), shown("wall_s"), shown("cpu_s"),
            best, shown("device_bytes", True), shown("mean_latency_s", True), "identical" if line["same_results"] else "DIFFERENT"]


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def table(lines: list[dict]) -> str:
    """The summary for a terminal."""
    rows = [_HEADS, *map(cells, lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    return "\n".join("  ".join(cell.ljust(width) if column < _TEXTS else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def line(run: dict) -> str:
    """One run for the terminal."""
    pool = run["pool"] >> 20
    return (f"{run['kind']:<8} {run['server']:<6} parallel {run['parallel']:<3} {_size(run['read_ahead']):>7} {run['streams']:>3} streams  seed {run['seed']:<3} "
            f"{run['variant']:<11} {pool:>4} MiB  {run['device_bytes'] / 1e6:>6.0f} MB  {run['wall_s']:>6.1f} s  mean {run['mean_latency_s']:>6.2f} s  "
            f"max {run['max_latency_s']:>6.2f} s  CPU {run['cpu_s']:>6.1f} s, waited {run.get('wait_s', 0):>5.1f} s")


def document(runs: list[dict], ours: str, circumstances: dict) -> dict:
    """The JSON file: circumstances, pairs and summary."""
    found = pairs(runs, ours)
    config = {
        "date": max((run["date"] for run in runs), default=""), "servers": ", ".join(sorted({run["server"] for run in runs})),
        "shared_buffers": f"{circumstances['shared_buffers'] >> 20} MiB" if "shared_buffers" in circumstances else "by cell", "table": f"{circumstances['table'] >> 20} MiB",
        "limits": ", ".join(sorted({run["limits"] for run in runs})), "processors": os.cpu_count(), "queries_of_a_stream": circumstances["length"],
        "settings": " ".join(circumstances["settings"]) or "as the bench sets them",
        "cache": "the pool is full of other tables, the kernel's cache cold",
        "builds": ", ".join(sorted({run["build"] for run in runs if run["variant"] == ours})),
    }
    return {"schema": 1, "config": config, "pairs": found, "summary": summary(found)}


def page(written: dict) -> str:
    """The report as one HTML page."""
    result = Page("PostgreSQL: sequential scans read together",
                  "Streams of queries over one table that does not fit: a stock server, and the same server with pg_pagecast's cooperative scans. Less is better everywhere.")
    for name, value in written["config"].items():
        result.fact(name.replace("_", " "), value)
    lines = written["summary"]
    result.chart("Bytes read from the device, ours over stock", "Medians of the pairs' ratios; 1 is a stock server.", 360, _curves(lines, "ratio", "device_bytes"))
    result.chart("Mean latency of a query, ours over stock", "Medians of the pairs' ratios.", 360, _curves(lines, "ratio", "mean_latency_s"))
    if any("ratio_best" in line for line in lines):
        result.chart("Bytes read from the device, ours over the best stock", "The best of several sizes of shared_buffers with the same memory in all.", 360,
                     _curves([line for line in lines if "ratio_best" in line], "ratio_best", "device_bytes"))
    result.table("Ours over stock: medians of the pairs' ratios (least and most), \u2264 or > the goal", _HEADS, _TEXTS, [cells(line) for line in lines])
    rows = [[pair["kind"], pair["server"], pair["parallel"], _size(pair["read_ahead"]), f"{pair['share']} %", pair["streams"], pair["seed"],
             *(f"{_over(pair, 'stock', name):.3f}" for name in ("device_bytes", "blocks", "mean_latency_s", "max_latency_s", "wall_s", "cpu_s")),
             "identical" if pair["same_results"] else "DIFFERENT"] for pair in written["pairs"]]
    result.table("Every pair, ours over stock", ["queries", "server", "parallel", "read-ahead", "pool", "streams", "seed", "device bytes", "blocks", "mean latency", "slowest", "wall",
                                                 "CPU", "results"], _TEXTS, rows)
    return str(result)


def _curves(lines: list[dict], ratios: str, figure: str) -> dict:
    """A line for each server, read-ahead and setting of parallel query, by streams."""
    streams = sorted({line["streams"] for line in lines})
    series: dict[str, dict[int, float]] = {}
    for line in lines:
        name = f"{line['server']}, pool {line['share']} %, {_size(line['read_ahead'])}, parallel {line['parallel']}" + (", filtered" if line["kind"] == "filtered" else "")
        series.setdefault(name, {})[line["streams"]] = line[ratios][figure]["median"]
    return {
        "tooltip": {"trigger": "axis"}, "legend": {"top": 0, "type": "scroll"}, "grid": {"left": 60, "right": 20, "top": 40, "bottom": 50},
        "xAxis": {"type": "category", "name": "streams", "nameLocation": "middle", "nameGap": 30, "data": [str(count) for count in streams]},
        "yAxis": {"type": "value", "min": 0},
        "series": [{"name": name, "type": "line", "data": [values.get(count) for count in streams]} for name, values in series.items()],
    }
