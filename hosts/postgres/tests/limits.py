"""The smallest server and the largest registry: shared_buffers, memory and max_scans at both ends,
and a disk that is full."""

import os
import shutil
import subprocess
import threading
import unittest

from cluster import Cluster, Connection, ServerFailed, SqlError
from tests.answers import CASES, make_objects
from tests.case import TINY, Run, ServerTest, make_events, outcome


class Extremes(ServerTest):
    """Servers with settings at their limits; each test makes its own."""

    @classmethod
    def setUpClass(cls) -> None:
        """Each test has its own."""

    def tearDown(self) -> None:
        """Each test looks at its own."""

    def assert_answers(self, settings: dict) -> dict:
        """Every case in one session is as with the extension off; gives the counters afterwards."""
        with Cluster(Run.installation, {**TINY, **settings}) as cluster:
            cluster.create().start()
            with cluster.connect() as session:
                session.execute("create extension pg_pagecast")
                make_objects(session)
                for name, statements in CASES.items():
                    if name == "timeout":  # tests.answers has it; here it only waits
                        continue
                    session.execute("set pg_pagecast.enabled = off")
                    expected = outcome(session, statements)
                    session.execute("set pg_pagecast.enabled = on")
                    self.assertEqual(expected, outcome(session, statements), name)
                    Run.count("cases compared with stock, settings at their limits")
                counters = session.records("select * from pg_pagecast_stats")[0]
            self.assertEqual([], cluster.panics())
            self.assertEqual("0", counters["active"])
            return {name: int(value) for name, value in counters.items() if name != "stats_reset"}

    def test_smallest_pool(self) -> None:
        """Sixteen buffers, fewer than are looked at for one victim, in both modes."""
        for mode in ("steering", "freelist"):
            counters = self.assert_answers({"shared_buffers": "128kB", "max_connections": 5, "max_worker_processes": 0, "pg_pagecast.mode": mode,
                                            "pg_pagecast.samples": 100, "pg_pagecast.bulk": 100, "pg_pagecast.max_scans": 1})
            self.assertGreater(counters["steered"], 0)

    def test_smallest_memory(self) -> None:
        """Bitmaps that do not fit are refused, and read as always."""
        counters = self.assert_answers({"pg_pagecast.memory": "256kB"})
        self.assertGreater(counters["registered"], 0)

    def test_largest_registry(self) -> None:
        """As many scans as may be, and a gigabyte for their blocks; where the machine has no such
        memory the server says which settings to lower."""
        try:
            counters = self.assert_answers({"pg_pagecast.memory": "1GB", "pg_pagecast.max_scans": 65536})
        except ServerFailed as problem:
            self.assertRegex(str(problem), "shared memory|pg_pagecast could not lay out")
            self.skipTest("this machine has no gigabyte to share")
        self.assertGreater(counters["registered"], 0)
        self.assertEqual(0, counters["refused"])


