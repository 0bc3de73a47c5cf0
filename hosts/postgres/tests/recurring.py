"""Statements that come back: what one has read is expected again, and stays until then."""

import statistics
import time

from cluster import Connection
from tests.case import ServerTest, make_events

_BITMAP = "set enable_seqscan = off; set enable_indexscan = off; set max_parallel_workers_per_gather = 0"
_REPORT = "select count(*), sum(amount) from events where day between 100 and 130"


class Recurring(ServerTest):
    """A pool in which the report fits, and not the tables; reads as long as a disk's."""

    settings = {"shared_buffers": "4MB", "pg_pagecast.read_time": "1ms"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)
        make_events(session, "others")
        session.execute("create table days as select current_date - 600 + i / 100 + time '12:00' as day, repeat('x', 60) as filler from generate_series(1, 60000) i; "
                        "create index on days using brin (day) with (pages_per_range = 4); analyze days")

    def setUp(self) -> None:
        super().setUp()
        self.watcher = self.session()
        for (statement,) in self.watcher.rows("select statement from pg_pagecast_expected"):
            self.watcher.execute(f"select pg_pagecast_forget({statement})")

    def reporter(self) -> Connection:
        """A session whose queries are bitmap scans."""
        session = self.session()
        session.execute(_BITMAP)
        return session

    def expected(self) -> list[dict]:
        """The rows of the view."""
        return self.watcher.records("select * from pg_pagecast_expected order by runs")

    def test_a_report_is_expected_after_its_second_run(self) -> None:
        """Not after the first, of which no gap is known. The view says where and when, and the
        statement can be forgotten."""
        reporter = self.reporter()
        reporter.execute(_REPORT)
        first = self.expected()
        self.assertEqual([("1", None, None)], [(row["runs"], row["expected"], row["blocks"]) for row in first])
        time.sleep(1)
        reporter.execute(_REPORT)
        (second,) = self.expected()
        self.assertEqual(("2", "events", "bitmap"), (second["runs"], second["relation"], second["kind"]))
        self.assertGreater(int(second["blocks"]), 32)
        ahead = self.watcher.value("select extract(epoch from expected - last_run) from pg_pagecast_expected")
        self.assertAlmostEqual(1, float(ahead), delta=0.5)
        self.assertEqual("0", self.watcher.value("select active from pg_pagecast_stats"), "an expected scan does not run")
        self.assertEqual("t", self.watcher.value(f"select pg_pagecast_forget({second['statement']})"))
        self.assertEqual("f", self.watcher.value(f"select pg_pagecast_forget({second['statement']})"))
        self.assertEqual([], self.expected())

    def test_a_scheduler_says_when_it_comes_again(self) -> None:
        """It is expected after its first run then."""
        reporter = self.reporter()
        reporter.execute(f"set pg_pagecast.again_in = '1d'; {_REPORT}")
        rows = self.watcher.rows("select runs, extract(epoch from expected - last_run), blocks > 32 from pg_pagecast_expected")
        self.assertEqual([("1", 86_400, "t")], [(runs, round(float(gap)), wanted) for runs, gap, wanted in rows])
        self.assertIn("again_in", str(self.refusal(reporter, "set pg_pagecast.again_in = '-1'")))

    def test_its_pages_stay(self) -> None:
        """Other queries read twice the pool, each page once: the report finds most of its pages,
        and with the forecast dropped, few."""
        reporter, others = self.reporter(), self.session()

        def read_in_next_run() -> float:
            before = self.blocks("events")
            reporter.execute(_REPORT)
            after = self.blocks("events")
            return (after[0] - before[0]) / (after[0] - before[0] + after[1] - before[1])

        def others_read() -> None:
            for block in range(900):
                others.rows(f"select amount from others where ctid = '({block},1)'")

        # Until the pool holds what it does in the long run, and the rhythm is known.
        for _ in range(4):
            others_read()
            reporter.execute(_REPORT)
            time.sleep(0.5)
        found = []
        for _ in range(5):
            others_read()
            found.append(read_in_next_run())
            time.sleep(0.5)
        kept = statistics.median(found)
        for row in self.expected():
            self.watcher.execute(f"select pg_pagecast_forget({row['statement']})")
        others_read()
        lost = read_in_next_run()
        self.assertLess(kept, 0.4, found)
        self.assertGreater(lost, 0.8)

    def blocks(self, table: str) -> tuple[int, int]:
        """Blocks of a table that registered scans have read and found."""
        rows = self.watcher.rows(f"select reads, hits from pg_pagecast_relations where relation = '{table}'::regclass")
        return tuple(map(int, rows[0])) if rows else (0, 0)

    def test_literals_say_which_report_it_is(self) -> None:
        """Of two ranges, literal or bound, each has its name; a sequential scan, where it is by
        itself, reads all whatever it looks for."""
        reporter = self.reporter()
        for first in (100, 200, 100):
            reporter.execute(_REPORT.replace("100 and 130", f"{first} and {first + 30}"))
        self.assertEqual(["1", "2"], [row["runs"] for row in self.expected()])
        reporter.execute("set plan_cache_mode = force_generic_plan; prepare report(int, int) as select sum(amount) from events where day between $1 and $2")
        for first in (300, 400, 300):
            reporter.execute(f"execute report({first}, {first + 30})")
        self.assertEqual(["1", "1", "2", "2"], [row["runs"] for row in self.expected()])
        reporter.execute("set enable_seqscan = on; set enable_bitmapscan = off; set pg_pagecast.cooperation = off")
        for code in (1, 2):
            reporter.execute(f"select count(*) from events where code + 1 = {code}")
        self.assertEqual(["1", "1", "2", "2", "2"], [row["runs"] for row in self.expected()])

    def test_days_count_by_their_age(self) -> None:
        """Two hours of the same day of the last year are one report, which tomorrow's is, too; days
        of long ago stay themselves."""
        reporter = self.reporter()

        def report(day: str, hour: int) -> None:
            reporter.execute(f"select count(*) from days where day > '{day} {hour:02}:00' and day < '{day} {hour:02}:00'::timestamp + interval '100 days'")

        recent, old = self.watcher.rows("select to_char(current_date - 300, 'yyyy-mm-dd'), to_char(current_date - 500, 'yyyy-mm-dd')")[0]
        report(recent, 1)
        report(recent, 5)
        self.assertEqual(["2"], [row["runs"] for row in self.expected()])
        report(old, 1)
        report(old, 5)
        self.assertEqual(["1", "1", "2"], [row["runs"] for row in self.expected()])

    def test_what_says_nothing_of_the_next_run(self) -> None:
        """A scan that ends early, the inner side of a join, and a session that is switched off."""
        reporter = self.reporter()
        for _ in range(2):
            reporter.execute("select * from events where day between 100 and 400 limit 10")
            time.sleep(0.1)
        self.assertEqual([None], [row["blocks"] for row in self.expected()])
        self.watcher.execute(f"select pg_pagecast_forget({self.expected()[0]['statement']})")
        join = "select sum(n) from (values (100), (200), (300)) v(d), lateral (select count(*) n from events where day between v.d and v.d + 30) e"
        self.assertIn("Bitmap", str(reporter.rows(f"explain {join}")))
        reporter.execute(join)
        self.assertEqual([], self.expected())
        reporter.execute(f"set pg_pagecast.enabled = off; {_REPORT}")
        self.assertEqual([], self.expected())

    def test_who_may_look_and_forget(self) -> None:
        """As the other views; forgetting is a superuser's."""
        self.watcher.execute("create role looker login in role pg_monitor; create role stranger login")
        looker, stranger = self.session(user="looker"), self.session(user="stranger")
        looker.rows("select * from pg_pagecast_expected")
        self.assertEqual("42501", self.refusal(stranger, "select * from pg_pagecast_expected").sqlstate)
        for session in (looker, stranger):
            self.assertEqual("42501", self.refusal(session, "select pg_pagecast_forget(1)").sqlstate)


