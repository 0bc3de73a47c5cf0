"""What the tests of a server share: one cluster for each test case, sessions, and the checks that
hold after every test."""

import random
import threading
import time
import unittest

from cluster import Cluster, Connection, Installation, Lost, SqlError

# Small enough that every query evicts, with the samples and batches as large as they go.
TINY = {
    "shared_buffers": "1MB", "shared_preload_libraries": "pg_pagecast", "fsync": "off", "max_connections": 60, "autovacuum": "off",
    "max_prepared_transactions": 4, "wal_level": "replica",
}


class Run:
    """What the command line asked for, for all tests: the server, the seed and how long to go
    on."""

    installation: Installation
    seed = 1
    # Rounds of the loops are multiplied by this.
    rounds = 1
    # What the tests did, for the last lines of the output.
    counts: dict[str, int] = {}

    @classmethod
    def count(cls, what: str, number: int = 1) -> None:
        """Adds to a count that is printed at the end."""
        cls.counts[what] = cls.counts.get(what, 0) + number


class ServerTest(unittest.TestCase):
    """Tests on one cluster, made for the class; after every test no registration is left and the
    log tells of no crash."""

    settings: dict = {}
    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(Run.installation, {**TINY, **cls.settings})
        cls.addClassCleanup(cls.cluster.remove)
        cls.cluster.create().start()
        with cls.cluster.connect() as session:
            session.execute("create extension pg_pagecast")
            cls.prepare(session)

    @classmethod
    def prepare(cls, session: Connection) -> None:
        """Makes what the class's tests need in the database."""

    def setUp(self) -> None:
        self.random = random.Random(f"{self.id()} {Run.seed}")

    def tearDown(self) -> None:
        if not self.cluster.running():
            self.fail(f"the server is down:\n{self.cluster.tail()}")
        self.assertEqual([], self.cluster.panics())
        self.assert_nothing_registered()

    def session(self, **options) -> Connection:
        """A session that is closed after the test."""
        session = self.cluster.connect(**options)
        self.addCleanup(session.close)
        return session

    def assert_nothing_registered(self, seconds: float = 10) -> None:
        """No scan is registered once the sessions that ran some have gone; their end may take a
        moment."""
        end = time.monotonic() + seconds
        with self.cluster.connect() as session:
            while (active := session.value("select active from pg_pagecast_stats")) != "0":
                if time.monotonic() > end:
                    left = session.rows("select * from pg_pagecast_scans")
                    self.fail(f"{active} registrations are left: {left}")
                time.sleep(0.05)

    def refusal(self, session: Connection, sql: str) -> SqlError:
        """The error that a statement ends in."""
        with self.assertRaises(SqlError) as caught:
            session.execute(sql)
        return caught.exception

    def together(self, *work) -> None:
        """Runs functions in threads at once and raises what the first of them raised."""
        failures: list[BaseException] = []

        def guarded(function) -> None:
            try:
                function()
            except BaseException as failure:  # handed to the test's own thread
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(function,)) for function in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


def outcome(session: Connection, statements: list[str]) -> list:
    """What each statement answered: rows, or the error's code and message. Ends in no
    transaction."""
    answers = []
    for statement in statements:
        try:
            answers.append(session.rows(statement))
        except Lost:
            raise
        except SqlError as error:
            answers.append((error.sqlstate, str(error)))
    session.execute("rollback")
    return answers


def make_events(session: Connection, table: str = "events", rows: int = 60_000) -> None:
    """A table of about 8 MB whose `day` follows the physical order roughly and whose `code` does
    not at all, with indexes on both."""
    session.execute(f"""
        create table {table} (id int, day int, code int, amount numeric, filler text);
        insert into {table} select i, i / 100 + (i * 37) % 11, (i * 7919) % 1000, i % 977, repeat('x', 60) from generate_series(1, {rows}) i;
        create index {table}_day_brin on {table} using brin (day) with (pages_per_range = 4);
        create index {table}_code on {table} (code);
        create index {table}_id on {table} (id);
        analyze {table}""")
