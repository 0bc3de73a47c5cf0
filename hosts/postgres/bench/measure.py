"""One run: a fresh server with a cold cache, streams of queries at once, and what the server read
for them."""

import hashlib
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.query import Query
from bench.workloads import Workload
from cluster import Cluster, Installation, Limits, SqlError
from cluster.limits import forget_cached, process_cpu_seconds, process_read_bytes, process_wait_seconds

# The variants that can be measured. A stock server does not even load the extension; `control` is a
# second one, which shows how far two runs of the same differ.
VARIANTS = {
    "stock": {},
    "control": {},
    "cooperative": {"shared_preload_libraries": "pg_pagecast", "pg_pagecast.cooperation": "on"},
    "steering": {"shared_preload_libraries": "pg_pagecast", "pg_pagecast.mode": "steering", "pg_pagecast.cooperation": "off"},
    "freelist": {"shared_preload_libraries": "pg_pagecast", "pg_pagecast.mode": "freelist", "pg_pagecast.cooperation": "off"},
    "disabled": {"shared_preload_libraries": "pg_pagecast", "pg_pagecast.enabled": "off"},
}

SETTINGS = {
    # One process a query: streams are the parallelism under test. Hash tables of all of them have
    # to fit under the memory limit, or the kernel ends the server. The others keep writes out of
    # the measurement.
    "max_parallel_workers_per_gather": 0, "autovacuum": "off", "jit": "off", "max_connections": 100, "work_mem": "8MB",
    "track_io_timing": "off", "checkpoint_timeout": "1h",
}


@dataclass
class Bench:
    """What all runs of a benchmark share."""

    installation: Installation
    folder: Path
    scale: float
    shared_buffers: int
    memory: int
    read_rate: int
    # Further settings of the server, by name.
    settings: dict = field(default_factory=dict)

    def prepare(self, workload: Workload) -> None:
        """Makes the workload's indexes, with no limits and no extension."""
        with Cluster(self.installation, {"maintenance_work_mem": "256MB", "autovacuum": "off"}, folder=self.folder) as cluster:
            cluster.start()
            with cluster.connect() as session:
                for statement in workload.indexes:
                    session.execute(statement)
                session.execute("analyze lineitem")
                session.execute("checkpoint")

    def run(self, workload: Workload, variant: str | dict, seed: int, streams: int, length: int, keep_rows: bool = False) -> dict:
        """Measures one variant, by its name or as settings; all that it returns goes into the
        report. With `keep_rows` each query has its rows, too."""
        of_variant = VARIANTS[variant] if isinstance(variant, str) else variant
        settings = {**SETTINGS, "shared_buffers": f"{self.shared_buffers // 1024}kB", **of_variant, **self.settings}
        loads_ours = bool(of_variant)
        if not loads_ours:
            settings = {name: value for name, value in settings.items() if not name.startswith("pg_pagecast.")}
        lists = [workload.stream(seed, stream, self.scale, length) for stream in range(streams)]
        with Limits(self.folder, self.memory, self.read_rate) as limits:
            forget_cached(self.folder / "data")
            with Cluster(self.installation, settings, folder=self.folder, limits=limits) as cluster:
                cluster.start()
                if workload.first:
                    _fill(cluster, workload)
                    forget_cached(self.folder / "data")
                figures = _measure(cluster, limits, workload, lists, workload.starts(seed, streams), keep_rows)
                if loads_ours:
                    figures["pagecast"] = _counters(cluster)
        return {"variant": variant, "limits": limits.description, **figures}


def _fill(cluster: Cluster, workload: Workload) -> None:
    """What is to have happened before; counted by the server when its session has ended."""
    with cluster.connect() as session:
        for statement in workload.first:
            session.execute(statement)
    _blocks(cluster, settled=(0, 0))


def _measure(cluster: Cluster, limits: Limits, workload: Workload, lists: list[list[Query]], starts: list[float], keep_rows: bool) -> dict:
    reports = [_Stream(cluster, workload, queries, start, keep_rows) for queries, start in zip(lists, starts)]
    before = _blocks(cluster)
    device, processor = (limits.device_bytes(), limits.cpu_seconds()) if limits.counted else (0, 0.0)
    start = time.monotonic()
    threads = [threading.Thread(target=report.run) for report in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.monotonic() - start
    if limits.counted:
        device, processor = limits.device_bytes() - device, limits.cpu_seconds() - processor
    else:
        device, processor = sum(report.device_bytes for report in reports), sum(report.cpu_seconds for report in reports)
    for report in reports:
        report.session.close()
    after = _blocks(cluster, settled=before)
    failures = [report.failure for report in reports if report.failure]
    if failures:
        raise failures[0]
    return {
        "blocks": after[0] - before[0], "hits": after[1] - before[1], "device_bytes": device, "wall_s": round(wall, 3), "cpu_s": round(processor, 3),
        # Of the sessions, for a processor that others had: where it is long, seconds say little.
        "wait_s": round(sum(report.wait_seconds for report in reports), 3),
        "queries": [{"stream": stream, **query} for stream, report in enumerate(reports) for query in report.queries],
    }


class _Stream:
    """A session that runs its queries one after the other in a thread of its own."""

    def __init__(self, cluster: Cluster, workload: Workload, queries: list[Query], start: float, keep_rows: bool):
        self._list, self._start, self._keep_rows = queries, start, keep_rows
        self.session = cluster.connect()
        for name, value in workload.settings.items():
            self.session.execute(f"set {name} = {value}")
        self.queries: list[dict] = []
        self.failure: SqlError | None = None
        self.device_bytes, self.cpu_seconds, self.wait_seconds = 0, 0.0, 0.0

    def run(self) -> None:
        """Runs all queries; point reads go into the report as one line, for there are thousands."""
        time.sleep(self._start)
        try:
            runs = [(query.name, *self._timed(query)) for query in self._list]
        except SqlError as failure:
            self.failure = failure
            return
        self.device_bytes, self.cpu_seconds = process_read_bytes(self.session.pid), process_cpu_seconds(self.session.pid)
        self.wait_seconds = process_wait_seconds(self.session.pid)
        for name in dict.fromkeys(run[0] for run in runs):
            same = [run[1:] for run in runs if run[0] == name]
            groups = [same] if len(same) > 100 else [[run] for run in same]
            for group in groups:
                digest = group[0][1] if len(group) == 1 else _digest([run[1] for run in group])
                self.queries.append({"name": name, "runs": len(group), "wall_s": round(sum(run[0] for run in group), 4), "result": digest})
                if self._keep_rows:
                    self.queries[-1]["rows"] = group[0][2]

    def _timed(self, query: Query) -> tuple[float, str, list | None]:
        start = time.monotonic()
        rows = self.session.rows(query.sql)
        return time.monotonic() - start, _digest(rows), rows if self._keep_rows else None


def _digest(rows: list) -> str:
    return hashlib.md5(repr(rows).encode()).hexdigest()


def _blocks(cluster: Cluster, settled: tuple[int, int] | None = None) -> tuple[int, int]:
    """Blocks read and found of all relations of the database; sessions report them at their end, so
    a second look waits for that."""
    with cluster.connect() as session:
        while settled and session.value("select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()") != "0":
            time.sleep(0.05)
        read, found = session.rows("select blks_read, blks_hit from pg_stat_database where datname = current_database()")[0]
        return int(read), int(found)


def _counters(cluster: Cluster) -> dict:
    with cluster.connect() as session:
        # A standby has it from its primary.
        if session.value("select pg_is_in_recovery()") == "f":
            session.execute("create extension if not exists pg_pagecast")
        return session.records("select * from pg_pagecast_stats")[0]
