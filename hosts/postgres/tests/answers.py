"""Results are those of stock: every kind of scan and every way to end one, on and off, alone and
among others, in both modes."""

from cluster import Connection
from tests.case import Run, ServerTest, make_events, outcome

_NO_SEQ = "set local enable_seqscan = off"
_NO_BITMAP = "set local enable_bitmapscan = off"
_BITMAP = "set local enable_seqscan = off; set local enable_indexscan = off; set local enable_indexonlyscan = off"
_PARALLEL = ("set local max_parallel_workers_per_gather = 2; set local parallel_setup_cost = 0; set local parallel_tuple_cost = 0; "
             "set local min_parallel_table_scan_size = 0; set local min_parallel_index_scan_size = 0")

# Each case is a list of statements; all their answers are compared.
CASES: dict[str, list[str]] = {
    "sequential": ["select count(*), sum(amount), min(id), max(code) from events"],
    "sequential, nothing passes": ["select count(*) from events where amount < 0"],
    "bitmap by BRIN": ["begin", _BITMAP, "select count(*), sum(amount) from events where day between 150 and 400"],
    "bitmap by B-tree": ["begin", _BITMAP, "select count(*), sum(id) from events where code between 100 and 160"],
    "bitmap and, or": ["begin", _BITMAP, "select count(*), sum(id) from events where (code < 40 or code > 980) and day < 300"],
    "bitmap, lossy": ["begin", _BITMAP, "set local work_mem = '64kB'", "select count(*), sum(id) from events where code < 700"],
    "bitmap, no row": ["begin", _BITMAP, "select sum(id) from events where code = -5"],
    "index": ["begin", _NO_SEQ, _NO_BITMAP, "select count(*), sum(amount) from events where id between 1000 and 30000"],
    "index backwards": ["begin", _NO_SEQ, _NO_BITMAP, "select id, code from events where id < 40000 order by id desc limit 300 offset 2000"],
    "index, scattered": ["begin", _NO_SEQ, _NO_BITMAP, "select count(*), sum(amount) from events where code between 200 and 260"],
    "index, scattered and backwards": ["begin", _NO_SEQ, _NO_BITMAP, "select sum(id * r) from (select id, row_number() over () r from events "
                                       "where code between 200 and 260 order by code desc, id desc) as o"],
    "index, array": ["begin", _NO_SEQ, _NO_BITMAP, "select sum(id) from events where code = any ('{1,5,9,400,999}')"],
    "index only": ["begin", _NO_SEQ, _NO_BITMAP, "select count(*), sum(code) from events where code between 10 and 700"],
    "parallel sequential": ["begin", _PARALLEL, "select count(*), sum(amount) from events"],
    "parallel bitmap": ["begin", _PARALLEL, _BITMAP, "select count(*), sum(amount) from events where code between 10 and 500"],
    "parallel index": ["begin", _PARALLEL, _NO_SEQ, _NO_BITMAP, "select count(*), sum(amount) from events where code between 10 and 300"],
    "parallel index backwards": ["begin", _PARALLEL, _NO_SEQ, _NO_BITMAP, "set local enable_sort = off",
                                 "select id from events where code between 10 and 300 and amount < 3 order by code desc, id desc"],
    "limit": ["select id from events order by day, id limit 5", "begin", _BITMAP, "select count(*) from (select from events where day > 100 limit 700) as few"],
    "nested loops, bitmap inside": ["begin", _BITMAP, "set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_material = off",
                                    "select count(*), sum(b.amount) from generate_series(1, 40) as a join events b on b.code = a * 11"],
    "nested loops, index inside": ["begin", _NO_SEQ, _NO_BITMAP, "set local enable_hashjoin = off; set local enable_mergejoin = off",
                                   "select count(*), sum(b.amount) from events a join events b on b.id = a.code * 31 where a.id < 400"],
    "lateral": ["begin", _BITMAP, "select a, n from generate_series(0, 900, 90) a, "
                "lateral (select count(*) n from events where code between a and a + 5) as counted order by a"],
    "subplan": ["begin", _BITMAP, "select a, (select sum(amount) from events where day between a and a + 9) from generate_series(1, 500, 60) a order by 1"],
    "exists": ["select count(*) from events a where a.id < 2000 and exists (select from events b where b.code = a.code and b.id > 50000)"],
    "self join": ["select count(*), sum(a.id) from events a join events b on a.id = b.id + 1 where b.day < 300"],
    "union of scans": ["begin", _BITMAP, "select sum(id) from (select id from events where day < 60 union all select id from events where code < 30) as u"],
    "common table expression read twice": ["with c as materialized (select * from events where day < 200) select count(*) from c a join c b using (id)"],
    "cursor, read in part": ["begin", _BITMAP, "declare c cursor for select id from events where day between 20 and 300", "fetch 50 from c",
                             "select count(*), sum(code) from events", "fetch 3000 from c", "close c", "commit"],
    "cursor, scrolled": ["begin", _NO_SEQ, "declare c scroll cursor for select id from events where code between 5 and 90 order by code, id",
                         "fetch 20 from c", "move 500 in c", "fetch backward 10 from c", "fetch absolute 3 from c", "rollback"],
    "cursor, scrolled along the table": ["begin", _NO_SEQ, _NO_BITMAP, "declare c scroll cursor for select id from events where id > 500 order by id",
                                         "fetch 9000 from c", "fetch backward 7000 from c", "fetch 4000 from c", "move backward all in c", "fetch 2 from c", "rollback"],
    "cursor, scrolled sequentially": ["begin", "set local enable_indexscan = off; set local enable_bitmapscan = off; set local synchronize_seqscans = off",
                                      "declare c scroll cursor for select id from events where code > 300", "fetch 20000 from c", "fetch backward 15000 from c",
                                      "fetch 9000 from c", "move backward all in c", "fetch backward 1 from c", "fetch 3 from c", "fetch last from c", "rollback"],
    "cursor with hold": ["begin", "declare c cursor with hold for select id from events where day < 30", "fetch 10 from c", "commit", "fetch 20 from c", "close c"],
    "cursors interleaved": ["begin", _BITMAP, "declare a cursor for select id from events where day < 200", "declare b cursor for select id from events where day > 100",
                            "fetch 300 from a", "fetch 200 from b", "fetch 300 from a", "close a", "fetch 400 from b", "rollback"],
    "cursor in a savepoint": ["begin", _BITMAP, "savepoint s", "declare c cursor for select id from events where day < 300", "fetch 100 from c", "rollback to s",
                              "fetch 1 from c", "rollback"],
    "error in a qualifier": ["begin", _BITMAP, "select sum(id) from events where day < 400 and 1000 / (id - 20000) > -5"],
    "error, caught": ["do $$ begin perform sum(100 / (id - 30000)) from events; exception when division_by_zero then raise notice 'caught'; end $$",
                      "select count(*) from events"],
    "timeout": ["begin", "set local statement_timeout = '20ms'", "select count(pg_sleep(0.004)) from events where day < 300"],
    "prepared": ["set plan_cache_mode = force_generic_plan", "prepare p (int, int) as select count(*), sum(amount) from events where day between $1 and $2",
                 "execute p (10, 90)", "execute p (200, 290)", "execute p (500, 400)", "deallocate p", "reset plan_cache_mode"],
    "function that scans, in a scan": ["select a, total(a) from generate_series(0, 550, 110) a order by a"],
    "sample": ["select count(*) from events tablesample system (20) repeatable (7)"],
    "row locks": ["begin", _BITMAP, "select count(*) from (select id from events where day between 40 and 90 for share) as locked", "rollback"],
    "update and back": ["begin", _BITMAP, "update events set amount = amount + 1 where day between 300 and 340", "select sum(amount) from events", "rollback"],
    "tid range": ["select count(*) from events where ctid >= '(10,0)' and ctid < '(300,0)'"],
    "partitions": ["begin", _BITMAP, "select count(*), sum(code) from parts where code between 5 and 600", "rollback", "select count(*) from parts where id > 9000"],
    "temporary table": ["create temp table own as select * from events where code < 100", "create index on own using brin (id)", "analyze own", "begin", _BITMAP,
                        "select count(*), sum(amount) from own where id between 4 and 40000", "rollback", "drop table own"],
    "merge join over indexes": ["begin", "set local enable_hashjoin = off; set local enable_nestloop = off; set local enable_sort = off",
                                "select count(*) from events a join events b using (id) where a.code < 300"],
}


