"""Random programs beside a stock server: no query, cursor or statement under the extension gives
another row, count or error.

A cursor whose query has no order may give its rows in any order, but each once, and the same one
when it comes back to it. So a model of the cursor says what each FETCH must return; the stock
server's answers go through the same model."""

import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from cluster import Cluster, Connection, Lost, SqlError
from tests.case import TINY, Run, ServerTest
from tests.programs import Generator, Step, schema

_THREADS = 3
_STEPS = 60


class Difference(AssertionError):
    """What a stock server answers otherwise."""


@dataclass
class CursorModel:
    """The rows that a cursor has, by their places from 1 on, as far as they are known."""

    rows: Counter
    known: dict[int, tuple] = field(default_factory=dict)
    at: int = 0

    @classmethod
    def of(cls, rows: list[tuple], ordered: bool) -> "CursorModel":
        """Of a query's rows, no two of which are the same."""
        return cls(Counter(rows), dict(enumerate(rows, 1)) if ordered else {})

    def places(self, sql: str) -> list[int]:
        """Moves the cursor; where the rows are that a FETCH returns."""
        total, at = self.rows.total(), self.at
        text = re.match(r"(?:fetch|move) (.*) from", sql).group(1)
        text = {"next": "forward 1", "prior": "backward 1", "first": "absolute 1", "last": "absolute -1", "all": f"forward {total + 1}",
                "backward all": f"backward {total + 1}", "relative 0": "forward 0"}.get(text, text)
        kind, number = text.split()[0], int(text.split()[1])
        if kind == "forward" and number == 0:
            return [at] if 1 <= at <= total else []
        if kind == "forward":
            self.at = min(at + number, total + 1)
            return list(range(at + 1, min(at + number, total) + 1))
        if kind == "backward":
            self.at = max(at - number, 0)
            return list(range(at - 1, max(at - number, 1) - 1, -1))
        if kind == "absolute":
            self.at = min(number, total + 1) if number >= 0 else max(total + 1 + number, 0)
        else:
            self.at = max(0, min(at + number, total + 1))
        return [self.at] if 1 <= self.at <= total else []

    def check(self, sql: str, rows: list[tuple]) -> None:
        """What a statement with the cursor has returned."""
        if sql.startswith("update"):
            if rows and self.at in self.known and rows[0][0] not in self.known[self.at]:
                raise Difference(f"{rows[0]} was updated, and the cursor is at {self.known[self.at]}")
            return
        places = self.places(sql)
        if sql.startswith("move"):
            return
        if len(places) != len(rows):
            raise Difference(f"{len(rows)} rows, and {len(places)} were left")
        for place, row in zip(places, rows):
            if place not in self.known:
                if self.rows[row] <= sum(1 for other in self.known.values() if other == row):
                    raise Difference(f"{row} is {'there twice' if self.rows[row] else 'no row of the query'}")
                self.known[place] = row
            elif self.known[place] != row:
                raise Difference(f"{row} at {place}, where {self.known[place]} was")


class Side:
    """The sessions of one server that run a program."""

    def __init__(self, cluster: Cluster, name: str):
        self.main, self.beside = cluster.connect(), cluster.connect()
        self.main.execute(f"drop schema if exists {name} cascade")
        self.beside.execute("set lock_timeout = '2s'")
        for statement in schema(name):
            self.main.execute(statement)
        self.main.execute("set client_min_messages = error; set jit = off; set deadlock_timeout = '60s'")
        self.beside.execute(f"set search_path = {name}")
        self.cursors: dict[str, CursorModel] = {}

    def close(self) -> None:
        """Ends both sessions."""
        self.main.close()
        self.beside.close()

    def answer(self, session: Connection, sql: str):
        """Rows and tag, or an error's code."""
        try:
            result = session.execute(sql)
            return result.rows, result.tag
        except Lost:
            raise
        except SqlError as error:
            return error.sqlstate

    def fault(self, step: Step, answer: tuple) -> str | None:
        """What the model of the step's cursor says against an answer."""
        try:
            self.cursors[step.where].check(step.sql, answer[0])
        except Difference as difference:
            return str(difference)
        return None


def run(ours: Side, stock: Side, steps: list[Step]) -> None:
    """Runs a program; the first difference is raised, with the steps before it."""
    for number, step in enumerate(steps):
        try:
            run_step(ours, stock, step)
        except Difference as difference:
            before = "\n".join(f"{step.where}: {step.sql}" for step in steps[:number])
            raise Difference(f"step {number}, {step.where}: {step.sql}\n{difference}\nafter\n{before}") from None


