"""What may go wrong in the middle of a chunk, beside neighbours that read the same chunks and go
on: their results are stock's, and no registration, chunk or pin is left."""

import threading
import time

from cluster import Lost, SqlError
from tests import faults
from tests.case import Run, ServerTest, make_events
from tests.cooperative import PARALLEL

_NO_INDEX = "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off"
_SLOW = "case when id % 4000 = 0 then pg_sleep(0.01) is not null else true end"
_SUMS = "select count(*), sum(amount), count(distinct id) from events"

_SCANS = [
    f"{_NO_INDEX}; {_SUMS}",
    f"{_NO_INDEX}; {PARALLEL}; select count(*), sum(amount), sum(id) from events",
    f"{_NO_INDEX}; {_SUMS} where {_SLOW}",
    f"{_NO_INDEX}; {PARALLEL}; set parallel_leader_participation = off; select count(*), sum(amount) from events where {_SLOW}",
    f"{_NO_INDEX}; set enable_nestloop = off; select count(*), sum(a.id) from events a join events b on b.id = a.id + 1",
    f"{_NO_INDEX}; select a, (select sum(id) from events where id % 3 <> a) from generate_series(0, 2) a order by a",
]


class _Left:
    """After each test: nothing of a scan is left."""

    settings = {"pg_pagecast.cooperation_forced": "on"}

    def tearDown(self) -> None:
        self.doCleanups()
        super().tearDown()
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        """No chunk is wanted and no buffer pinned, once those who were ended have gone."""
        with self.cluster.connect() as session:
            session.execute("create extension if not exists pg_buffercache")
            end = time.monotonic() + 10
            while (left := (session.rows("select * from pg_pagecast_chunks()"), self._pins(session))) != ([], "0"):
                if time.monotonic() > end:
                    self.fail(f"chunks and pins that are left: {left}")
                time.sleep(0.05)
        Run.count("times that nothing was left: no registration, chunk or pin")

    @staticmethod
    def _pins(session) -> str:
        # The catalogs' pages are pinned by the query itself.
        return session.value("select count(*) from pg_buffercache where pinning_backends > 0 and relfilenode in "
                             "(select pg_relation_filenode(oid) from pg_class where oid >= 16384 and relkind = 'r')")


class CooperativeDeaths(_Left, faults.Deaths):
    """Sessions that end in the middle of chunks."""

    scans = _SCANS
    plans = _NO_INDEX
    cursor = "declare c no scroll cursor for select * from events"

    def with_neighbours(self, fault, hit) -> None:
        """Runs `fault(pids)` while sessions run `hit(session)` again and again, whatever ends
        them; two neighbours read the same table all the while and must not notice."""
        stop = threading.Event()
        pids: dict[int, int] = {}
        done = [0, 0]

        def victim(number: int):
            def work() -> None:
                while not stop.is_set():
                    try:
                        with self.cluster.connect() as session:
                            pids[number] = session.pid
                            while not stop.is_set():
                                hit(session)
                    except Lost:
                        time.sleep(0.01)
            return work

        def neighbour(number: int):
            def work() -> None:
                with self.cluster.connect() as session:
                    while not stop.is_set() or done[number] < 3:
                        scan = _SCANS[(number + done[number]) % len(_SCANS)]
                        self.assertEqual(self.expected[scan], self.answer(session, scan))
                        done[number] += 1
            return work

        def faulty() -> None:
            try:
                fault(pids)
            finally:
                stop.set()

        self.together(faulty, *map(victim, range(3)), *map(neighbour, range(2)))
        Run.count("scans of neighbours that went on", sum(done))

    def test_neighbours_of_those_who_are_ended(self) -> None:
        """pg_terminate_backend and pg_cancel_backend of sessions and of their workers."""
        def fault(pids: dict[int, int]) -> None:
            with self.cluster.connect() as session:
                for _ in range(60 * Run.rounds):
                    time.sleep(self.random.uniform(0, 0.06))
                    how, pid = self.random.choice(["terminate", "cancel"]), self.random.choice([*pids.values(), 0])
                    whom = self.random.choice(["pid", "leader_pid"])
                    found = session.rows(f"select pg_{how}_backend(pid) from pg_stat_activity where {whom} = {pid} and pid <> pg_backend_pid() limit 1")
                    Run.count(f"sessions and workers hit by pg_{how}_backend beside neighbours", len(found))

        def hit(session) -> None:
            try:
                session.execute(f"reset all; {self.random.choice(_SCANS)}")
            except Lost:
                raise
            except SqlError as error:
                self.assertIn(error.sqlstate, ("57014", "57P01"), str(error))

        self.with_neighbours(fault, hit)

    def test_errors_in_conditions(self) -> None:
        """Errors in the middle of a chunk: of queries, of workers, caught by a block, below a
        savepoint, and in a cursor."""
        failing = "sum(1000 / (id - {})) from events"
        ways = [f"{_NO_INDEX}; select {failing}", f"{_NO_INDEX}; {PARALLEL}; select {failing}",
                f"{_NO_INDEX}; begin; declare c no scroll cursor for select 1000 / (id - {{}}) from events; move 20000 in c; move all in c"]
        caught = (f"{_NO_INDEX}; do $$ declare n bigint; begin begin perform {failing}; exception when division_by_zero then null; end; "
                  "select count(*) into n from events; if n <> 60000 then raise 'of 60000 rows %', n; end if; end $$")

        def hit(session) -> None:
            number = self.random.randrange(1, 60_000)
            way = self.random.choice(ways)
            with self.assertRaises(SqlError) as failed:
                session.execute(way.format(number))
            self.assertEqual("22012", failed.exception.sqlstate, str(failed.exception))
            session.execute("rollback; reset all")
            session.execute(caught.format(number))
            session.execute(f"begin; {_NO_INDEX}; declare c no scroll cursor for select id from events; fetch 100 from c; savepoint s")
            with self.assertRaises(SqlError):
                session.execute("declare d no scroll cursor for select 1 / (id - 500) from events; move all in d")
            session.execute("rollback to s")
            self.assertEqual(59_900, len(session.rows("fetch all from c")))
            session.execute("commit; reset all")
            Run.count("errors in conditions, each in three ways")

        self.with_neighbours(lambda _: time.sleep(4 * Run.rounds), hit)

    def test_cursors_left_in_the_middle(self) -> None:
        """Closed, rolled back with their savepoint, left to the end of the transaction or of the
        session."""
        def hit(session) -> None:
            session.execute(f"{_NO_INDEX}; begin; declare a no scroll cursor for select id from events; savepoint s; declare b no scroll cursor for select id from events")
            session.execute(f"fetch {self.random.randrange(1, 9000)} from a; fetch {self.random.randrange(1, 9000)} from b")
            session.execute(self.random.choice(["close a; rollback", "rollback to s; commit", "commit", "rollback", "close all; commit", "discard plans"]))
            if self.random.random() < 0.3:
                raise Lost("leaves", None)
            session.execute("rollback")
            Run.count("pairs of cursors left in the middle")

        self.with_neighbours(lambda _: time.sleep(3 * Run.rounds), hit)


