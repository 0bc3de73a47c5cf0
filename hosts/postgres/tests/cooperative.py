"""Cooperative sequential scans: which scans join, that each block is read once, and what cursors,
limits, rescans and parallel plans do."""

import time

from cluster import Connection, SqlError
from tests.case import Run, ServerTest, make_events

PARALLEL = ("set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; "
            "set min_parallel_table_scan_size = 0; set min_parallel_index_scan_size = 0")
_IDLE_SECONDS = 2.2
_SUM = "select count(*), sum(id), sum(amount) from events"


class CooperativeTest(ServerTest):
    """A table of about 1000 blocks under 128 buffers."""

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)
        # What it reads is a sequential scan unless a test says else.
        session.execute("alter database postgres set enable_indexscan = off; alter database postgres set enable_bitmapscan = off; "
                        "alter database postgres set enable_indexonlyscan = off")

    def tearDown(self) -> None:
        self.doCleanups()  # the sessions, and with them their cursors
        super().tearDown()
        self.assert_nothing_wanted()

    def assert_nothing_wanted(self) -> None:
        """No chunk is wanted by anybody, and no buffer of the table is pinned."""
        with self.cluster.connect() as session:
            self.assertEqual([], session.rows("select * from pg_pagecast_chunks()"))
            session.execute("create extension if not exists pg_buffercache")
            self.assertEqual("0", session.value("select count(*) from pg_buffercache where pinning_backends > 0 and relfilenode = pg_relation_filenode('events')"))

    def chunks(self, watcher: Connection) -> int:
        """Chunks that were handed out so far."""
        return int(watcher.value("select chunks from pg_pagecast_stats"))

    def blocks(self, session: Connection) -> int:
        """The table's blocks."""
        return int(session.value("select pg_relation_size('events') / current_setting('block_size')::int"))


# Rows of a large table are looked up by its index for each row of another.
_LOOK_UP = "set enable_indexscan = on; set enable_hashjoin = off; set enable_mergejoin = off; set enable_memoize = off; set enable_material = off"

# Statements that may read in any order, each with what undoes it.
_JOIN = {
    "plain": _SUM,
    "rows": "select id from events",
    "below a sort": "select id from events order by amount, id limit 10",
    "in a subquery": "select (select count(*) from events)",
    "in a common table expression": "with c as materialized (select * from events) select count(*) from c",
    "prepared": "prepare p as select count(*) from events; execute p; deallocate p",
    "a cursor that is not scrolled": "begin; declare c no scroll cursor for select id from events; fetch 5000 from c; commit",
    "a cursor to be held": "begin; declare c no scroll cursor with hold for select id from events; commit; fetch all from c; close c",
    "in a function": "do $$ declare n bigint; begin select count(*) into n from events; end $$",
    "a loop over rows": "do $$ declare r record; n int := 0; begin for r in select id from events loop n := n + 1; end loop; end $$",
    "below EXPLAIN ANALYZE": "explain (analyze) select count(*) from events",
    "parallel": f"{PARALLEL}; {_SUM}; reset all",
    "parallel without the leader": f"{PARALLEL}; set parallel_leader_participation = off; {_SUM}; reset all",
    "repeatable read": f"begin isolation level repeatable read; {_SUM}; commit",
    "serializable": f"begin isolation level serializable; {_SUM}; commit",
    "a join of the table with itself": "set enable_nestloop = off; select count(*) from events a join events b using (id); reset all",
    "rows that are sorted before others are looked up by them":
        f"{_LOOK_UP}; select count(*) from (select id from events order by amount, id offset 0) a join events b using (id); reset all",
    "below a view": "create temp view v as select id from events; select count(*) from v; drop view v",
    "a set-returning function": "create function pg_temp.f() returns setof events language sql as 'select * from events'; select count(*) from pg_temp.f()",
}

