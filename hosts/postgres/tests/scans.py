"""What each kind of scan tells: that it is registered once, where it is, when it ends, and that
those not worth it say nothing."""

import re
import time
from pathlib import Path

from cluster import Connection
from tests.case import ServerTest, make_events

PARALLEL = ("set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; "
             "set min_parallel_table_scan_size = 0; set min_parallel_index_scan_size = 0")
# A scan that has not moved for two seconds is suspended by the next that looks.
_IDLE_SECONDS = 2.2


class ScanTest(ServerTest):
    """A table of about 1000 blocks under 128 buffers, and what is asked of the registry."""

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)

    def tearDown(self) -> None:
        self.doCleanups()  # the sessions, and with them their cursors
        super().tearDown()

    def scans(self, watcher: Connection, kind: str) -> list[dict]:
        """The registered scans of a kind."""
        return watcher.records(f"select * from pg_pagecast_scans where kind = '{kind}' order by pid")

    def only(self, watcher: Connection, kind: str) -> dict:
        """The one scan that is registered."""
        scans = self.scans(watcher, kind)
        self.assertEqual(1, len(scans), scans)
        return {name: int(scans[0][name]) for name in ("pid", "position", "blocks_left")}

    def counter(self, watcher: Connection, name: str) -> int:
        """A counter of pg_pagecast_stats."""
        return int(watcher.value(f"select {name} from pg_pagecast_stats"))

    def blocks(self, watcher: Connection) -> int:
        """The table's blocks."""
        return int(watcher.value("select pg_relation_size('events') / current_setting('block_size')::int"))

    def steer(self) -> None:
        """A session that reads from disk and has the registry swept."""
        with self.cluster.connect() as other:
            other.execute("set enable_seqscan = off; set enable_indexscan = off; select sum(id) from events where day between 5 and 500")


