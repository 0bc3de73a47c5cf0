"""What the benchmarks measured, reduced to what the tables of docs/results.md need.

Each benchmark writes a JSON file to target/bench. What is newer there than in lab/measured is
reduced, with command, machine and date, and kept in lab/measured. `results.py` makes the document
of that.
"""

import json
import platform
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path

WRITTEN = Path("target/bench")
MEASURED = Path("lab/measured")
MIB = 1 << 20

Row = dict


class Problem(Exception):
    """What to say and to end with."""


@dataclass
class Kept:
    """A file of lab/measured."""
    command: str
    under: str
    machine: str
    date: str
    rows: list[Row]

    def how(self) -> str:
        return f"`{self.command}`" + (f" ({self.under})" if self.under else "")


@dataclass
class Reduced:
    """What is kept of a file: its command and rows, and what else it says of its circumstances."""
    command: str
    rows: list[Row]
    machine: str | None = None
    under: str = ""


def made(target: str, arguments: str) -> str:
    return f"make {target}" + (f" ARGS='{arguments}'" if arguments else "")


def sql(given: dict) -> Reduced:
    config = given["config"]
    at = config["machine"]
    if not at["optimized"]:
        raise Problem("the figures are of a debug build: run `make bench-sql`")
    if given.get("partial"):
        raise Problem("the bench was interrupted: run `make bench-sql`")
    policies = [run["policy"] for run in given["runs"] if run["delivery"] == "in-order"]
    flags = {"streams": config["streams"], "queries": config["queries_per_stream"],
             "pool": config["pool"], "policies": ",".join(dict.fromkeys(policies)),
             "repeat": config["repeat"]}
    command = "pagecast bench " + " ".join(f"--{flag} {value}" for flag, value in flags.items())
    machine = f"{at['os']} {at['arch']}, {at['cpus']} x {at['cpu']}, {at['memory_bytes'] >> 30} GiB"
    kept = ("streams", "seed", "delivery", "policy", "bytes_read", "belady_bytes_read", "wall_s", "processors_busy")
    rows = [{name: run[name] for name in kept} for run in given["runs"]]
    return Reduced(command, rows, machine)


def postgres(given: dict) -> Reduced:
    config = given["config"]
    cells = given["summary"]
    listed = {name: ",".join(dict.fromkeys(str(cell[name]) for cell in cells))
              for name in ("workload", "streams", "mode")}
    buffers = config["shared_buffers"].replace(" ", "")
    lengths = {sum(query["runs"] for query in run["queries"]) // run["streams"]
               for run in given["runs"]}
    queries = f" --queries {lengths.pop()}" if len(lengths) == 1 else ""
    command = (f"make bench-postgres ARGS='--workloads {listed['workload']} --streams "
               f"{listed['streams']}{queries} --variants {listed['mode']} --scale "
               f"{config['scale']:g} --shared-buffers {buffers} --seeds "
               f"{max(cell['pairs'] for cell in cells)}'")
    rows = []
    for cell in cells:
        same = ("workload", "streams", "mode")
        pairs = [pair for pair in given["pairs"] if all(pair[name] == cell[name] for name in same)]
        device = [pair["ours"]["device_bytes"] / pair["stock"]["device_bytes"]
                  for pair in pairs if pair["stock"]["device_bytes"]]
        rows.append({**{name: cell[name] for name in (*same, "pairs", "same_results")},
                     **{name: round(ratio, 3) for name, ratio in cell["ratio"].items()},
                     "device": [round(min(device), 3), round(max(device), 3)] if device else None,
                     "server": config["server"]})
    return Reduced(command, rows, under=config["limits"])


def cooperative(given: dict) -> Reduced:
    config, cells = given["config"], given["summary"]
    kept = ("kind", "server", "parallel", "read_ahead", "streams", "same_results", "goal")
    figures = ("device_bytes", "mean_latency_s", "max_latency_s")
    rows = []
    for cell in cells:
        rows.append({name: cell[name] for name in kept})
        for peer in ("ratio", "ratio_best"):
            if peer in cell:
                rows[-1][peer] = {figure: list(cell[peer][figure].values()) for figure in figures}
                rows[-1][f"pairs_{peer}"] = cell["pairs" if peer == "ratio" else "pairs_best"]
    listed = {name: ",".join(map(str, sorted({cell[name] for cell in cells})))
              for name in ("streams", "parallel")}
    command = (f"make bench-postgres ARGS='--workloads cooperative --streams {listed['streams']} "
               f"--parallel {listed['parallel']}'")
    under = (f"{config['limits']}, shared_buffers {config['shared_buffers']}, "
             f"table {config['table']}")
    return Reduced(command, rows, under=under)