class RecurringFull(ServerTest):
    """More statements than there are places for scans: expected ones give way to running ones."""

    settings = {"shared_buffers": "4MB", "pg_pagecast.max_scans": 4, "pg_pagecast.memory": "256kB"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)

    def test_no_scan_is_refused_for_an_expected_one(self) -> None:
        """Twenty reports in turn, thrice."""
        reporter, watcher = self.session(), self.session()
        reporter.execute(_BITMAP)
        for _ in range(3):
            for first in range(20):
                reporter.execute(f"select count(*) from events where day between {first * 20 + 10} and {first * 20 + 30}")
        self.assertEqual("0", watcher.value("select refused from pg_pagecast_stats"))
        rows = watcher.records("select * from pg_pagecast_expected")
        self.assertEqual(20, len(rows))
        shown = [row for row in rows if row["blocks"]]
        self.assertLessEqual(len(shown), 4)
        self.assertGreater(len(shown), 0)


class RecurringOff(ServerTest):
    """With pg_pagecast.forecast = off nothing is learned."""

    settings = {"pg_pagecast.forecast": "off"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)

    def test_nothing_is_learned(self) -> None:
        """And the server computes no queryid for our sake."""
        session = self.session()
        session.execute(f"{_BITMAP}; {_REPORT}; {_REPORT}")
        self.assertEqual([], session.rows("select * from pg_pagecast_expected"))
        self.assertNotIn("Query Identifier", str(session.rows(f"explain verbose {_REPORT}")))