def make_objects(session: Connection) -> None:
    """What the cases read."""
    make_events(session)
    session.execute("create function total(int) returns bigint language sql as 'select sum(id) from events where day between $1 and $1 + 20'")
    session.execute("""
        create table parts (id int, code int) partition by range (id);
        create table parts_low partition of parts for values from (0) to (8000);
        create table parts_high partition of parts for values from (8000) to (20000);
        insert into parts select i, (i * 7919) % 1000 from generate_series(1, 16000) i;
        create index on parts (code);
        analyze parts""")


class Answers(ServerTest):
    """The cases in the mode `steering`."""

    mode = "steering"
    settings = {"pg_pagecast.samples": "max", "pg_pagecast.bulk": "max"}

    @classmethod
    def setUpClass(cls) -> None:
        # `max` means the highest value that the server allows.
        cls.settings = {**cls.settings, "pg_pagecast.mode": cls.mode}
        wanted = [name for name, value in cls.settings.items() if value == "max"]
        highest = cls._limits(wanted)
        cls.settings.update(highest)
        super().setUpClass()

    @classmethod
    def _limits(cls, names: list[str]) -> dict:
        from cluster import Cluster
        with Cluster(Run.installation, {"shared_preload_libraries": "pg_pagecast"}) as probe:
            probe.create().start()
            with probe.connect() as session:
                return {name: session.value(f"select max_val from pg_settings where name = '{name}'") for name in names}

    @classmethod
    def prepare(cls, session) -> None:
        make_objects(session)

    def expected(self) -> dict[str, list]:
        """Every case's answer with the extension off."""
        session = self.session()
        session.execute("set pg_pagecast.enabled = off")
        return {name: outcome(session, statements) for name, statements in CASES.items()}

    def test_alone(self) -> None:
        """One session: on as off, and something was registered."""
        expected, session = self.expected(), self.session()
        before = int(session.value("select registered from pg_pagecast_stats"))
        for name, statements in CASES.items():
            with self.subTest(name):
                self.assertEqual(expected[name], outcome(session, statements))
                Run.count("cases compared with stock, alone")
        self.assertGreater(int(session.value("select registered from pg_pagecast_stats")), before)

    def test_together(self) -> None:
        """Six sessions at once, each with its own order of the cases."""
        expected = self.expected()
        orders = [self.random.sample(sorted(CASES), k=len(CASES)) for _ in range(6 * Run.rounds)]

        def session_of(order: list[str]):
            def work() -> None:
                with self.cluster.connect() as session:
                    for name in order:
                        self.assertEqual(expected[name], outcome(session, CASES[name]), name)
                        Run.count("cases compared with stock, among others")
            return work

        for start in range(0, len(orders), 6):
            self.together(*map(session_of, orders[start:start + 6]))

    def test_switched_while_running(self) -> None:
        """Turning it off and on between the fetches of a cursor changes no row."""
        session = self.session()
        statements = ["begin", "set local enable_seqscan = off", "declare c cursor for select id from events where day between 20 and 400",
                      "fetch 500 from c", "set local pg_pagecast.enabled = {}", "fetch 4000 from c", "set local pg_pagecast.enabled = {}", "fetch all from c"]
        stock = outcome(session, [text.format("off") for text in ["set pg_pagecast.enabled = off", *statements]])[1:]
        for first in ("on", "off"):
            words = iter([{"on": "off", "off": "on"}[first], first])
            switched = [text.format(next(words)) if "{}" in text else text for text in statements]
            answers = outcome(session, [f"set pg_pagecast.enabled = {first}", *switched])[1:]
            self.assertEqual(stock, answers, f"started {first}")
            Run.count("cases compared with stock, switched while running")


class AnswersFreelist(Answers):
    """The cases in the mode `freelist`."""

    mode = "freelist"


class AnswersForced(Answers):
    """The cases with every table of two blocks or more read by chunks."""

    settings = {**Answers.settings, "pg_pagecast.cooperation_forced": "on"}