def grid(given: dict) -> Reduced:
    config, cells = given["config"], given["summary"]
    figures = ("device_bytes", "mean_latency_s", "max_latency_s")
    rows = [{**{name: cell[name] for name in ("server", "share", "streams", "pairs", "same_results")},
             **{figure: cell["ratio"][figure]["median"] for figure in figures}} for cell in cells]
    every = lambda name, unit="": ",".join(f"{value}{unit}" for value in sorted({cell[name] for cell in cells}))
    command = (f"make bench-postgres-grid ARGS='--streams {every('streams')} --pools {every('share', '%')} "
               f"--seeds {max(cell['pairs'] for cell in cells)}'")
    return Reduced(command, rows, under=f"table {config['table']}")


def overhead(given: dict) -> Reduced:
    estimate = ("mean", "from", "to")
    rows = [{"case": line["case"], "clients": line["clients"], "variant": line["variant"],
             "cpu": [round(line["cpu"][name], 4) for name in estimate]} for line in given["lines"]]
    return Reduced("PYTHONPATH=hosts/postgres chrt -r 1 python3 -m bench.overhead", rows)


def beside(given: dict) -> Reduced:
    options, pairs = given["options"], given["pairs"]
    rows = []
    for figure in [name for name in BESIDE if name in pairs[0]["ours"]]:
        ratios = [pair["ours"][figure] / pair["stock"][figure] for pair in pairs]
        rows.append({"figure": figure, "pairs": len(pairs), "server": given["server"],
                     "ratio": [round(of(ratios), 3) for of in (statistics.median, min, max)]})
    command = (f"PYTHONPATH=hosts/postgres python3 -m bench.latency --job "
               f"{options.get('job', 'tpcb')} --rate {options['rate']}")
    return Reduced(command, rows, under=pairs[0]["limits"])


# What is shown of others' work beside reporting.
BESIDE = {"p50": "TPC-B, median latency", "p99": "TPC-B, 99th percentile of the latency",
          "seconds": "time of a `pg_dump`"}


def prediction(given: dict) -> Reduced:
    rows = []
    for cell in given["cells"]:
        at = {name: cell[name] for name in ("order", "workload", "streams", "pool")}
        if not rows or rows[-1]["at"] != at:
            rows.append({"at": at, "rates": {}})
        rows[-1]["rates"][cell["policy"]] = round(100 * cell["hit_rate"], 2)
    rows += [{"cost": {name: cost[name] for name in ("policy", "scans")},
              "instructions": cost["instructions_per_eviction"]} for cost in given.get("costs", [])]
    return Reduced(made("bench-prediction", given["arguments"]), rows)


def pool(given: dict) -> Reduced:
    rows = [{**{name: row[name] for name in ("policy", "workload", "threads", "peer")},
             "ours_ns": round(row["ours_ns"], 1), "ratio": round(row["ratio"], 3)}
            for row in given["hit_path"]]
    return Reduced(made("bench-pool", given["arguments"]), rows)


def delivery(given: dict) -> Reduced:
    kept = ("sf", "busy", "streams", "pool", "seed", "delivery", "policy", "bytes_read", "wall_s", "max_latency_s", "processors_busy")
    rows = [{name: row[name] for name in kept} for row in given["rows"] if not row["partial"]]
    every = lambda name: ",".join(f"{value:g}" for value in sorted({row[name] for row in rows}))
    repeat = max(row["repetition"] for row in given["rows"])
    rate = given["rows"][0]["bandwidth_bytes_s"] / 1e6
    arguments = f"--sf {every('sf')} --busy {every('busy')} --seeds {every('seed')} --repeat {repeat} --bandwidth {rate:g}MB/s"
    return Reduced(made("bench-delivery", arguments), rows)