# Statements whose order of rows is seen, or must be that of the table.
_STAY = {
    "INSERT ... SELECT": "begin; create table copied (like events); insert into copied select * from events; rollback",
    "CREATE TABLE AS": "begin; create table copied as select * from events; rollback",
    "CREATE TABLE AS, parallel": f"{PARALLEL}; begin; create table copied as select * from events; rollback; reset all",
    "CREATE TABLE AS EXECUTE": "prepare p as select * from events; begin; create table copied as execute p; rollback; deallocate p",
    "SELECT INTO": "begin; select * into copied from events; rollback",
    "EXPLAIN ANALYZE CREATE TABLE AS": "begin; explain (analyze) create table copied as select * from events; rollback",
    "materialized view": "begin; create materialized view copied as select * from events; refresh materialized view copied; rollback",
    "COPY of a table": "do $$ begin copy events to '/dev/null'; end $$",
    "COPY of a query": "do $$ begin copy (select * from events) to '/dev/null'; end $$",
    "UPDATE": "begin; update events set amount = 0 where id < 0; rollback",
    "DELETE": "begin; delete from events where id < 0; rollback",
    "an INSERT in WITH": "begin; create table copied (like events); with w as (insert into copied select * from events returning 1) select count(*) from w; rollback",
    "row locks": "begin; select count(*) from (select id from events for share) as locked; rollback",
    "a cursor that can be scrolled": "begin; declare c scroll cursor for select id from events; fetch 5000 from c; fetch backward 10 from c; commit",
    "a cursor that can be scrolled by default": "begin; declare c cursor for select id from events; fetch 5000 from c; commit",
    "TABLESAMPLE": "select count(*) from events tablesample system (50)",
    "synchronize_seqscans = off": "set synchronize_seqscans = off; select count(*) from events; reset synchronize_seqscans",
    "a temporary table": "create temp table own as select * from events; select count(*) from own; drop table own",
    "an unlogged table": "begin; create unlogged table own as select * from events; select count(*) from own; rollback",
    "a small table": "create temp table x (i int); begin; create table small as select i from generate_series(1, 100) i; select count(*) from small; rollback; drop table x",
    "cooperation off": "set pg_pagecast.cooperation = off; select count(*) from events; reset pg_pagecast.cooperation",
    "all off": "set pg_pagecast.enabled = off; select count(*) from events; reset pg_pagecast.enabled",
    "a table that is not large": "set pg_pagecast.cooperation_least = 900; select count(*) from events; reset pg_pagecast.cooperation_least",
    "rows by which others are looked up": f"{_LOOK_UP}; select count(*) from events a join events b using (id) where a.amount >= 0; reset all",
    "rows by which a subquery looks others up":
        f"{_LOOK_UP}; select count(*) from events a where amount >= (select max(b.amount) from events b where b.id = a.id); reset all",
    "an index build": "begin; create index events_amount on events (amount); rollback",
    "VACUUM": "vacuum events",
    "ANALYZE": "analyze events",
    "a bitmap scan": "set enable_bitmapscan = on; set enable_seqscan = off; select count(*) from events where day < 100; reset all",
    "a TID range scan": "select count(*) from events where ctid >= '(10,0)' and ctid < '(900,0)'",
    "EXPLAIN": "explain select count(*) from events",
}