class Sequential(ScanTest):
    """Sequential scans: looked at by a timer, so each of these rests for longer than that at the
    rows it returns."""

    rests = "select id, pg_sleep(0.05) from events where id % 10000 = 0"

    def test_position(self) -> None:
        """A cursor is where its rows are, and is gone when it is closed."""
        session, watcher = self.session(), self.session()
        session.execute(f"set synchronize_seqscans = off; begin; declare c cursor for {self.rests}; fetch 1 from c")
        blocks, first = self.blocks(watcher), self.only(watcher, "sequential")
        session.execute("fetch 3 from c")
        later = self.only(watcher, "sequential")
        self.assertEqual(session.pid, later["pid"])
        self.assertEqual(blocks, later["position"] + later["blocks_left"])
        self.assertTrue(blocks * 0.1 < first["position"] < blocks * 0.25, first)
        self.assertTrue(blocks * 0.6 < later["position"] < blocks * 0.75, later)
        session.execute("close c")
        self.assertEqual([], self.scans(watcher, "sequential"))
        session.execute("commit")

    def test_what_it_reads_is_wanted(self) -> None:
        """Other sessions see its coming blocks, and no longer those behind it."""
        session, watcher = self.session(), self.session()
        session.execute(f"set synchronize_seqscans = off; begin; declare c cursor for {self.rests}; fetch 2 from c")
        with self.cluster.connect() as reader:  # brings the end of the table in
            reader.execute("select count(*) from events where ctid >= '(950,0)'")
        after = watcher.records("select predicted from pg_pagecast_buffers() where filenode = pg_relation_filenode('events')")
        self.assertGreater(int(after[0]["predicted"]), 0)
        session.execute("fetch all from c")
        after = watcher.records("select predicted from pg_pagecast_buffers() where filenode = pg_relation_filenode('events')")
        self.assertEqual(0, int(after[0]["predicted"]))
        session.execute("commit")

    def test_synchronized_start(self) -> None:
        """A scan that starts in the middle, where another is, has all blocks in front of it, and
        comes to those before its start last."""
        leader, follower, watcher = self.session(), self.session(), self.session()
        # Of this one the server does not know where the last scan was.
        make_events(watcher, "never_read")
        leader.execute(f"begin; declare c cursor for {self.rests.replace('events', 'never_read')}; fetch 3 from c")
        follower.execute("begin; declare c cursor for select id, pg_sleep(0.05) from never_read where id % 1000 = 0; fetch 1 from c")
        first = int(follower.rows("fetch 3 from c")[0][0])
        self.assertGreater(first, 20_000, "started where the leader is")
        positions = {scan["pid"]: int(scan["position"]) for scan in self.scans(watcher, "sequential")}
        blocks = self.blocks(watcher)
        self.assertLess(positions[str(follower.pid)], blocks * 0.2)
        self.assertGreater(positions[str(leader.pid)], blocks * 0.3)
        rows = follower.rows("fetch 40 from c")
        self.assertLess(int(rows[-1][0]), first, "wrapped")
        place = next(int(scan["position"]) for scan in self.scans(watcher, "sequential") if scan["pid"] == str(follower.pid))
        self.assertGreater(place, blocks * 0.6)
        follower.close()
        leader.close()
        watcher.execute("drop table never_read")

    def test_parallel(self) -> None:
        """All processes of a parallel scan are one registration."""
        session, watcher = self.session(), self.session()
        session.execute(PARALLEL)
        before = self.counter(watcher, "registered") - self.counter(watcher, "suspended")
        query = "select count(*) from events where case when id % 2000 = 0 then pg_sleep(0.02) is not null else false end"
        plan = session.value(f"explain (format json) {query}")
        self.assertIn("Parallel Aware\": true", plan)
        self.assertEqual("30", session.value(query))
        # One that a busy machine holds up for two seconds is suspended, and registers again.
        self.assertEqual(before + 1, self.counter(watcher, "registered") - self.counter(watcher, "suspended"))

    def test_an_idle_cursor_ages(self) -> None:
        """A cursor that nobody fetches from is suspended, and registers again when it goes on."""
        session, watcher = self.session(), self.session()
        session.execute(f"set synchronize_seqscans = off; begin; declare c cursor for {self.rests}; fetch 2 from c")
        before = self.only(watcher, "sequential")
        time.sleep(_IDLE_SECONDS)
        self.steer()
        self.assertEqual([], self.scans(watcher, "sequential"))
        session.execute("fetch 3 from c")
        self.assertGreater(self.only(watcher, "sequential")["position"], before["position"])

    def test_rescans(self) -> None:
        """A scan inside of nested loops begins anew each time."""
        session, watcher = self.session(), self.session()
        session.execute("set synchronize_seqscans = off; begin; declare c cursor for "
                        "select (select id from events where id >= a * 20000 limit 1) from (values (2), (1), (1)) as v (a)")
        session.execute("fetch 1 from c")
        self.assertGreater(self.only(watcher, "sequential")["position"], self.blocks(watcher) * 0.6)
        # That it went back is seen when it has; the next one then begins as a new scan.
        session.execute("fetch 1 from c")
        session.execute("fetch 1 from c")
        self.assertLess(self.only(watcher, "sequential")["position"], self.blocks(watcher) * 0.4)

    def test_scrolled_back(self) -> None:
        """A cursor that goes back is no longer registered; its rows are stock's (tests.answers)."""
        session, watcher = self.session(), self.session()
        session.execute(f"set synchronize_seqscans = off; begin; declare c scroll cursor for {self.rests}; fetch 5 from c")
        self.only(watcher, "sequential")
        session.execute("fetch backward 2 from c")
        self.assertEqual([], self.scans(watcher, "sequential"))
        self.assertEqual([("40000",), ("50000",)], [row[:1] for row in session.rows("fetch 2 from c")])

    def test_what_it_finds_and_reads(self) -> None:
        """Hits and reads are those that EXPLAIN has, once for each block, also where the table is
        scanned twice or by workers."""
        session, watcher = self.session(), self.session()
        blocks = self.blocks(watcher)

        def counted(sql: str) -> tuple[int, int]:
            watcher.execute("select pg_pagecast_reset()")
            session.execute(sql)
            row = watcher.records("select hits, reads from pg_pagecast_relations where relation = 'events'::regclass")[0]
            return int(row["hits"]), int(row["reads"])

        session.execute("create temp table plans (line json); create function pg_temp.explained(text) returns json language plpgsql as "
                        "'declare line json; begin execute ''explain (analyze, buffers, format json) '' || $1 into line; return line; end'")
        hits, reads = counted("insert into plans select pg_temp.explained('select count(*) from events')")
        # Above the scan there is an aggregate.
        said = session.rows("select (line#>>'{0,Plan,Plans,0,Shared Hit Blocks}')::int, (line#>>'{0,Plan,Plans,0,Shared Read Blocks}')::int from plans")[0]
        self.assertEqual((str(hits), str(reads)), said)
        self.assertEqual(blocks, hits + reads)
        self.assertGreater(reads, blocks / 2)
        self.assertEqual(2 * blocks, sum(counted("set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off; set enable_nestloop = off; "
                                                 "select count(*) from events a join events b using (id)")))
        self.assertEqual(blocks, sum(counted(f"{PARALLEL}; select count(*) from events")))

    def test_no_timer_is_left(self) -> None:
        """After an error that a block has caught, and while a cursor rests, the session sleeps
        until it is asked."""
        session = self.session()
        for statement in ("begin; do $$ begin perform sum(100 / (id - 30000)) from events; exception when division_by_zero then null; end $$",
                          "with copied as (insert into events select * from events where filler = 'none') select 1",
                          "rollback; begin; declare c cursor for select id from events; fetch 30000 from c"):
            session.execute(statement)
            before = self.wakes(session.pid)
            time.sleep(0.5)
            self.assertLess(self.wakes(session.pid) - before, 10, "a timer of 10 ms would have woken it 50 times")

    def wakes(self, pid: int) -> int:
        """How often a process has gone to sleep, hence woken."""
        status = Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE).group(1))

    def test_not_worth_it(self) -> None:
        """Small tables, and sessions with it off, register nothing."""
        session, watcher = self.session(), self.session()
        session.execute("create table few as select i from generate_series(1, 1000) i; analyze few")
        before = self.counter(watcher, "registered")
        session.execute("select count(*) from few; set pg_pagecast.enabled = off; select count(*) from events")
        self.assertEqual(before, self.counter(watcher, "registered"))