def store(given: dict) -> Reduced:
    kept = ("reads", "writes", "bytes_read", "device_bytes_read", "bytes_written", "per_second", "rates")
    rows = []
    for engine, parts in given["engines"].items():
        for part, of in parts.items():
            for work, row in of.items():
                if isinstance(row, dict):
                    rows.append({"engine": engine, "part": part, "work": work,
                                 **{name: row[name] for name in kept}})
    return Reduced(made("bench-kv", given["arguments"]), rows)


def tuples(given: dict) -> Reduced:
    rows = []
    for cell in given["cells"]:
        ours, figure = cell["rows"][given["ours"]], cell["goals"][0]["figure"]
        options = "".join(f" {option}" for option in cell["options"])
        rows.append({"workload": cell["workload"] + options, "figure": figure,
                     "ours": round(ours[figure], 4), "share": round(ours["share"], 2),
                     "goals": {goal["of"]: [goal["ratio"], goal["goal"]] for goal in cell["goals"]}})
    seeds = " ".join(map(str, given["seeds"]))
    goals = " --goals" if given["only_goals"] else ""
    return Reduced(made("bench-tuples", f"--seeds {seeds}{goals}"), rows)


def objects(given: dict) -> Reduced:
    kept = ("where", "delivery", "policy", "bytes_read", "gap_bytes", "requests", "gets", "heads",
            "lists", "cost_usd", "wall_s", "flash_read", "flash_written")
    rows = [{name: row[name] for name in kept} for row in given["rows"]]
    if not given["optimized"]:
        rows = [{**row, "wall_s": None} for row in rows]
    arguments = " ".join(f"--{name} {value}" for name, value in given["arguments"].items()
                         if value is not None)
    under = "" if given["optimized"] else "a debug build, so without times"
    return Reduced(made(given["target"], arguments), rows, under=under)


def peers(given: dict) -> Reduced:
    seeds = len({row["seed"] for row in given["rows"]})
    every = lambda of: ",".join(dict.fromkeys(map(of, given["rows"])))
    engines = every(lambda row: row["engine"])
    rates = every(lambda row: row["device"].removesuffix(" MB/s").replace("no limit", "0"))
    streams = every(lambda row: f"{row['streams']}:{row['queries']}")
    arguments = (f"--scale {given['scale']:g} --engines {engines} --rates {rates} --streams {streams} --seeds {seeds} "
                 f"--pool {given['pool_mib']} --budget {given['budget_mib']} --memory {given['memory_mib']}")
    return Reduced(made("bench-peers", arguments), given["cells"])


def memory(given: dict) -> Reduced:
    kept = ("engine", "statement", "data_bytes", "memory", "at_once", "door", "rc", "failed", "wall_s", "cpu_s", "peak_rss_bytes",
            "idle_rss_bytes", "bytes_spilled")
    rows = [{name: row[name] for name in kept if name in row} for row in given["rows"]]
    every = lambda of: ",".join(dict.fromkeys(f"{of(row)}" for row in rows))
    arguments = (f"--memory {every(lambda row: row['memory'] // MIB)} --times {every(lambda row: row['data_bytes'] // row['memory'])} "
                 f"--at-once {every(lambda row: row['at_once'])}")
    return Reduced(made("bench-memory", arguments), rows)


def clickbench(given: dict) -> Reduced:
    sizes = ",".join(dict.fromkeys(f"{cell['gb']:g}" for cell in given["cells"]))
    arguments = f"--rows {given['rows_of_table']} --memory {sizes} --connections {given['connections']} --seconds {given['seconds']:g}"
    return Reduced(made("bench-clickbench", arguments), given["cells"])


def dashboards(given: dict) -> Reduced:
    kept = ("seed", "one_off", "pool", "policy", "forecast", "bytes_read", "belady_bytes_read", "report_median_s",
            "report_max_s")
    disk = given["rows"][0].get("disk_mb_s")
    rows = [{name: row[name] for name in kept} for row in given["rows"]]
    every = lambda name, form: " ".join(dict.fromkeys(form.format(row[name]) for row in rows))
    seeds = len({row["seed"] for row in rows})
    arguments = f"--seeds {seeds} --one-off {every('one_off', '{:g}')} --pools {every('pool', '{}')}"
    if disk:
        arguments += f" --disk {disk}"
    return Reduced(made("bench-dashboards", arguments), rows)


