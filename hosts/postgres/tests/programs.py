"""Random programs for `tests.differential`: tables, and steps of SQL that a stock server and ours
must answer alike. A program follows from its seed alone, so any part of it can be run again."""

import random
from dataclasses import dataclass

# Rows by table: of one block, of some, of more than a chunk, and of more than all of a small pool.
TABLES = {"tiny": 9, "few": 150, "mid": 900, "many": 5000}
PARALLEL = ("set max_parallel_workers_per_gather = 3; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; "
            "set min_parallel_table_scan_size = 0; set min_parallel_index_scan_size = 0")
_SWITCHES = ["enable_seqscan", "enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan", "enable_hashjoin", "enable_mergejoin", "enable_nestloop",
             "enable_material", "enable_memoize", "enable_sort", "enable_hashagg", "enable_parallel_hash", "parallel_leader_participation", "synchronize_seqscans"]
_OTHERS = ["work_mem = '64kB'", "work_mem = '4MB'", "plan_cache_mode = force_generic_plan", "plan_cache_mode = auto", "random_page_cost = 1", "random_page_cost = 4",
           "cursor_tuple_fraction = 1", "effective_io_concurrency = 0", "effective_io_concurrency = 16", "{force} = on", "{force} = off"]
_OURS = ["enabled = off", "enabled = on", "cooperation = off", "cooperation = on", "cooperation_least = 0", "cooperation_least = 0.25", "cooperation_forced = on",
         "cooperation_forced = off", *["cooperation = on; set pg_pagecast.enabled = on; set pg_pagecast.cooperation_forced = on"] * 5, "mode = freelist", "mode = steering", "mode = clock", "samples = 100", "samples = 1", "frequency = off", "fallback = lru", "fallback = random", "cooperation_share = 3", "cooperation_share = 90"]


@dataclass(frozen=True)
class Step:
    """`where`: `both` sessions, `ours` only, `beside` in second sessions, a `pause`, or a cursor's
    name. `ordered`: the rows come in the order that the statement asks for."""

    where: str
    sql: str
    ordered: bool = False


@dataclass(frozen=True)
class Query:
    """A query, and whether its order is total."""

    sql: str
    ordered: bool


def schema(name: str) -> list[str]:
    """Statements that make a program's tables, the same on every server."""
    parts = [f"create schema {name}; set search_path = {name}"]
    for table, rows in TABLES.items():
        parts.append(f"create table {table} (id int, a int, b int, c int, t text); "
                     f"insert into {table} select i, i / 7 + (i * 37) % 11, (i * 7919) % 101, case when i % 5 > 0 then i % 13 end, repeat(chr(97 + i % 26), 500 + i % 90) "
                     f"from generate_series(1, {rows}) i; create index {table}_id on {table} (id); create index {table}_b on {table} (b); "
                     f"create index {table}_a on {table} using brin (a) with (pages_per_range = 2); delete from {table} where id % 97 = 5 or id between 300 and 420")
    parts.append("create table parts (id int, a int, b int, c int, t text) partition by range (id); create table parts_1 partition of parts for values from (0) to (700); "
                 "create table parts_2 partition of parts for values from (700) to (1000000); insert into parts select * from many where id < 2500; create index on parts (b)")
    parts.append("create table fixed (id int, a int, b int, c int, t text); insert into fixed select * from mid")
    parts.append("create function looped(int) returns bigint language plpgsql as 'declare r record; n bigint := 0; begin for r in select id from mid where id % 3 <> $1 loop n := n + r.id; "
                 "end loop; return n; end'; "
                 "create function opened(refcursor, int) returns refcursor language plpgsql as 'begin open $1 no scroll for select id, b from many where id % 2 <> $2; return $1; end'; "
                 "create function rows_of(int) returns setof int language sql as 'select id from mid where b <> $1'; "
                 "create function caught(int) returns bigint language plpgsql as 'declare n bigint; begin begin select sum(1000 / (id - $1)) into n from many; exception when division_by_zero then "
                 "select count(*) into n from mid; end; return n; end'; "
                 "create function nested(int) returns bigint language plpgsql parallel restricted as 'declare n bigint; begin select count(*) into n from mid where id % 7 <> $1; return n; end'; "
                 "create function walked(int) returns bigint language plpgsql as 'declare c cursor for select id from many; r record; n bigint := 0; begin open c; for i in 1..$1 loop fetch c into r; "
                 "n := n + 1; end loop; move forward 5 from c; close c; return n; end'")
    return [*parts, "analyze " + ", ".join([*TABLES, "parts", "fixed"])]