def run_step(ours: Side, stock: Side, step: Step) -> None:
    """One step on both sides, and its comparison."""
    if step.where == "ours":
        ours.answer(ours.main, step.sql)
        return
    if step.where == "pause":
        time.sleep(2.2)
        return
    declares = re.search(r"cursor (?:with hold )?for (.*)|/\* (.*) \*/", step.sql) if step.where not in ("both", "beside") else None
    if not declares and step.where not in ("both", "beside", *ours.cursors):
        return
    expected = stock.answer(stock.main, next(filter(None, declares.groups()))) if declares else None
    sessions = (ours.beside, stock.beside) if step.where == "beside" else (ours.main, stock.main)
    answers = [side.answer(session, step.sql) for side, session in zip((ours, stock), sessions)]
    compare(answers, step)
    if isinstance(answers[0], str):
        Run.count(f"of these, steps with the error {answers[0]}")
        if answers[0] == "34000":
            ours.cursors.pop(step.where, None)
            stock.cursors.pop(step.where, None)
        if answers[0] == "25P02":
            for session in sessions:
                session.execute("rollback; begin")
        return
    if declares and isinstance(expected, tuple):
        for side in (ours, stock):
            side.cursors[step.where] = CursorModel.of(expected[0], step.ordered)
    elif not declares and step.where in ours.cursors and not step.sql.startswith("close"):
        faults = [side.fault(step, answer) for side, answer in zip((ours, stock), answers)]
        if faults[0] and not faults[1]:
            raise Difference(faults[0])
        if faults[1]:
            # Going back over equal keys a stock B-tree gives the rows of each posting list forward.
            ours.cursors.pop(step.where)
            stock.cursors.pop(step.where)
            Run.count("cursors that a stock server does not scroll back as it went")


def compare(answers: list, step: Step) -> None:
    """Errors, tags and rows are the same."""
    ours, stock = answers
    if isinstance(ours, str) or isinstance(stock, str) or ours[1] != stock[1]:
        if (ours if isinstance(ours, str) else ours[1]) != (stock if isinstance(stock, str) else stock[1]):
            raise Difference(f"ours: {_short(ours)}\nstock: {_short(stock)}")
        return
    if step.where not in ("both", "beside"):
        return
    rows, others = (ours[0], stock[0]) if step.ordered else (sorted(ours[0], key=repr), sorted(stock[0], key=repr))
    if rows != others:
        raise Difference(f"ours without stock: {_short(list((Counter(rows) - Counter(others)).elements()))}\n"
                         f"stock without ours: {_short(list((Counter(others) - Counter(rows)).elements()))}")


def _short(value) -> str:
    return str(value)[:400]


class Differential(ServerTest):
    """Programs at once on both servers, with scans of their tables beside on ours."""

    settings = {"max_connections": 80, "max_worker_processes": 24, "max_parallel_workers": 16}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        plain = {name: value for name, value in {**TINY, **cls.settings}.items() if name != "shared_preload_libraries" and not name.startswith("pg_pagecast")}
        cls.stock = Cluster(Run.installation, plain)
        cls.addClassCleanup(cls.stock.remove)
        cls.stock.create().start()
        cls.force = "debug_parallel_query" if Run.installation.major >= 16 else "force_parallel_mode"

    def program(self, number: int) -> None:
        """One program; a difference says how to run it again."""
        name = f"p{number % 1000}"
        sides = [Side(cluster, name) for cluster in (self.cluster, self.stock)]
        # A pause takes longer than all else.
        steps = Generator(f"{Run.seed} {number}", self.force, 2 if number % 6 == 5 else 0).steps(_STEPS)
        try:
            run(*sides, steps)
        except Difference as difference:
            self.fail(f"program {number} of seed {Run.seed}, {difference}")
        except Lost as lost:
            self.fail(f"program {number} of seed {Run.seed}: {lost}\n{self.cluster.tail()}")
        finally:
            for side in sides:
                side.close()
        Run.count("steps of random programs compared with stock", len(steps))

    def test_programs(self) -> None:
        """Some programs, several at once."""
        numbers = iter(range(6 * Run.rounds))
        lock, stop = threading.Lock(), threading.Event()

        def work() -> None:
            try:
                while not stop.is_set():
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    self.program(number)
            finally:
                stop.set()

        def read_beside() -> None:
            with self.cluster.connect() as session:
                session.execute("set statement_timeout = '1s'; set pg_pagecast.cooperation_forced = on; set jit = off")
                turn = 0
                while not stop.is_set():
                    turn += 1
                    for (table,) in outcome_rows(session, "select oid::regclass::text from pg_class where relname in ('many', 'mid', 'few') and relkind = 'r'"):
                        outcome_rows(session, f"select count(*) from {table} where id % {turn % 5 + 1} = 0")

        self.together(*[work] * _THREADS, read_beside)
        with self.cluster.connect() as session:
            counters = session.records("select registered, chunks, chunks_shared, steered from pg_pagecast_stats")[0]
        self.assertTrue(all(int(number) > 0 for number in counters.values()), counters)
        Run.count("chunks handed out to random programs", int(counters["chunks"]))


def outcome_rows(session: Connection, sql: str) -> list[tuple]:
    """Rows, or none where the table has gone."""
    try:
        return session.rows(sql)
    except Lost:
        raise
    except SqlError:
        return []