class CooperativeFullRegistry(_Left, faults.FullRegistry):
    """More cooperative scans than there is room for."""

    settings = {**faults.FullRegistry.settings, **_Left.settings}
    plans = "set local enable_bitmapscan = off; set local enable_indexscan = off"
    cursor = "no scroll cursor for select id from events where day between 5 and 500"


class CooperativeSmallRegistry(_Left, faults.FullRegistry):
    """Less memory than some scans need, which read as on a stock server beside those that found
    some; a suspended one may find none when it goes on."""

    settings = {**faults.FullRegistry.settings, **_Left.settings, "pg_pagecast.memory": "256kB"}

    @classmethod
    def setUpClass(cls) -> None:
        super(faults.FullRegistry, cls).setUpClass()

    @staticmethod
    def moved(session, move: str) -> int:
        """How many rows a MOVE went over."""
        return int(session.execute(move).tag.split()[1])

    def test_more_scans_than_room(self) -> None:
        """Cursors at once, suspended all, which then go on."""
        session, other = self.session(), self.session()
        rows = int(other.value("select count(*) from events"))
        session.execute(f"{_NO_INDEX}; begin")
        seen = [0] * 220
        for number in range(len(seen)):
            session.execute(f"declare c{number} no scroll cursor for select id from events")
            seen[number] += self.moved(session, f"move 5000 in c{number}")
        self.assertGreater(int(other.value("select refused from pg_pagecast_stats")), 0)
        said = self.cluster.log.read_text()
        self.assertIn('no room for a scan of "events", which runs without', said)
        self.assertIn("HINT:  Raise pg_pagecast.memory, which is 256kB", said)
        time.sleep(2.2)
        other.execute("select count(*) from events")
        for number in range(len(seen)):
            seen[number] += self.moved(session, f"move {5000 + number} in c{number}")
        for number in range(len(seen)):
            seen[number] += self.moved(session, f"move all in c{number}")
            self.assertEqual(rows, seen[number])
            Run.count("scans beside a full registry of chunks")
        session.execute("rollback")


class CooperativeMostScans(_Left, ServerTest):
    """More scans at once than may cooperate, whatever the settings are."""

    settings = {**_Left.settings, "pg_pagecast.max_scans": 1000, "pg_pagecast.memory": "64MB"}

    @classmethod
    def prepare(cls, session) -> None:
        make_events(session, rows=5_000)

    def test_no_setting_helps(self) -> None:
        """One query has 600 scans that have begun: 512 cooperate, the others read in order, and the
        log names no setting to raise."""
        session, watcher = self.session(), self.session()
        session.execute(f"{_NO_INDEX}")
        query = f"select {', '.join(f'(select id from events where id = {number + 1} limit 1)' for number in range(600))}"
        # Who is held up for two seconds in the middle is suspended, and makes room.
        for _ in range(20):
            before = int(watcher.value("select refused from pg_pagecast_stats"))
            row = session.rows(query)[0]
            self.assertEqual([str(number + 1) for number in range(600)], list(row))
            if int(watcher.value("select refused from pg_pagecast_stats")) - before == 88:
                break
        else:
            self.fail("never 512 scans at once")
        said = self.cluster.log.read_text()
        self.assertIn('no room for a scan of "events", which runs without cooperation', said)
        self.assertIn("HINT:  No more than 512 scans cooperate at once.", said)


class CooperativeCrashes(_Left, faults.Crashes):
    """The whole server dies under writes and cooperative scans."""

    settings = {**faults.Crashes.settings, **_Left.settings}


class CooperativeStandby(_Left, faults.Standby):
    """A standby that is read by chunks while it replays."""

    settings = {**faults.Standby.settings, **_Left.settings}
    plans = _NO_INDEX
