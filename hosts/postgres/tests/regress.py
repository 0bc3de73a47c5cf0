"""PostgreSQL's own regression and isolation suites on a server with the extension as aggressive as
it can be.

The suites come from the server's source package. A test that fails with the extension is compared
with the same test on a stock server with the same settings: only what differs between the two
counts. `synchronize_seqscans` is off on both, because with so few buffers every small table's scans
would start somewhere else and rows without an order would come in another one.

In the mode `cooperation` all tables of two blocks or more are scanned together. There rows without
an order may come in another one, where `row_order.py` lists the statement. Scans cooperate only
where `synchronize_seqscans` is on, so it is, with so many buffers that it does nothing by itself.
"""

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster, Installation, ServerFailed, find
from cluster.sources import NoSource, source
from tests import row_order

_TINY = {
    "shared_buffers": "2MB", "fsync": "off", "max_prepared_transactions": 10, "synchronize_seqscans": "off", "jit": "off",
    # Sessions of a parallel group can pin more than so few buffers; temporary ones are on their
    # own.
    "max_connections": 60, "wal_level": "replica", "log_min_messages": "warning",
    # The extension asks for the identifiers of statements, as pg_stat_statements does. EXPLAIN
    # shows them but for this value, which the server has for its suites.
    "compute_query_id": "regress",
}
_TOGETHER = {"shared_buffers": "16MB", "synchronize_seqscans": "on"}
_MODES = ("steering", "freelist", "cooperation")


@dataclass
class Outcome:
    """What a suite said: how many tests ran, the differences of those that failed, by name, and
    what each test printed."""

    ran: int
    differences: dict[str, str]
    outputs: dict[str, str]
    panics: list[str]
    counters: dict


def run_suite(installation: Installation, suite: str, settings: dict, only: list[str]) -> Outcome:
    """Runs one suite on a new cluster."""
    tests = source(installation.major, installation.version) / "src/test" / suite
    with Cluster(installation, {**_TINY, **settings}) as cluster:
        cluster.create().start()
        output = cluster.folder / "output"
        output.mkdir()
        shutil.copytree(tests, cluster.folder / "input")
        library = _libraries(installation, tests, cluster.folder / "libraries") if suite == "regress" else None
        _own(cluster)
        done = subprocess.run(cluster.as_user(_command(installation, suite, cluster, library, only)), cwd=output, env=cluster.environment(),
                              capture_output=True, text=True)
        text = done.stdout + done.stderr
        ran = len(re.findall(r"\.\.\. (?:ok|FAILED)|^(?:not )?ok \d", text, re.MULTILINE))
        if ran == 0 or not cluster.running():
            raise ServerFailed(f"the {suite} suite did not run:\n{text[-2000:]}\n{cluster.tail()}")
        diffs = output / "regression.diffs"
        differences = _by_test(diffs.read_text(errors="replace") if diffs.is_file() else "", text)
        outputs = {path.stem: path.read_text(errors="replace") for path in output.glob("results/*.out")}
        return Outcome(ran, differences, outputs, cluster.panics(), _counters(cluster, settings))


def _command(installation: Installation, suite: str, cluster: Cluster, library: Path | None, only: list[str]) -> list[str]:
    folder = Path(installation.ask("pgxs")).parents[1] / "test"
    program = folder / ("regress/pg_regress" if suite == "regress" else "isolation/pg_isolation_regress")
    schedule = cluster.folder / "input" / ("parallel_schedule" if suite == "regress" else "isolation_schedule")
    command = [str(program), f"--inputdir={cluster.folder}/input", f"--outputdir={cluster.folder}/output", f"--bindir={installation.ask('bindir')}",
               f"--host={cluster.folder}", "--user=postgres", "--max-concurrent-tests=20"]
    if library:
        command.append(f"--dlpath={library}")
    return [*command, *only] if only else [*command, f"--schedule={schedule}"]


def _libraries(installation: Installation, tests: Path, folder: Path) -> Path:
    """The suite's own C functions, built against the installed server, and the contributed modules
    that it loads."""
    folder.mkdir()
    include = installation.ask("includedir-server")
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-w", f"-I{include}", f"-I{installation.ask('includedir')}", tests / "regress.c",
                    "-o", folder / "regress.so"], check=True)
    for module in ("autoinc", "refint"):
        shutil.copy(Path(installation.ask("pkglibdir")) / f"{module}.so", folder)
    return folder


def _own(cluster: Cluster) -> None:
    for path in [cluster.folder, *cluster.folder.rglob("*")]:
        if cluster.data not in (path, *path.parents):
            shutil.chown(path, cluster.folder.owner(), cluster.folder.group())


