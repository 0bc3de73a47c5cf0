"""Scans that have read their last block are no longer registered, however long their query goes on:
partitions one after the other, the inner side of a join."""

from cluster import Connection
from tests.case import make_events
from tests.scans import PARALLEL, ScanTest

_PARTITIONS = 560
# One more than the least for which a bitmap is registered.
_BLOCKS = 33
# By the kind of scan as the views call it.
_PLANS = {kind: f"set enable_seqscan = {sequential}; set enable_bitmapscan = {bitmap}; set enable_indexscan = {index}; set enable_indexonlyscan = off; "
                "set synchronize_seqscans = off; set max_parallel_workers_per_gather = 0"
          for kind, sequential, bitmap, index in (("bitmap", "off", "on", "off"), ("sequential", "on", "off", "off"), ("trailing index", "off", "off", "on"))}


class Partitions(ScanTest):
    """One bitmap scan after the other of a query, under a pool that is smaller than the table by
    far, and holds the block that each scan of a query keeps to its end."""

    settings = {"shared_buffers": "32MB"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        # A row for each block.
        session.execute(f"""
            create table parts (part int, key int, filler text) partition by list (part);
            alter table parts alter filler set storage plain;
            do $$ begin for part in 1..{_PARTITIONS} loop
                execute format('create table part_%1$s partition of parts for values in (%1$s) with (fillfactor = 10)', part);
            end loop; end $$;
            insert into parts select part, key, repeat('x', 800) from generate_series(1, {_PARTITIONS}) part, generate_series(1, {_BLOCKS}) key;
            create index on parts using brin (key) with (pages_per_range = 1);
            analyze parts;
            create function active() returns bigint language sql volatile parallel safe as 'select active from pg_pagecast_stats()'""")

    def partitioned(self) -> Connection:
        """A session with a cursor in the middle of a partition."""
        session = self.session()
        session.execute(_PLANS["bitmap"])
        session.execute(f"begin; declare c no scroll cursor for select part from parts where key > 0; move {70 * _BLOCKS - 10} in c")
        return session

    def test_one_select_over_many_partitions(self) -> None:
        """Of its 560 scans none is refused, and a second session sees one at a time."""
        watcher = self.session()
        refused, registered = self.counter(watcher, "refused"), self.counter(watcher, "registered")
        session = self.partitioned()
        for _ in range(7):
            self.assertEqual(1, len(self.scans(watcher, "bitmap")))
            self.assertEqual(1, self.counter(watcher, "active"))
            session.execute(f"move {70 * _BLOCKS} in c")
        session.execute("move all in c")
        self.assertEqual(0, self.counter(watcher, "active"), "the last has ended, too, though the cursor is open")
        self.assertEqual(_PARTITIONS, self.counter(watcher, "registered") - registered)
        self.assertEqual(refused, self.counter(watcher, "refused"))

    def test_beside_two_such_sessions(self) -> None:
        """A third finds room for each of its scans."""
        watcher, third = self.session(), self.session()
        before = self.partitioned(), self.partitioned()
        self.assertEqual(2, self.counter(watcher, "active"))
        refused, registered = self.counter(watcher, "refused"), self.counter(watcher, "registered")
        third.execute(_PLANS["bitmap"])
        for part in range(1, 36):
            third.execute(f"select count(*) from part_{part} where key > 0")
        self.assertEqual(35, self.counter(watcher, "registered") - registered)
        self.assertEqual(refused, self.counter(watcher, "refused"))
        for session in before:
            session.close()

    def test_parallel(self) -> None:
        """Whoever of the processes reads the last block of a partition ends its scan; but for those
        few that were read before they were registered."""
        watcher, session = self.session(), self.session()
        session.execute(f"{_PLANS['bitmap']}; {PARALLEL}; set max_parallel_workers_per_gather = 1; set enable_parallel_append = off")
        refused, registered = self.counter(watcher, "refused"), self.counter(watcher, "registered")
        query = "select count(*), max(case when key = 20 then active() end) from parts where key > 0"
        self.assertIn("Parallel Bitmap Heap Scan", str(session.rows(f"explain {query}")))
        rows, most = session.rows(query)[0]
        self.assertEqual(_PARTITIONS * _BLOCKS, int(rows))
        self.assertLess(int(most), 64)
        self.assertGreater(self.counter(watcher, "registered") - registered, _PARTITIONS / 2)
        self.assertEqual(refused, self.counter(watcher, "refused"))


class InPool(ScanTest):
    """Under a pool that holds all tables: scans rest, and nothing of theirs is called when they
    end."""

    settings = {"shared_buffers": "64MB", "pg_pagecast.max_scans": 1}
    ranges = {"bitmap": "day > 0", "sequential": "id > 0", "trailing index": "code > 0"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        for part in range(4):
            make_events(session, f"events_{part}", 30_000)

    def warm_session(self, kind: str) -> Connection:
        """A session that scans in this way, with all it reads in the pool."""
        session = self.session()
        session.execute(_PLANS[kind])
        for _ in range(2):
            session.execute(f"select sum(amount) from ({self.all_parts(self.ranges[kind])}) parts")
        return session

    def all_parts(self, condition: str) -> str:
        """A query that reads the tables one after the other."""
        return " union all ".join(f"select id, amount from events_{part} where {condition}" for part in range(4))

    def test_one_after_the_other(self) -> None:
        """A scan that begins ends the registration of the one before it."""
        watcher = self.session()
        for kind, condition in self.ranges.items():
            with self.subTest(kind):
                session = self.warm_session(kind)
                before = self.counter(watcher, "registered")
                session.execute(f"begin; declare c no scroll cursor for {self.all_parts(condition)}; move 20000 in c")
                for _ in range(3):
                    self.assertEqual(1, len(self.scans(watcher, kind)))
                    self.assertEqual(1, self.counter(watcher, "active"))
                    session.execute("move 30000 in c")
                session.execute("move all in c")
                self.assertEqual([], self.scans(watcher, kind))
                self.assertEqual(4, self.counter(watcher, "registered") - before)
                session.execute("commit")

    def test_the_inner_side_of_a_join(self) -> None:
        """While the outer side is gone through the hash table's scan is shown no more, and its
        place is given to who needs it."""
        watcher = self.session()
        for kind, condition in self.ranges.items():
            with self.subTest(kind):
                session = self.warm_session(kind)
                refused, suspended = self.counter(watcher, "refused"), self.counter(watcher, "suspended")
                session.execute("set enable_nestloop = off; set enable_mergejoin = off; begin; declare c no scroll cursor for "
                                f"select * from generate_series(1, 100000) outer_side (id) left join (select id from events_0 where {condition}) as inner_side using (id); fetch 1 from c")
                self.assertEqual([], self.scans(watcher, kind))
                watcher.execute(f"{_PLANS['bitmap']}; select count(*) from events_1 where day > 0")
                self.assertEqual(refused, self.counter(watcher, "refused"))
                self.assertEqual(suspended, self.counter(watcher, "suspended"))
                session.execute("commit")

    def test_begun_anew(self) -> None:
        """A scan whose registration has ended registers again in its next execution."""
        watcher = self.session()
        for kind, condition in self.ranges.items():
            with self.subTest(kind):
                session = self.warm_session(kind)
                session.execute("set enable_material = off; set enable_hashjoin = off; set enable_mergejoin = off; set join_collapse_limit = 1")
                once = session.value(f"select sum(id) from events_0 where {condition} and id > 0")
                # What rests is looked at every 10 ms, so each execution takes longer than that.
                slow = f"{condition} and id + n > 0 and (id % 9999 <> 0 or pg_sleep(0.03) is not null)"
                twice = ("select sum(id) from (values (1), (2)) as turn (n) cross join lateral "
                         f"(select id from events_0 where {slow} union all select id from events_1 where {slow}) as parts")
                before = self.counter(watcher, "registered")
                self.assertEqual(4 * int(once), int(session.value(twice)))
                self.assertGreaterEqual(self.counter(watcher, "registered") - before, 4)
                self.assertEqual(0, self.counter(watcher, "active"))
