"""Portals and cursors whose settings change before they run, between two of their fetches, or while
they are paused: each row comes once, and who may change which setting."""

import time

from cluster import SqlError
from cluster.wire import Portals
from tests.case import Run, ServerTest
from tests.cooperative import PARALLEL, CooperativeTest

_IDLE_SECONDS = 2.2
_PLAIN = "reset all; set enable_indexscan = off"


class CooperativePortals(CooperativeTest):
    """Plans that are started by one message and run by another."""

    settings = {"max_worker_processes": 16, "max_parallel_workers": 12, "pg_pagecast.max_scans": 8}

    @classmethod
    def prepare(cls, session) -> None:
        super().prepare(session)
        session.execute("create table other as select * from events; analyze other; "
                        "create function nested(int) returns bigint language plpgsql parallel restricted as "
                        "'declare n bigint; begin select count(*) into n from other where id % 7 <> $1; return n; end'")

    def test_settings_change_before_it_runs(self) -> None:
        """Workers take the settings that hold when they start, and their leader has observed its
        plan, or not, by those before. A query of its own that it runs in between, parallel too,
        ends nothing of theirs."""
        query = "select id, case when id % 2000 = 5 then nested(8) end from events where id > 0"
        rows = int(self.session().value("select count(*) from events"))
        for setting in ("enabled", "cooperation", "cooperation_forced"):
            for start, later in (("on", "on"), ("off", "on"), ("on", "off")):
                for leader in ("on", "off"):
                    with Portals(self.cluster.folder) as session:
                        session.execute(f"{PARALLEL}; set parallel_leader_participation = {leader}; set pg_pagecast.{setting} = {start}; begin")
                        session.bind("p", query)
                        session.execute(f"set pg_pagecast.{setting} = {later}")
                        found = session.fetch("p")
                    self.assertEqual((rows, rows), (len(found), len(set(found))), f"{setting} {start}, then {later}; leader {leader}")
                    Run.count("parallel portals that run with other settings than they start with")

    def test_in_pieces(self) -> None:
        """A parallel plan that is fetched from without workers, and paused."""
        rows = int(self.session().value("select count(*) from events"))
        with Portals(self.cluster.folder) as session:
            session.execute(f"{PARALLEL}; begin")
            session.bind("p", "select id from events where id > 0")
            found = session.fetch("p", 7000)
            time.sleep(_IDLE_SECONDS)
            self.session().execute("select count(*) from events")
            found += session.fetch("p", 9000)
            session.execute("set pg_pagecast.enabled = off")
            found += session.fetch("p")
        self.assertEqual((rows, rows), (len(found), len(set(found))))

    def test_executions_that_do_not_end(self) -> None:
        """A parallel scan that is executed again and again, each time for a few rows, has one
        registration and not one for each."""
        session, watcher = self.session(), self.session()
        session.execute(f"{PARALLEL}; set enable_hashjoin = off; set enable_mergejoin = off; set enable_material = off; set enable_memoize = off; "
                        "create function some_of(int) returns bigint language sql parallel restricted as 'select $1::bigint'")
        query = ("select a, n from generate_series(1, 20) a, lateral (select count(*) n from "
                 "(select id from events where id % 3 <> 1 limit 7) as o where some_of(a) > 0) as x order by 1")
        before = int(watcher.value("select refused from pg_pagecast_stats"))
        self.assertEqual([(str(number), "7") for number in range(1, 21)], session.rows(query))
        self.assertEqual(before, int(watcher.value("select refused from pg_pagecast_stats")))
        session.execute("drop function some_of")


class ForcedCursors(ServerTest):
    """Cursors over tables of all sizes that cooperation is forced for, or not."""

    settings = {"shared_buffers": "4MB"}
    _SIZES = [2, 3, 5, 9, 17, 31, 33, 64, 65, 127, 200, 257, 300, 600]
    _SWITCHES = [f"set {name} = {value}" for name in ("pg_pagecast.cooperation", "pg_pagecast.cooperation_forced", "pg_pagecast.enabled", "synchronize_seqscans")
                 for value in ("on", "off")]

    @classmethod
    def prepare(cls, session) -> None:
        for size in cls._SIZES:
            session.execute(f"create table t{size} (i int, f text); alter table t{size} alter f set storage plain; "
                            f"insert into t{size} select i, repeat('x', 3900) from generate_series(1, {2 * size}) i; analyze t{size}")

    def _switch(self, session) -> None:
        session.execute(self.random.choice([f"{_PLAIN}; set pg_pagecast.cooperation_forced = on"] * 8 + self._SWITCHES))

    def _fetch(self, session, cursors: dict, name: str, most: int) -> None:
        cursors[name][1].extend(int(row[0]) for row in session.rows(f"fetch {self.random.randrange(1, most)} from {name}"))

    def test_across_pauses(self) -> None:
        """Cursors that are paused until they are suspended, and whose settings change before they
        begin, in the middle and before they go on: each row once."""
        session, other = self.session(), self.session()
        before = int(other.value("select suspended from pg_pagecast_stats"))
        for _ in range(2 * Run.rounds):
            session.execute("begin")
            cursors: dict[str, tuple[int, list[int]]] = {}
            for number in range(60):
                self._switch(session)
                size = self.random.choice(self._SIZES)
                cursors[f"c{number}"] = (size, [])
                session.execute(f"declare c{number} {self.random.choice(['no scroll', 'no scroll', 'scroll', ''])} cursor for select i from t{size}")
                if self.random.random() < 0.8:
                    self._switch(session)
                    self._fetch(session, cursors, f"c{number}", 2 * size + 3)
            for pause in (0, _IDLE_SECONDS, _IDLE_SECONDS):
                time.sleep(pause)
                other.execute("set pg_pagecast.cooperation_forced = on; select count(*) from t600")
                for name in self.random.sample(sorted(cursors), 30):
                    self._switch(session)
                    self._fetch(session, cursors, name, 200)
            for name, (size, seen) in cursors.items():
                self._switch(session)
                seen.extend(int(row[0]) for row in session.rows(f"fetch all from {name}"))
                self.assertEqual(list(range(1, 2 * size + 1)), sorted(seen), f"{name} of t{size}")
                Run.count("cursors across pauses and settings")
            session.execute(f"commit; {_PLAIN}")
        self.assertGreater(int(other.value("select suspended from pg_pagecast_stats")), before)

    def test_forcing_is_reserved(self) -> None:
        """Only superusers may force cooperation, by any way to set it; nobody is shown it."""
        session = self.session()
        session.execute("create role anybody login")
        self.assertEqual([], session.rows("select name from pg_settings where name like '%forced%'"))
        self.assertEqual("22023", self.refusal(session, "set pg_pagecast.cooperation = forced").sqlstate)
        own = self.session(user="anybody")
        for way in ("set pg_pagecast.cooperation_forced = on", "select set_config('pg_pagecast.cooperation_forced', 'on', true)",
                    "alter role anybody set pg_pagecast.cooperation_forced = on",
                    "create function pg_temp.f() returns int language sql set pg_pagecast.cooperation_forced = on as 'select 1'"):
            self.assertEqual("42501", self.refusal(own, way).sqlstate, way)
        with self.assertRaises(SqlError):
            self.session(user="anybody", options="-c pg_pagecast.cooperation_forced=on")
        for setting in ("cooperation", "enabled"):
            own.execute(f"set pg_pagecast.{setting} = off")
