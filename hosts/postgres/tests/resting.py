"""Bitmap and index scans of a pool from which nothing is evicted: they rest, are where they are all
the same, and go on when somebody evicts."""

from cluster import Connection
from tests.case import make_events
from tests.scans import ScanTest

# Blocks after which an observed scan rests at the latest: it looks for calm from the first on, and
# is counted from the 32nd on.
_CALM = 256
# With the block at which it comes to rest, and in 18 the next, which its stream has asked for.
_MOST_COUNTED = _CALM + 2


class Resting(ScanTest):
    """All of the table is in the pool, of which the scans take less than a half; what is evicted is
    evicted for `large`."""

    settings = {"shared_buffers": "16MB", "enable_seqscan": "off"}
    plans = {
        "trailing index": "set enable_bitmapscan = off; set enable_indexscan = on",
        "bitmap": "set enable_bitmapscan = on; set enable_indexscan = off",
    }

    ranges = {"trailing index": "code >= 0", "bitmap": "id > 0"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        super().prepare(session)
        make_events(session, "large", 120_000)

    def calm_session(self, kind: str) -> Connection:
        """A session that scans in this way, with the table and its indexes in the pool."""
        session = self.session()
        session.execute(self.plans[kind])
        for _ in range(2):
            session.execute("select sum(amount) from events where id > 0; select sum(amount) from events where code >= 0")
        return session

    def counted(self, watcher: Connection) -> int:
        """Blocks that observers have counted."""
        return int(watcher.value("select coalesce(sum(hits + reads), 0) from pg_pagecast_relations where relation = 'events'::regclass"))

    def part_done(self, watcher: Connection, kind: str) -> float:
        """Where the one scan is, of its way."""
        scan = self.only(watcher, kind)
        return scan["position"] / (scan["position"] + scan["blocks_left"])

    def evict(self) -> None:
        """Another session's scan, for which buffers are looked at ahead of the hand."""
        with self.cluster.connect() as other:
            other.execute("set enable_indexscan = off; select sum(amount) from large where day between 5 and 1100")

    def test_few_blocks_are_counted(self) -> None:
        """The rest of the scan costs nothing, and its registration ends with it."""
        watcher = self.session()
        for kind in self.plans:
            with self.subTest(kind):
                session = self.calm_session(kind)
                blocks, before, registered = self.blocks(watcher), self.counted(watcher), self.counter(watcher, "registered")
                session.execute(f"select sum(amount) from events where {self.ranges[kind]}")
                self.assertEqual(registered + 1, self.counter(watcher, "registered"))
                counted = self.counted(watcher) - before
                self.assertTrue(_CALM / 2 < counted <= _MOST_COUNTED, f"{counted} of {blocks}")
                self.assertEqual(0, self.counter(watcher, "active"))

    def test_without_the_counts_of_the_server(self) -> None:
        """Where `track_counts` is off nothing tells where a resting index scan would be, so it does
        not rest; a bitmap scan does."""
        watcher = self.session()
        for kind, rests in (("trailing index", False), ("bitmap", True)):
            with self.subTest(kind):
                session = self.calm_session(kind)
                expected = session.value(f"select sum(amount) from events where {self.ranges[kind]}")
                session.execute("set track_counts = off")
                blocks, before = self.blocks(watcher), self.counted(watcher)
                self.assertEqual(expected, session.value(f"select sum(amount) from events where {self.ranges[kind]}"))
                counted = self.counted(watcher) - before
                self.assertTrue(counted <= _MOST_COUNTED if rests else counted > blocks * 0.9, f"{counted} of {blocks}")
                self.assertEqual(0, self.counter(watcher, "active"))

    def test_position(self) -> None:
        """A resting cursor is where its rows are."""
        watcher = self.session()
        for kind in self.plans:
            with self.subTest(kind):
                session = self.calm_session(kind)
                session.execute(f"begin; declare c cursor for select id, amount from events where {self.ranges[kind]}; fetch 30000 from c")
                self.assertAlmostEqual(0.5, self.part_done(watcher, kind), delta=0.05)
                session.execute("fetch 15000 from c")
                self.assertAlmostEqual(0.75, self.part_done(watcher, kind), delta=0.05)
                session.execute("commit")
                self.assertEqual([], self.scans(watcher, kind))

    def test_across_the_table(self) -> None:
        """One that counts its entries is where the server's count of them says."""
        watcher, session = self.session(), self.calm_session("trailing index")
        session.execute("begin; declare c cursor for select id, amount from events where code >= 0; fetch 20000 from c")
        first = self.only(watcher, "trailing index")["position"]
        session.execute("fetch 16000 from c")
        self.assertEqual(1000, self.only(watcher, "trailing index")["position"] - first, "sixteen entries to a unit")

    def test_goes_on_when_somebody_evicts(self) -> None:
        """What the scan finds is counted again, and it is still registered where it is."""
        watcher = self.session()
        for kind in self.plans:
            with self.subTest(kind):
                session = self.calm_session(kind)
                session.execute(f"begin; declare c cursor for select id, amount from events where {self.ranges[kind]}; fetch 30000 from c")
                steered = self.counter(watcher, "steered")
                self.evict()
                self.assertGreater(self.counter(watcher, "steered"), steered)
                # The timer looks at the end of each fetch, too.
                session.execute("fetch 1 from c")
                session.execute("fetch 6000 from c")
                # A scan across the table may count on from the marks of one that came before it,
                # where the histogram is as coarse as here.
                self.assertAlmostEqual(0.6, self.part_done(watcher, kind), delta=0.05 if kind == "bitmap" else 1)
                session.execute("commit")
                # Until it rested, and the 6000 rows on about a tenth of the blocks.
                self.assertGreater(self.counted(watcher), _CALM + self.blocks(watcher) // 12)

    def test_results(self) -> None:
        """Executions that begin anew while they rest return what they return without it."""
        queries = ["select a, (select sum(amount) from events where id between a and a + 40000) from generate_series(1, 20000, 4000) a",
                   "select a, (select sum(amount) from events where code between a and a + 900) from generate_series(1, 90, 30) a",
                   "select a, b.* from generate_series(1, 20000, 4000) a, lateral (select id, amount from events where id > a order by id limit 20000) b"]
        for kind in self.plans:
            session = self.calm_session(kind)
            for query in queries:
                with self.subTest(kind, query=query):
                    ours = session.rows(query)
                    session.execute("set pg_pagecast.enabled = off")
                    self.assertEqual(sorted(session.rows(query)), sorted(ours))
                    session.execute("set pg_pagecast.enabled = on")

    def test_an_error_that_is_caught(self) -> None:
        """Leaves no registration behind, and what comes after it runs."""
        watcher, session = self.session(), self.calm_session("trailing index")
        session.execute("""do $$ begin perform 1 / (id - 50000) from events where code >= 0 order by code; exception when division_by_zero then null; end $$""")
        self.assertEqual(0, self.counter(watcher, "active"))
        self.assertEqual("60000", session.value("select count(amount) from events where id > 0"))