class Cooperative(CooperativeTest):
    """Tables above a quarter of the pool."""

    def test_who_joins(self) -> None:
        """Each kind of statement that reads in any order is handed chunks."""
        session, watcher = self.session(), self.session()
        for name, statement in _JOIN.items():
            with self.subTest(name):
                before = self.chunks(watcher)
                for part in statement.split("; ") if statement.startswith(("begin; declare", "prepare")) else [statement]:
                    session.execute(part)
                self.assertGreater(self.chunks(watcher), before)
                Run.count("kinds of statements that join")

    def test_who_does_not(self) -> None:
        """Each kind of statement whose order is seen reads as on a stock server."""
        session, watcher = self.session(), self.session()
        for name, statement in _STAY.items():
            with self.subTest(name):
                before = self.chunks(watcher)
                for part in [statement] if statement.startswith(("do", "set")) else statement.split("; "):
                    session.execute(part)
                self.assertEqual(before, self.chunks(watcher))
                Run.count("kinds of statements that stay out")

    def test_order_on_disk(self) -> None:
        """What is written keeps the table's order, beside scans that read in another."""
        stop = time.monotonic() + 2 * Run.rounds

        def scans() -> None:
            with self.cluster.connect() as session:
                while time.monotonic() < stop:
                    session.execute(_SUM)

        def writes() -> None:
            with self.cluster.connect() as session:
                session.execute("set synchronize_seqscans = on")
                while time.monotonic() < stop:
                    session.execute("drop table if exists ordered; create table ordered as select * from events")
                    # Stock begins where another scan is, and so may wrap once.
                    self.assertLessEqual(int(session.value("select count(*) from (select id < lag(id) over (order by ctid) as back from ordered) as o where back")), 1)
                    Run.count("tables written beside cooperative scans")

        self.together(scans, scans, writes)
        self.session().execute("drop table ordered")

    def test_each_block_once(self) -> None:
        """Sessions at once, at several speeds, with workers and without: every row once."""
        rows = int(self.session().value("select count(*) from events"))

        def work(number: int):
            def scan() -> None:
                with self.cluster.connect() as session:
                    if number % 2:
                        session.execute(PARALLEL)
                    for _ in range(4 * Run.rounds):
                        query = ("select count(*), count(distinct id) from events", "select count(*), count(distinct ctid) from events",
                                 "select count(*), count(distinct id) from (select id, sqrt(amount + id) from events offset 0) as o")[number % 3]
                        self.assertEqual([(str(rows), str(rows))], session.rows(query))
                        Run.count("scans of which each row was counted")
            return scan

        self.together(*(work(number) for number in range(6)))

    def test_no_more_than_limit_needs(self) -> None:
        """A query with LIMIT reads a few blocks, and leaves nothing behind, alone or with
        workers."""
        session = self.session()
        for settings in ("", PARALLEL):
            session.execute(settings or "reset all")
            plan = session.rows("explain (analyze, buffers, costs off) select id from events limit 10")
            blocks = sum(int(word.split("=")[1]) for word in plan[0][0].split() + plan[1][0].split() if word.startswith(("hit=", "read=")))
            self.assertLessEqual(blocks, 64)
            self.assertEqual([], session.rows("select * from pg_pagecast_chunks()"))

    def test_rescans(self) -> None:
        """Inside of nested loops each execution reads the table once."""
        session, watcher = self.session(), self.session()
        session.execute("set enable_hashjoin = off; set enable_mergejoin = off; set enable_material = off; set enable_memoize = off; set jit = off")
        query = "select a, (select sum(id) from events where id % 5 >= a) from generate_series(0, 4) a order by 1"
        for settings in ("set max_parallel_workers_per_gather = 0", PARALLEL):
            session.execute(settings)
            session.execute("set pg_pagecast.cooperation = off")
            expected = session.rows(query)
            session.execute("set pg_pagecast.cooperation = on")
            before = self.chunks(watcher)
            self.assertEqual(expected, session.rows(query))
            self.assertGreaterEqual(self.chunks(watcher) - before, 5 * self.blocks(session) // 64)

    def test_subplans_of_several_expressions(self) -> None:
        """The plan of a subquery that several expressions of an UPDATE refer to is observed once;
        twice, it would call itself for ever."""
        session = self.session()
        session.execute("create table parent (a int, b text); create table child () inherits (parent); "
                        "insert into parent values (1, 'x'); insert into child values (2, 'y')")
        session.execute("update parent p set (a, b) = (select p.a + count(*), p.b || '-' from events)")
        rows = 60_000
        self.assertEqual([(str(rows + 1), "x-"), (str(rows + 2), "y-")], session.rows("select a, b from parent order by a"))
        session.execute("drop table parent cascade")

    def test_rescans_of_gather(self) -> None:
        """A parallel plan that is executed again and again, each time to its end or by its
        LIMIT.
        """
        session = self.session()
        session.execute(f"{PARALLEL}; set enable_nestloop = on; set enable_hashjoin = off; set enable_mergejoin = off; set enable_material = off; set enable_memoize = off; "
                        "create or replace function pg_temp.some(int) returns bigint language sql parallel restricted as 'select $1::bigint'")
        query = ("select a, n from generate_series(1, 6) a, lateral (select count(*) n from (select id from events where id % 3 <> 1 offset 0) as o where pg_temp.some(a) > 0) as x order by 1",
                 "select a, n from generate_series(1, 6) a, lateral (select count(*) n from (select id from events where id % 3 <> 1 limit 7) as o where pg_temp.some(a) > 0) as x order by 1")
        for text in query:
            session.execute("set pg_pagecast.cooperation = off")
            expected = session.rows(text)
            session.execute("set pg_pagecast.cooperation = on")
            self.assertEqual(expected, session.rows(text))

    def test_an_idle_cursor_gives_up_what_it_holds(self) -> None:
        """It is suspended when it has not moved for two seconds, wants nothing then, and goes on
        with what it has not had."""
        session, other = self.session(), self.session()
        rows = {row for row in other.rows("select id from events")}
        session.execute("begin; declare c no scroll cursor for select id from events")
        first = session.rows("fetch 7000 from c")
        self.assertNotEqual([], other.rows("select * from pg_pagecast_chunks()"))
        time.sleep(_IDLE_SECONDS)
        other.execute(_SUM)
        self.assertEqual([], other.rows("select * from pg_pagecast_chunks()"))
        self.assertEqual([], other.rows("select * from pg_pagecast_scans where kind = 'cooperative'"))
        second = session.rows("fetch 9000 from c")
        self.assertNotEqual([], other.rows("select * from pg_pagecast_chunks()"))
        time.sleep(_IDLE_SECONDS)
        other.execute(_SUM)
        self.assertEqual([], other.rows("select * from pg_pagecast_chunks()"))
        rest = session.rows("fetch all from c")
        self.assertEqual(len(rows), len(first) + len(second) + len(rest))
        self.assertEqual(rows, {*first, *second, *rest})
        session.execute("commit")

    def test_rows_that_come_later(self) -> None:
        """The blocks of a scan are fixed when it begins, and what is seen is its snapshot's."""
        session, other = self.session(), self.session()
        session.execute("create table grows as select i from generate_series(1, 60000) i")
        for isolation in ("read committed", "repeatable read", "serializable"):
            session.execute(f"begin isolation level {isolation}; declare c no scroll cursor for select i from grows")
            expected = int(other.value("select count(*) from grows"))
            seen = len(session.rows("fetch 100 from c"))
            other.execute("update grows set i = i where i % 3 = 0; delete from grows where i % 100 = 7; insert into grows select i from generate_series(1, 30000) i")
            seen += len(session.rows("fetch all from c"))
            self.assertEqual(expected, seen, isolation)
            session.execute("commit")
        session.execute("drop table grows")

    def test_serializable_conflicts(self) -> None:
        """Two transactions that each read what the other writes: one of them fails, as in stock."""
        one, two = self.session(), self.session()
        one.execute("create table pair as select i, 0 as n, repeat('x', 500) from generate_series(1, 4000) i")
        for session in (one, two):
            session.execute("begin isolation level serializable; select sum(n) from pair")
        one.execute("update pair set n = 1 where i = 5")
        two.execute("update pair set n = 1 where i = 3999")
        one.execute("commit")
        with self.assertRaises(SqlError) as failed:
            two.execute("commit")
        self.assertEqual("40001", failed.exception.sqlstate)
        two.execute("rollback")
        one.execute("drop table pair")

    def test_switched_in_the_middle(self) -> None:
        """A cursor whose session turns cooperation or everything off goes on with the same scan."""
        session = self.session()
        rows = {row for row in session.rows("select id from events")}
        for setting in ("pg_pagecast.cooperation", "pg_pagecast.enabled", "synchronize_seqscans"):
            session.execute("begin; declare c no scroll cursor for select id from events")
            first = session.rows("fetch 7000 from c")
            session.execute(f"set {setting} = off")
            rest = session.rows("fetch all from c")
            session.execute("rollback")
            self.assertEqual((len(rows), rows), (len(first) + len(rest), {*first, *rest}), setting)


class CooperativeSettings(ServerTest):
    """The settings at their limits, described, and refused past them."""

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)

    def test_limits(self) -> None:
        """Every value in its range works; others are refused."""
        session = self.session()
        expected = session.rows(_SUM)
        names = session.rows("select name, vartype, min_val, max_val, short_desc from pg_settings where name like 'pg_pagecast.cooperation%' order by 1")
        self.assertGreaterEqual(len(names), 2)
        for name, kind, least, most, description in names:
            self.assertTrue(description, name)
            for value in ("on", "off") if kind == "bool" else (least, most):
                session.execute(f"set {name} = '{value}'")
                self.assertEqual(expected, session.rows(_SUM), f"{name} = {value}")
                Run.count("values of cooperation's settings")
            refused = "'some'" if kind == "bool" else f"'{float(most) * 2 + 1}'" if kind == "real" else str(int(most) + 1)
            with self.assertRaises(SqlError):
                session.execute(f"set {name} = {refused}")
            session.execute(f"reset {name}")


