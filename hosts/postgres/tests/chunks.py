"""What is shown of cooperative scans: chunks done, waited for and shared, in the views and under
EXPLAIN."""

import re

from tests.case import ServerTest, make_events

_LINE = re.compile(r"\s*Chunks read together by pg_pagecast: (\d+), (\d+) of them from other scans' reads")
_PARALLEL = ("set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0; "
             "set parallel_leader_participation = off")


class Chunks(ServerTest):
    """A table of twice the pool, of which a cursor has read a part."""

    settings = {"shared_buffers": "4MB", "pg_pagecast.cooperation": "on"}

    @classmethod
    def prepare(cls, session) -> None:
        make_events(session)
        session.execute("create role anybody login; create role watcher login in role pg_monitor; grant select on events to anybody, watcher")
        session.execute("vacuum analyze events")

    def setUp(self) -> None:
        super().setUp()
        self.watcher = self.session(user="watcher")

    def cursor(self, rows: int):
        """A session with a cursor that has fetched so many of the 60,000 rows."""
        session = self.session()
        session.execute(f"begin; declare c no scroll cursor for select * from events; fetch {rows} from c")
        return session

    def beside(self, rows: list[int], look):
        """What `look` sees beside cursors that have fetched so many rows. A cursor that rests for
        two seconds is suspended, and on a busy machine that is soon; then they are made anew."""
        for _ in range(20):
            sessions = [self.cursor(count) for count in rows]
            try:
                seen = look(*sessions)
                kept = self.watcher.rows("select pid from pg_pagecast_scans where kind = 'cooperative' and chunks is not null")
            finally:
                for session in sessions:
                    session.execute("rollback")
            if {str(session.pid) for session in sessions} <= {pid for pid, in kept}:
                return seen
        self.fail("cursors are suspended before anybody can look")

    def scan_of(self, session) -> dict:
        """What pg_pagecast_scans shows of a session's only scan."""
        found = self.watcher.records(f"select * from pg_pagecast_scans where pid = {session.pid}")
        return found[0] if found else {}

    def test_a_cooperative_scan_is_shown(self) -> None:
        """Chunks done, and those still to come that are not in the pool, from fetch to fetch."""
        def look(runner) -> tuple[dict, dict]:
            first = self.scan_of(runner)
            runner.execute("fetch 20000 from c")
            return first, self.scan_of(runner)

        first, later = self.beside([20_000], look)
        self.assertEqual(("cooperative", "events"), (first["kind"], first["relation"]))
        chunks, done = int(first["chunks"]), int(first["chunks_done"])
        self.assertGreater(done, 0)
        self.assertLessEqual(int(first["chunks_waited_for"]), chunks - done)
        self.assertEqual(chunks, int(later["chunks"]))
        self.assertGreater(int(later["chunks_done"]), done)
        self.assertEqual([], self.watcher.rows("select * from pg_pagecast_scans"))

    def test_other_scans_have_no_chunks(self) -> None:
        """A bitmap scan's row has nothing in these columns."""
        runner = self.session()
        runner.execute("begin; set local enable_seqscan = off; set local enable_indexscan = off; "
                       "declare c cursor for select * from events where day between 100 and 400; fetch 100 from c")
        shown = self.scan_of(runner)
        self.assertEqual([None] * 4, [shown[name] for name in ("chunks", "chunks_done", "chunks_waited_for", "chunks_shared")])
        runner.execute("rollback")

    def test_wanted_chunks(self) -> None:
        """By how many scans each chunk is wanted, and how many of them are in the pool."""
        shown, wanted = self.beside([20_000], lambda runner: (self.scan_of(runner), self.wanted()))
        left = int(shown["chunks"]) - int(shown["chunks_done"])
        self.assertEqual({1}, set(wanted) - {0}, "one scan")
        self.assertEqual(left - 2, wanted[1], "one is read now, and the next one is asked for")
        wanted, rows = self.beside([20_000, 1_000], lambda *_: (self.wanted(), self.watcher.records("select * from pg_pagecast_chunks")))
        self.assertIn(2, wanted)
        self.assertEqual(int(shown["chunks"]), sum(wanted.values()))
        self.assertEqual({"events"}, {row["relation"] for row in rows})
        self.assertGreater(sum(int(row["resident"]) for row in rows), 0)
        blocks = int(self.watcher.value("select pg_relation_size('events') / 8192"))
        self.assertIn(sum(int(row["blocks"]) for row in rows) // 64, (blocks // 64, blocks // 64 + 1))
        self.assertEqual({}, self.wanted())

    def wanted(self) -> dict[int, int]:
        """Chunks by the number of scans that want them."""
        return {int(scans): int(chunks) for scans, chunks in self.watcher.rows("select wanted_by, chunks from pg_pagecast_chunks")}

    def test_counters(self) -> None:
        """Who finds what a cursor has brought is spared its bytes; reset clears them."""
        reader = self.session()
        reader.execute("select pg_pagecast_reset()")
        other = self.cursor(15_000)
        reader.execute("select sum(amount) from events")
        stats = self.watcher.records("select * from pg_pagecast_stats")[0]
        self.assertGreater(int(stats["chunks"]), int(stats["chunks_shared"]))
        self.assertGreater(int(stats["chunks_shared"]), 0)
        # The last chunk of the table is shorter, and each of the two scans may have found it.
        short = 64 * 8192 * int(stats["chunks_shared"]) - int(stats["bytes_spared"])
        self.assertIn(short, range(2 * 64 * 8192))
        other.execute("rollback")
        reader.execute("select pg_pagecast_reset()")
        stats = self.watcher.records("select * from pg_pagecast_stats")[0]
        self.assertEqual(["0"] * 3, [stats[name] for name in ("chunks", "chunks_shared", "bytes_spared")])

    def test_explain(self) -> None:
        """The line says how many chunks there were, and how many of them others had read; also of
        parallel workers without their leader, and none of scans in order."""
        reader = self.session()
        chunks, shared = self.explained(reader)
        self.assertGreater(chunks, 8)
        other = self.cursor(15_000)
        self.assertGreater(self.explained(reader)[1], 0)
        reader.execute(_PARALLEL)
        self.assertGreaterEqual(self.explained(reader)[0], chunks)
        other.execute("rollback")
        reader.execute("set pg_pagecast.cooperation = off")
        self.assertIsNone(self.explained(reader))
        self.assertLessEqual(shared, chunks)

    def explained(self, session) -> tuple[int, int] | None:
        """The numbers of the line under EXPLAIN (ANALYZE)."""
        found = [_LINE.fullmatch(row) for row, in session.rows("explain (analyze, timing off) select sum(amount) from events")]
        lines = [match for match in found if match]
        return tuple(map(int, lines[0].groups())) if lines else None

    def test_auto_explain(self) -> None:
        """The same line behind the plan in the log."""
        session = self.session()
        before = self.cluster.log.stat().st_size
        session.execute("load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on; select sum(amount) from events")
        said = self.cluster.log.read_text()[before:].splitlines()
        self.assertEqual(1, len([line for line in said if _LINE.fullmatch(line)]), said)

    def test_privileges(self) -> None:
        """The view of chunks is for those who watch the server."""
        self.watcher.rows("select * from pg_pagecast_chunks")
        self.assertEqual("42501", self.refusal(self.session(user="anybody"), "select * from pg_pagecast_chunks").sqlstate)


class ChunksInPool(ServerTest):
    """A table of more than a quarter of the pool that is all in the pool."""

    settings = {"shared_buffers": "24MB"}

    @classmethod
    def prepare(cls, session) -> None:
        make_events(session)
        session.execute("vacuum analyze events")

    def test_nothing_to_share(self) -> None:
        """Its scans read as stock's do, alone and in parallel, unless cooperation is forced; once a
        part of it has gone they cooperate."""
        session = self.session()

        def taken() -> int:
            before = int(session.value("select chunks from pg_pagecast_stats"))
            session.execute("select sum(amount) from events")
            return int(session.value("select chunks from pg_pagecast_stats")) - before

        self.assertEqual("t", session.value("select pg_relation_size('events') > pg_size_bytes(current_setting('shared_buffers')) / 4"))
        self.assertEqual(0, taken())
        session.execute(_PARALLEL)
        self.assertEqual(0, taken())
        session.execute("set max_parallel_workers_per_gather = 0; set pg_pagecast.cooperation_forced = on")
        self.assertGreater(taken(), 0)
        session.execute("reset pg_pagecast.cooperation_forced")
        self.assertEqual(0, taken())
        # After a restart nothing of it is there.
        self.cluster.stop()
        self.cluster.start()
        session = self.session()
        self.assertGreater(taken(), 0)