def _by_test(diffs: str, text: str) -> dict[str, str]:
    """Differences by test, without the paths and times in their headers."""
    found: dict[str, str] = {}
    for part in re.split(r"^diff -U3 ", diffs, flags=re.MULTILINE)[1:]:
        header, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if not line.startswith(("--- ", "+++ "))]
        found[Path(header.split()[-1]).stem] = "\n".join(lines)
    for name in re.findall(r"(\S+)\s+\.\.\. FAILED", text) + re.findall(r"^not ok \d+\s+[-+] (\S+)", text, re.MULTILINE):
        found.setdefault(name, "failed without a difference: its session ended")
    return found


def _counters(cluster: Cluster, settings: dict) -> dict:
    if "shared_preload_libraries" not in settings:
        return {}
    with cluster.connect() as session:
        session.execute("create extension if not exists pg_pagecast")
        return session.records("select * from pg_pagecast_stats")[0]


def aggressive(installation: Installation, mode: str) -> dict | None:
    """The extension with the highest samples and batches that it allows, for which a server is
    asked; None where it does not know the mode."""
    settings = {"shared_preload_libraries": "pg_pagecast"}
    with Cluster(installation, settings) as probe:
        probe.create().start()
        with probe.connect() as session:
            known = dict(session.rows("select name, coalesce(max_val, enumvals::text) from pg_settings where name like 'pg_pagecast.%'"))
    settings |= {name: known[name] for name in ("pg_pagecast.samples", "pg_pagecast.bulk")}
    if mode == "cooperation":
        return {**settings, **_TOGETHER, "pg_pagecast.cooperation_forced": "on"} if "pg_pagecast.cooperation" in known else None
    return {**settings, "pg_pagecast.mode": mode}


def compare(installation: Installation, suite: str, mode: str, only: list[str]) -> bool:
    """Runs a suite with the extension and, where a test fails, these on a stock server; prints what
    differs; true when nothing does."""
    settings = aggressive(installation, mode)
    if settings is None:
        print(f"skipped: {suite} suite, this build has no {mode}")
        return True
    ours = run_suite(installation, suite, settings, only)
    stock = run_suite(installation, suite, {name: settings[name] for name in _TOGETHER if name in settings}, only) if ours.differences else None
    new = {name: text for name, text in ours.differences.items() if stock and stock.differences.get(name) != text}
    both = [name for name in ours.differences if name not in new]
    reordered = order_only(suite, new, ours, stock) if mode == "cooperation" else []
    steered = {name: ours.counters.get(name) for name in ("registered", "steered", "evictions", "chunks", "chunks_shared", "active")}
    print(f"{suite} suite on {installation.version}, {mode}: {ours.ran} tests, {len(new)} that differ from stock, "
          f"{len(both)} that fail on stock with the same difference{': ' + ', '.join(both) if both else ''}; {steered}", flush=True)
    for line in reordered:
        print(f"rows in another order: {line}")
    for name, text in new.items():
        print(f"--- {name}, with pg_pagecast\n{text[:4000]}\n--- {name}, stock\n{stock.differences.get(name, '(passes)')[:4000]}")
    for line in ours.panics:
        print(line)
    return not new and not ours.panics and steered["active"] == "0" and (mode != "cooperation" or int(steered["chunks"]) > 0)


def order_only(suite: str, new: dict[str, str], ours: Outcome, stock: Outcome) -> list[str]:
    """Takes out of `new` the tests of which only rows that are listed as unordered have another
    order, and puts in front of the others what else it is; returns what was allowed."""
    reordered: list[str] = []
    for name in list(new):
        listed = row_order.UNORDERED[suite].get(name, {})
        allowed, beyond = row_order.differences(ours.outputs.get(name, ""), stock.outputs.get(name, ""), listed)
        reordered += [f"{name}: {statement} ({listed[statement]})" for statement in allowed]
        if beyond:
            new[name] = "\n".join([*beyond, new[name]])
        else:
            del new[name]
    return reordered


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.regress", description="PostgreSQL's own suites with pg_pagecast loaded.")
    parser.add_argument("--version", type=int, help="major version of the server (default: the newest of the system)")
    parser.add_argument("--suites", default="regress,isolation")
    parser.add_argument("--modes", default="steering,freelist,cooperation", help=f"comma-separated: {', '.join(_MODES)}")
    parser.add_argument("only", nargs="*", help="run these tests instead of the schedule")
    given = parser.parse_args()
    installation = find(given.version)
    if installation is None or not installation.has_headers():
        print("skipped: no PostgreSQL server with headers is installed")
        return 0
    try:
        results = [compare(installation, suite, mode, given.only) for suite in given.suites.split(",") for mode in given.modes.split(",")]
    except NoSource as problem:
        print(f"skipped: {problem}")
        return 0
    except ServerFailed as problem:
        print(f"regress: {problem}", file=sys.stderr)
        return 1
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