class SmallTables(CooperativeTest):
    """Every table of two blocks or more."""

    settings = {"pg_pagecast.cooperation_forced": "on"}

    def test_sizes(self) -> None:
        """Tables of 0 to 70 blocks, and of one more than a power of two: every row once."""
        session = self.session()
        for blocks in [*range(0, 20), 31, 32, 33, 63, 64, 65, 70, 127, 128, 129, 257, 513]:
            session.execute(f"create table sized (i int, filler text); alter table sized alter filler set storage plain; "
                            f"insert into sized select i, repeat('x', 7900) from generate_series(1, {blocks}) i")
            self.assertEqual(str(blocks), session.value("select pg_relation_size('sized') / 8192"))
            for settings in ("reset all", PARALLEL):
                session.execute(settings)
                self.assertEqual([(str(blocks), str(blocks), str(blocks * (blocks + 1) // 2))], session.rows("select count(*), count(distinct i), coalesce(sum(i), 0) from sized"))
                Run.count("tables of given sizes")
            session.execute("drop table sized")

    def test_empty_pages(self) -> None:
        """Pages without a visible row, at the ends and in the middle."""
        session = self.session()
        session.execute("create table holes as select i, repeat('x', 700) as filler from generate_series(1, 3000) i")
        for kept in ("i > 2000", "i < 1000", "i between 1000 and 1200", "i % 500 = 0", "false"):
            session.execute(f"begin; delete from holes where not ({kept})")
            expected = session.value(f"select count(*) from generate_series(1, 3000) i where {kept}")
            self.assertEqual(expected, session.value("select count(*) from holes"))
            session.execute("rollback")
            self.assertEqual("3000", session.value("select count(*) from holes"))
        session.execute("drop table holes")