class Generator:
    """Makes the steps of one program."""

    def __init__(self, seed: str, force: str, pauses: float = 0):
        self._pauses = pauses
        self._random = random.Random(seed)
        self._force = force
        self._fresh = 100_000
        self._cursors: dict[str, bool] = {}
        self._savepoints: list[str] = []
        self._prepared: list[str] = []
        self._names = 0
        self._inside = False

    def steps(self, count: int) -> list[Step]:
        """The program, ending outside of a transaction."""
        made = [Step("ours", "set pg_pagecast.cooperation_forced = on")] if self._random.random() < 0.7 else []
        if self._random.random() < 0.5:
            made.append(Step("both", "set enable_indexscan = off; set enable_bitmapscan = off"))
        while len(made) < count:
            made += self._random.choices([self._query_step, self._setting, self._transaction, self._dml, self._declare, self._fetch, self._prepare, self._function, self._beside,
                                          self._utility, self._pause], [14, 10, 7, 5, 8, 24, 3, 4, 5, 3, self._pauses])[0]()
        return [*made, Step("both", "rollback")]

    # -- expressions -----------------------------------------------------------------------------

    def _table(self) -> str:
        return self._random.choice([*TABLES, *TABLES, "parts", "fixed"])

    def _predicate(self, x: str, depth: int = 0) -> str:
        pick, number = self._random.randrange(12 if depth < 2 else 8), self._random.randrange
        if pick == 0:
            return "true"
        if pick == 1:
            low = number(700)
            return f"{x}.a between {low} and {low + number(300)}"
        if pick == 2:
            return f"{x}.b = {number(101)}"
        if pick == 3:
            return f"{x}.id > {number(4000)}"
        if pick == 4:
            return f"{x}.c is {self._random.choice(['null', 'not null'])}"
        if pick == 5:
            return f"{x}.id % {2 + number(9)} {self._random.choice(['=', '<>'])} {number(3)}"
        if pick == 6:
            return f"{x}.b in ({number(101)}, {number(101)}, {number(101)})"
        if pick == 7:
            return f"{x}.t like '{chr(97 + number(26))}%'"
        if pick == 8:
            return f"{self._random.choice(['', 'not '])}exists (select from {self._table()} e where e.b = {x}.b and {self._predicate('e', depth + 1)})"
        if pick == 9:
            return f"{x}.a {self._random.choice(['<', '>'])} (select max(m.a) / 2 from {self._table()} m where {self._predicate('m', depth + 1)})"
        if pick == 10:
            return f"{x}.id {self._random.choice(['in', 'in', 'not in'])} (select s.id from {self._table()} s where {self._predicate('s', depth + 1)})"
        return f"({self._predicate(x, depth + 1)} {self._random.choice(['and', 'or'])} {self._predicate(x, depth + 1)})"

    def plain_query(self) -> Query:
        """One without errors whose rows are all different, as a cursor needs it."""
        table, other, pick = self._table(), self._table(), self._random.randrange(10)
        if pick < 6:
            order = self._random.choice(["", "", "", "", "", " order by x.id", " order by x.id desc", " order by x.b, x.id"])
            return Query(f"select x.id, x.a, x.c from {table} x where {self._predicate('x')}{order}", bool(order))
        if pick < 8:
            kind = self._random.choice(["join", "left join", "full join"])
            return Query(f"select x.id as i, y.id as j from {table} x {kind} {other} y on x.id = y.id + {self._random.randrange(3)} where {self._predicate('x')}", False)
        if pick < 9:
            return Query(f"select 1 as n, x.id from {table} x where {self._predicate('x')} union all select 2, y.id from {other} y where {self._predicate('y')}", False)
        return Query(f"select g, x.id from generate_series(1, 3) g, {self._random.choice(['tiny', 'few'])} x where x.b <> g", False)

    def query(self) -> Query:
        """Any query."""
        table, other, x = self._table(), self._table(), self._predicate("x")
        forms = [
            Query(f"select count(*), sum(x.a), min(x.id), max(x.b), count(distinct x.c), sum(length(x.t)) from {table} x where {x}", True),
            Query(f"select x.b, count(*), sum(x.id) from {table} x where {x} group by x.b having count(*) > 1", False),
            Query(f"select count(*), sum(x.id), sum(y.a) from {table} x join {other} y on x.b = y.id where {x}", True),
            Query(f"select count(*), sum(y.id) from {table} x right join {other} y on x.id = y.b where y.c is not null", True),
            Query(f"select x.id from {table} x where {x} {self._random.choice(['union', 'except', 'intersect'])} select y.id from {other} y where {self._predicate('y')}", False),
            Query(f"select x.id, x.b from {table} x where {x} order by x.b, x.id limit {self._random.randrange(40)} offset {self._random.randrange(20)}", True),
            Query(f"select x.id, l.id from tiny x, lateral (select y.id from {other} y where y.b >= x.b order by y.id limit 3) l", False),
            Query(f"select n, (select sum(y.id) from {other} y where y.id % 5 >= n) from generate_series(0, 4) n order by 1", True),
            Query(f"select id, sum(a) over (order by id rows 3 preceding), rank() over (partition by c order by id) from {table} x where {x}", False),
            Query(f"with w as materialized (select x.id, x.b from {table} x where {x}) select count(*), sum(p.id) from w p join w q on p.b = q.id", True),
            Query(f"with recursive r (n) as (select 1 union all select n + 1 from r where n < 4 and exists (select from {table} x where x.id % 4 = n and {x})) select n from r", False),
            Query(f"select count(*) from (select x.id from {table} x where {x} limit {self._random.randrange(60)}) l", True),
            Query(f"select sum(100 / (x.id - {self._random.randrange(2000)})) from {table} x where x.t like '%'", True),
            Query(f"select count(*) from fixed tablesample {self._random.choice(['system', 'bernoulli'])} ({1 + self._random.randrange(99)}) repeatable ({self._random.randrange(9)})", True),
            Query(f"select count(*), sum(id), min(ctid::text) from fixed x where ctid >= '({self._random.randrange(20)},0)' and ctid < '({self._random.randrange(90)},2)'", True),
            Query(f"select x.id, nested(x.id) from {table} x where x.id % 211 = 7", False),
            Query(f"select count(*), sum(id) from (select id from {table} x where {x} for {self._random.choice(['update', 'share'])}) l", True),
            Query(f"select x.b from {table} x where x.b between 10 and {10 + self._random.randrange(90)} order by x.b {self._random.choice(['', 'desc'])}", True),
        ]
        return self._random.choice(forms)

    # -- steps -----------------------------------------------------------------------------------

    def _query_step(self) -> list[Step]:
        query = self.query()
        return [Step("both", query.sql, query.ordered)]

    def _setting(self) -> list[Step]:
        kind = self._random.randrange(10)
        local = "local " if self._random.random() < 0.2 else ""
        if kind < 4:
            return [Step("ours", f"set {local}pg_pagecast.{self._random.choice(_OURS)}")]
        if kind < 6:
            return [Step("both", f"set {local}{self._random.choice(_SWITCHES)} = {self._random.choice(['on', 'off'])}")]
        if kind < 7:
            return [Step("both", f"set {local}{self._random.choice(_OTHERS).format(force=self._force)}")]
        if kind < 9:
            return [Step("both", self._random.choice([PARALLEL, PARALLEL, "set max_parallel_workers_per_gather = 0"]))]
        return [Step("both", "; ".join(f"reset {name}" for name in _SWITCHES))]

    def _transaction(self) -> list[Step]:
        if not self._inside:
            self._inside = True
            return [Step("both", f"begin isolation level {self._random.choice(['read committed', 'read committed', 'repeatable read'])}")]
        pick = self._random.randrange(6)
        if pick < 2 or not self._savepoints:
            self._names += 1
            self._savepoints.append(f"s{self._names}")
            return [Step("both", f"savepoint s{self._names}")]
        if pick < 4:
            place = self._random.randrange(len(self._savepoints))
            del self._savepoints[place + 1:]
            return [Step("both", f"rollback to {self._savepoints[place]}")]
        if pick < 5:
            return [Step("both", f"release {self._savepoints.pop()}")]
        self._inside = False
        self._savepoints.clear()
        return [Step("both", self._random.choice(["commit", "commit", "rollback"]))]

    def _dml(self, table: str | None = None) -> list[Step]:
        table = table or self._random.choice([*TABLES, "parts"])
        self._fresh += 1000
        x = self._predicate("x", 1)
        statement = self._random.choice([
            f"insert into {table} select {self._fresh} + row_number() over (order by x.id), x.a, x.b, x.c, x.t from {self._table()} x where {x} order by x.id limit 150",
            f"update {table} x set a = a + 1, c = null where {x}",
            f"update {table} x set t = repeat('u', 700) where x.id % 11 = 3 and {x}",
            f"delete from {table} x where x.id % 17 = {self._random.randrange(17)} and {x}",
            f"update {table} x set b = y.b from few y where y.id = x.id and {x}",
            f"with d as (delete from {table} x where x.id % 23 = 1 and {x} returning x.id) select count(*), sum(id) from d",
            f"merge into {table} x using (select id, b from few) y on x.id = y.id when matched and x.b % 5 = 1 then delete when matched and x.b % 5 = 2 then update set a = 0",
        ])
        return [Step("both", statement, True)]

    def _declare(self) -> list[Step]:
        query, scroll = self.plain_query(), self._random.choice(["", "scroll", "scroll", "no scroll", "no scroll"])
        hold = self._random.random() < 0.2
        self._names += 1
        name = f"c{self._names}"
        self._cursors[name] = scroll != "no scroll"
        first = [] if self._inside or hold else self._transaction()
        return [*first, Step(name, f"declare {name} {scroll} cursor {'with hold ' if hold else ''}for {query.sql}", query.ordered), *self._fetch(), *self._fetch()]

    def _fetch(self) -> list[Step]:
        if not self._cursors:
            return []
        name = self._random.choice(list(self._cursors)[-3:])
        number = self._random.choice([1, 1, 3, 20, 90, 400, 1500])
        word = self._random.choice(["fetch", "fetch", "fetch", "move"])
        onward = [f"forward {number}"] * 6 + ["next", "all", f"relative {number}", f"absolute {number}"]
        back = [f"backward {number}", "prior", "first", "last", "backward all", "relative 0", f"relative -{number}", "forward 0", f"absolute -{number}"]
        where = self._random.choice(onward + back if self._cursors[name] or self._random.random() < 0.03 else onward)
        if self._random.random() < 0.06:
            return [Step(name, f"close {name}")]
        if self._random.random() < 0.05:
            return [Step(name, f"fetch next from {name}"), Step(name, f"update mid x set a = a where current of {name} returning x.id")]
        return [Step(name, f"{word} {where} from {name}")]

    def _prepare(self) -> list[Step]:
        if not self._prepared or self._random.random() < 0.4:
            self._names += 1
            self._prepared.append(f"p{self._names}")
            table = self._table()
            form = self._random.choice([f"select count(*), sum(id) from {table} where a between $1 and $1 + $2", f"select count(*), sum(id) from {table} where b <> $1 % 100 and id % 7 <> $2 % 7",
                                        f"select count(*), sum(x.id) from {table} x join {self._table()} y on x.id = y.id where x.b > $1 % 50 and y.a > $2 % 10"])
            return [Step("both", f"prepare p{self._names} (int, int) as {form}", True)]
        return [Step("both", f"execute {self._random.choice(self._prepared)} ({self._random.randrange(700)}, {self._random.randrange(200)})", True)]

    def _function(self) -> list[Step]:
        number = self._random.randrange(4)
        if self._inside and self._random.random() < 0.4:
            self._names += 1
            name = f"c{self._names}"
            self._cursors[name] = False
            return [Step(name, f"select opened('{name}', {number}) /* select id, b from many where id % 2 <> {number} */"), *self._fetch(), *self._fetch()]
        return [Step("both", self._random.choice([f"select looped({number})", f"select caught({self._random.randrange(4000)})", f"select walked({self._random.randrange(3000)})",
                                                  f"select count(*), sum(r) from (select rows_of({number}) r) o", f"select count(*) from (select rows_of({number}) r limit {number * 9}) o",
                                                  f"select count(*), sum(x.id) from few x join rows_of({number}) y on x.id = y"]), True)]

    def _beside(self) -> list[Step]:
        table = self._random.choice([*TABLES, "parts"])
        if self._random.random() < 0.6:
            return [Step("beside", step.sql, True) for step in self._dml(table)]
        return [Step("beside", self._random.choice([f"vacuum {table}", f"analyze {table}", f"vacuum full {table}", f"truncate {table}", f"reindex table {table}",
                                                    f"select count(*), sum(id) from {table}"]), True)]

    def _pause(self) -> list[Step]:
        """Longer than an idle scan stays registered."""
        return [Step("pause", "select pg_sleep(2.2)")]

    def _utility(self) -> list[Step]:
        table = self._random.choice([*TABLES, "parts"])
        if not self._inside:
            return [Step("both", self._random.choice([f"vacuum full {table}", f"vacuum {table}"]), True)]
        return [Step("both", self._random.choice([f"cluster {table} using {table}_id", f"truncate {table}", f"alter table {table} alter a type bigint",
                                                  f"alter table {table} alter a type int", f"create index on {table} (c)", f"create temp table own{self._fresh} as select * from {table} order by id",
                                                  f"create materialized view m{self._fresh} as select count(*) n from {table}", f"reindex table {table}", "discard plans", f"analyze {table}"]), True)]