class Index(ScanTest):
    """Index scans, of which every block that they come to is seen: across the table, behind each
    other."""

    # Marks are twice as many as buffers. There are none while steering rests.
    settings = {"enable_seqscan": "off", "enable_bitmapscan": "off", "shared_buffers": "4MB", "pg_pagecast.read_time": "1ms"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        super().prepare(session)
        session.execute("create table mixed as select *, (hashint4(id) & 65535) as key from events; create index on mixed (key); "
                        "alter table mixed alter key set statistics 4; analyze mixed")

    def setUp(self) -> None:
        super().setUp()
        self.session().execute("select pg_pagecast_reset()")

    def begin(self, query: str, fetch: int) -> Connection:
        """A session that has read so many rows of a query."""
        session = self.session()
        session.execute(f"begin; declare c cursor for {query}; fetch {fetch} from c")
        return session

    def test_along_the_table(self) -> None:
        """A scan nearly in the table's order runs as on a stock server."""
        watcher = self.session()
        before = self.counter(watcher, "registered")
        self.begin("select * from events where id between 15000 and 45000", 10_000)
        self.assertEqual(before, self.counter(watcher, "registered"))

    def test_no_row_passes(self) -> None:
        """A scan whose filter lets nothing through is registered while it runs, and finished."""
        session, watcher = self.session(), self.session()
        before = self.counter(watcher, "registered")
        self.assertEqual("0", session.value("select count(*) from mixed where key > 5000 and amount < 0"))
        self.assertEqual(before + 1, self.counter(watcher, "registered"))

    def test_behind_each_other(self) -> None:
        """Pages that an index scan across the table has come to are wanted when another comes
        through the same entries later."""
        watcher = self.session()
        query = "select id, day, amount from mixed where key > 40000"
        predicted = "select predicted from pg_pagecast_buffers() where filenode = pg_relation_filenode('mixed')"
        leader = self.begin(query, 300)
        self.assertEqual(1, len(self.scans(watcher, "trailing index")))
        # Its own marks of the last sixteen entries say that they are wanted now.
        self.assertLessEqual(int(watcher.value(predicted)), 16, "nobody follows")
        follower = self.begin(query, 200)
        leader.execute("fetch 1000 from c")
        self.assertEqual(2, len(self.scans(watcher, "trailing index")))
        self.assertGreater(int(watcher.value(predicted)), 100)
        leader.execute("close c")
        self.assertGreater(int(watcher.value(predicted)), 100, "the leader's marks stay")
        follower.execute("fetch 3000 from c")
        self.assertLessEqual(int(watcher.value(predicted)), 16, "it has passed them all")

    def test_a_follower_finds_its_place(self) -> None:
        """One that begins with a key between two bounds of the histogram counts as the one in front
        does, once it meets its marks."""
        watcher = self.session()
        query = "select id, day, amount from mixed where key > {}"
        first = int(watcher.value("select count(*) from mixed where key between 2001 and 4000"))
        leader = self.begin(query.format(2000), first)
        follower = self.begin(query.format(4000), 100)
        leader.execute("fetch 300 from c")
        follower.execute("fetch 100 from c")
        scans = {scan["pid"]: scan for scan in self.scans(watcher, "trailing index")}
        # Both end with the index, so who has the same left is at the same place.
        ahead = int(scans[str(follower.pid)]["blocks_left"]) - int(scans[str(leader.pid)]["blocks_left"])
        self.assertAlmostEqual((300 - 200) / 16, ahead, delta=3)

    def test_scrolled_back(self) -> None:
        """A cursor that goes back is no longer registered."""
        watcher, session = self.session(), self.session()
        session.execute("begin; declare c scroll cursor for select key, filler from mixed where key > 20000; fetch 9000 from c")
        self.only(watcher, "trailing index")
        session.execute("fetch backward 500 from c")
        self.assertEqual([], self.scans(watcher, "trailing index"))
        session.execute("fetch 2000 from c")
        self.assertEqual([], self.scans(watcher, "trailing index"))

    def test_across_the_table_backwards_and_parallel(self) -> None:
        """Neither is registered; what they answer is what the sequential scan answers."""
        session, watcher = self.session(), self.session()
        total = watcher.rows("set enable_indexscan = off; set enable_seqscan = on; set pg_pagecast.enabled = off; "
                             "select count(amount), sum(amount) from mixed where key > 9000")
        before = self.counter(watcher, "registered")
        backwards = "select count(amount), sum(amount) from (select amount from mixed where key > 9000 order by key desc offset 0) as o"
        self.assertIn("Index Scan Backward", "".join(row[0] for row in session.rows(f"explain {backwards}")))
        self.assertEqual(total, session.rows(backwards))
        session.execute(PARALLEL)
        parallel = "select count(amount), sum(amount) from mixed where key > 9000"
        self.assertIn("Parallel Index Scan", "".join(row[0] for row in session.rows(f"explain {parallel}")))
        self.assertEqual(total, session.rows(parallel))
        self.assertEqual(before, self.counter(watcher, "registered"))

    def test_nested_loops(self) -> None:
        """Thousands of short scans register nothing; longer ones each do, and end."""
        session, watcher = self.session(), self.session()
        session.execute("set enable_hashjoin = off; set enable_mergejoin = off; set enable_memoize = off; set enable_material = off")
        before = self.counter(watcher, "registered")
        session.execute("select count(b.amount) from generate_series(1, 20000) a join events b on b.id = a")
        self.assertEqual(before, self.counter(watcher, "registered"))
        session.execute("select (select count(amount) from mixed where key between a and a + 9000) from generate_series(1, 40000, 10000) a")
        self.assertEqual(before + 4, self.counter(watcher, "registered"))
        self.assertEqual([], self.scans(watcher, "trailing index"))

    def test_an_idle_cursor_ages(self) -> None:
        """As that of a sequential scan."""
        watcher = self.session()
        session = self.begin("select * from mixed where key > 1000", 10_000)
        before = self.only(watcher, "trailing index")
        time.sleep(_IDLE_SECONDS)
        with self.cluster.connect() as other:
            other.execute("set enable_bitmapscan = on; set enable_indexscan = off; select sum(id) from events where day between 5 and 500")
        self.assertEqual([], self.scans(watcher, "trailing index"))
        session.execute("fetch 10000 from c")
        self.assertGreater(self.only(watcher, "trailing index")["position"], before["position"])

    def test_only_the_index(self) -> None:
        """An index-only scan reads the table only until it was vacuumed."""
        session, watcher = self.session(), self.session()
        watcher.execute("create table fresh as select * from mixed; create index on fresh (key); analyze fresh")
        before = self.counter(watcher, "registered")
        self.assertIn("Index Only", str(session.rows("explain select count(key) from fresh where key > 3")))
        session.execute("select count(key) from fresh where key > 3")
        self.assertEqual(before + 1, self.counter(watcher, "registered"))
        watcher.execute("vacuum analyze fresh")
        session.execute("select count(key) from fresh where key > 3")
        self.assertEqual(before + 1, self.counter(watcher, "registered"))