class Memory(ServerTest):
    """What `pg_pagecast.memory` has room for, with the least of it: an eighth of 256 kB for a scan,
    and 9/64 bytes for a block of a scattered bitmap."""

    settings = {"pg_pagecast.memory": "256kB", "shared_buffers": "16MB", "enable_seqscan": "off", "enable_indexscan": "off"}
    most_blocks = (256 << 10) // 8 * 64 // 9

    def scattered(self, session: Connection, table: str, blocks: int) -> None:
        """A table of so many blocks, nearly all of them holes in its files, with 1500 rows evenly
        over them."""
        session.execute(f"create table {table} (id int, filler text) with (fillfactor = 10); alter table {table} alter filler set storage plain; create index on {table} (id)")
        path = self.cluster.data / session.value(f"select pg_relation_filepath('{table}')")
        segment = 131_072
        for row in range(1, 1501):
            last = blocks * row // 1500
            for number in range(last // segment + 1):
                file = path if number == 0 else path.with_name(f"{path.name}.{number}")
                if not file.exists():
                    file.touch(mode=0o600)
                    shutil.chown(file, self.cluster.folder.owner())
                length = min(segment, last - number * segment) * 8192
                if file.stat().st_size < length:
                    os.truncate(file, length)
            # It goes into the last block, which is new and empty.
            session.execute(f"insert into {table} values ({row}, repeat('x', 850))")

    def bitmap_cursor(self, table: str) -> Connection:
        """A session that has begun to read all rows by a bitmap."""
        session = self.session()
        session.execute(f"begin; declare c cursor for select id from {table} where id > 0; fetch 3 from c")
        return session

    def test_as_large_as_fits(self) -> None:
        """A bitmap over as many blocks as fit is kept block by block; over more, the blocks between
        are taken for wanted, too. Neither is refused."""
        watcher = self.session()
        for table, blocks, exact in (("fits", self.most_blocks - 600, True), ("larger", self.most_blocks + 600, False)):
            self.scattered(watcher, table, blocks)
            cursor = self.bitmap_cursor(table)
            self.assertEqual(1, len(watcher.rows("select * from pg_pagecast_scans")))
            gap = blocks // 1500
            # Blocks around a row in the middle of the table, which has none near.
            watcher.execute(f"select count(*) from {table} where ctid >= '({blocks // 2}, 0)' and ctid < '({blocks // 2 + gap}, 0)'")
            of_scan = f"from pg_pagecast_buffers() where filenode = pg_relation_filenode('{table}')"
            predicted, buffers = map(int, watcher.rows(f"select predicted, buffers {of_scan}")[0])
            self.assertGreater(buffers, gap)
            self.assertEqual(exact, predicted < buffers - gap / 2, f"{predicted} of {buffers}")
            self.assertEqual("0", watcher.value("select refused from pg_pagecast_stats"))
            cursor.close()

    def test_refusals_are_told_once(self) -> None:
        """More such scans at once than fit are refused, and the log says which setting to raise."""
        watcher = self.session()
        self.scattered(watcher, "far", self.most_blocks - 600)
        # A cursor that rests for two seconds is suspended, and on a busy machine that is soon.
        for _ in range(20):
            cursors = [self.bitmap_cursor("far") for _ in range(14)]
            registered, refused = map(int, watcher.rows("select registered, refused from pg_pagecast_stats")[0])
            for cursor in cursors:
                cursor.close()
            if refused > 2:
                break
        else:
            self.fail("cursors are suspended before there are too many")
        self.assertGreaterEqual(registered, 8)
        said = [line for line in self.cluster.log.read_text().splitlines() if "has no room" in line or "pg_pagecast.memory, which is 256kB" in line]
        self.assertEqual(2, len(said), said)
        self.assertRegex(said[0], 'LOG: .*no room for a scan of "far"')
        self.assertIn("HINT:  Raise pg_pagecast.memory", said[1])


class FullDisk(ServerTest):
    """A tablespace that runs full while its tables are scanned and written."""

    settings = {"shared_buffers": "2MB"}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.place = cls.cluster.folder / "small"
        cls.place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size=24m,mode=700,uid={cls.cluster.folder.stat().st_uid}", "tmpfs", str(cls.place)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            raise unittest.SkipTest("no small file system can be mounted here")
        cls.addClassCleanup(subprocess.run, ["umount", str(cls.place)], check=True)
        cls.addClassCleanup(cls.cluster.stop)

    def test_writes_fail_and_reads_do_not(self) -> None:
        """Inserts and sorts end in `disk full` again and again; scans beside them read what is
        committed."""
        with self.cluster.connect() as session:
            session.execute(f"create tablespace small location '{self.place}'")
            session.execute("set default_tablespace = small")
            make_events(session, "events", 60_000)
            expected = session.value("select sum(amount) from events where day between 0 and 1000")
            session.execute("create table growing (id int, filler text) tablespace small")
        done = threading.Event()

        def write() -> None:
            try:
                with self.cluster.connect() as session:
                    session.execute("set temp_tablespaces = small; set work_mem = '64kB'")
                    for number in range(20 * Run.rounds):
                        sql = ("insert into growing select i, repeat('y', 900) from generate_series(1, 40000) i",
                               "select count(*) from (select * from generate_series(1, 900000) i order by -i offset 10) s")[number % 2]
                        with self.assertRaises(SqlError) as caught:
                            session.execute(sql)
                        self.assertEqual("53100", caught.exception.sqlstate, str(caught.exception))
                        Run.count("statements that found the disk full")
                        session.execute("vacuum growing")
            finally:
                done.set()

        def scan(path: str):
            def work() -> None:
                with self.cluster.connect() as session:
                    session.execute(path)
                    while not done.is_set():
                        self.assertEqual(expected, session.value("select sum(amount) from events where day between 0 and 1000"))
                        Run.count("scans beside a full disk")
            return work

        bitmap = "set enable_seqscan = off; set enable_indexscan = off"
        self.together(write, scan(bitmap), scan(bitmap), scan("set pg_pagecast.enabled = on"))
        with self.cluster.connect() as session:
            self.assertGreater(int(session.value("select registered from pg_pagecast_stats")), 0)
            session.execute("drop table growing, events")
            session.execute("drop tablespace small")