def reports(given: dict) -> Reduced:
    asked = given["options"]
    kept = ("variant", "seed", "report_s", "report_max_s", "report_blocks", "pgbench_reads", "p50_ms", "p99_ms", "device_mib")
    rows = [{"every": float(asked["every"]), **{name: row[name] for name in kept}} for row in given["runs"]]
    named = " ".join(f"--{name} {asked[name]}" for name in ("pairs", "every", "rounds", "rate"))
    return Reduced(f"PYTHONPATH=hosts/postgres python3 -m bench.reports {named}", rows, under=given["limits"])


@dataclass
class Kind:
    """A benchmark: its files in target/bench, how they are reduced, and its command."""
    files: str
    reduce: Callable[[dict], Reduced]
    command: str


KINDS = {
    "delivery": Kind("delivery*.json", delivery, "make bench-delivery"),
    "dashboards": Kind("dashboards*.json", dashboards, "make bench-dashboards"),
    "objects": Kind("objects.json", objects, "make bench-objects"),
    "sql": Kind("sql*.json", sql, "make bench-sql"),
    "cooperative": Kind("postgres-cooperative*.json", cooperative,
                        "make bench-postgres ARGS='--workloads cooperative'"),
    "grid": Kind("postgres-grid.json", grid, "make bench-postgres-grid"),
    "overhead": Kind("postgres-overhead.json", overhead,
                     "PYTHONPATH=hosts/postgres python3 -m bench.overhead"),
    "beside": Kind("postgres-[ld]*.json", beside,
                   "PYTHONPATH=hosts/postgres python3 -m bench.latency"),
    "reports": Kind("postgres-reports*.json", reports,
                    "PYTHONPATH=hosts/postgres python3 -m bench.reports"),
    "postgres": Kind("postgres*.json", postgres, "make bench-postgres"),
    "prediction": Kind("prediction*.json", prediction, "make bench-prediction"),
    "peers": Kind("peers*.json", peers, "make bench-peers"),
    "memory": Kind("memory.json", memory, "make bench-memory"),
    "clickbench": Kind("clickbench.json", clickbench, "make bench-clickbench"),
    "pool": Kind("pool.json", pool, "make bench-pool"),
    "store": Kind("kv.json", store, "make bench-kv"),
    "tuples": Kind("tuples.json", tuples, "make bench-tuples"),
}


def kind_of(name: str) -> str | None:
    return next((kind for kind, of in KINDS.items() if fnmatch(name, of.files)), None)


def read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Problem(f"{path}: {error}") from error


def here() -> str:
    """This machine, as `pagecast bench` names it."""
    def of(path: str, key: str) -> str:
        lines = Path(path).read_text().splitlines() if Path(path).exists() else []
        return next((line.split(":")[1].strip() for line in lines if line.startswith(key)), "")
    cpus = sum(line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines())
    memory = int(of("/proc/meminfo", "MemTotal").split()[0]) >> 20
    return (f"{platform.system().lower()} {platform.machine()}, {cpus} x "
            f"{of('/proc/cpuinfo', 'model name')}, {memory} GiB")


def name_of(path: Path) -> str:
    """What a file is kept as: one command writes two kinds of results under one name."""
    if path.name == "postgres.json" and "queries_of_a_stream" in read(path).get("config", {}):
        return "postgres-cooperative.json"
    return path.name


def take_newer() -> None:
    """Keeps what is newer in target/bench than in lab/measured."""
    for path in sorted(WRITTEN.glob("*.json")):
        name = name_of(path)
        kind, kept = kind_of(name), MEASURED / name
        date = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        if kind is None or kept.exists() and read(kept)["date"] >= date:
            continue
        try:
            reduced = KINDS[kind].reduce(read(path))
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from problem
        except KeyError as error:
            raise Problem(f"{path} has no {error}: run `{KINDS[kind].command}` anew") from error
        head = {"command": reduced.command, "under": reduced.under,
                "machine": reduced.machine or here(), "date": date}
        rows = ",\n".join(map(json.dumps, reduced.rows))
        text = f'{json.dumps(head)[:-1]}, "rows": [\n{rows}\n]}}\n'
        MEASURED.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
        print(f"took {path} of {date}")
