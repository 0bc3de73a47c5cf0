"""Throughput of `pagecast simulate` against libcachesim (PyPI), side by side on one core.

Both replay the same uncompressed oracleGeneral file end to end, with a warm page cache and one
thread, turn by turn. For pagecast the whole process counts, start and loading included; for
libcachesim the time from opening the trace to the last request, without the start of the
interpreter. CPU time is shown beside wall time because other work on the machine lengthens the one
and not the other.

With --run it is the libcachesim side itself: replays once and prints misses, wall seconds and CPU
seconds.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

# Our name, libcachesim's name. Parameters are each side's defaults, which agree with the papers on
# both.
PAIRS = [("lru", "LRU"), ("arc", "ARC"), ("s3-fifo", "S3FIFO"), ("lirs", "LIRS"), ("opt", "Belady")]


def run_libcachesim(policy, trace, pages):
    import libcachesim

    wall, cpu = time.perf_counter(), time.process_time()
    # Every page counts as 1, so that the cache size is a number of pages.
    parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
    reader = libcachesim.TraceReader(trace, libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters)
    ratio, _ = getattr(libcachesim, policy)(pages).process_trace(reader)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"ratio": ratio, "wall": wall, "cpu": cpu}))


def theirs(policy, trace, pages, requests):
    command = [sys.executable, __file__, "--run", policy, trace, str(pages)]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return round(done["ratio"] * requests), done["wall"], done["cpu"]


def ours(pagecast, policy, trace, pages, scratch):
    command = [pagecast, "simulate", trace, "--policies", policy, "--sizes", str(pages), "--jobs", "1", "--json", scratch]
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(scratch) as file:
        row = json.load(file)["rows"][0]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return row["misses"], wall, cpu, row["requests"]


def machine(pagecast):
    """What the figures were taken on, and of which versions."""
    version = subprocess.run([pagecast, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), None)
    return {
        "system": platform.platform(),
        "cpu": cpu,
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "pagecast": version,
        "libcachesim": importlib.metadata.version("libcachesim"),
    }


def compare(options):
    scratch = options.json + ".run"
    rows = []
    print(f"{'policy':8} {'pagecast':>10} {'libcachesim':>12}  Mreq/s   ratio  of CPU   misses (ours, theirs)")
    for own, other in PAIRS:
        runs = []
        for _ in range(options.runs):
            misses, wall, cpu, requests = ours(options.pagecast, own, options.trace, options.pages, scratch)
            their_misses, their_wall, their_cpu = theirs(other, options.trace, options.pages, requests)
            runs.append((wall, cpu, their_wall, their_cpu))
        wall, cpu, their_wall, their_cpu = (statistics.median(column) for column in zip(*runs))
        row = {
            "trace": options.name,
            "policy": own,
            "ours_mreq_s": requests / wall / 1e6,
            "libcachesim_mreq_s": requests / their_wall / 1e6,
            "ratio": their_wall / wall,
            "cpu_ratio": their_cpu / cpu,
            "size_pages": options.pages,
            "ours_misses": misses,
            "libcachesim_misses": their_misses,
            "runs": options.runs,
        }
        rows.append(row)
        print(
            f"{own:8} {row['ours_mreq_s']:10.2f} {row['libcachesim_mreq_s']:12.2f}         {row['ratio']:6.2f}  {row['cpu_ratio']:6.2f}"
            f"   {misses}, {their_misses}",
            flush=True,
        )
    os.remove(scratch)
    with open(options.json + ".new", "w") as file:
        json.dump({"rows": rows, "machine": machine(options.pagecast)}, file, indent=2)
    os.replace(options.json + ".new", options.json)


def main():
    if sys.argv[1:2] == ["--run"]:
        return run_libcachesim(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pagecast", required=True, help="the pagecast command, built for speed")
    parser.add_argument("--trace", required=True, help="an uncompressed oracleGeneral file")
    parser.add_argument("--name", required=True, help="what the results call the trace")
    parser.add_argument("--pages", required=True, type=int, help="size of the pool")
    parser.add_argument("--runs", default=5, type=int, help="of each, turn by turn")
    parser.add_argument("--json", required=True, help="where to write the results")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
