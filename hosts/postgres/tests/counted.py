"""What is remembered of relations when there are more than places for them, and what goes: the
least read, and what is dropped."""

from cluster import Connection
from tests.case import ServerTest

# As many as relation_counts.c has places for.
_PLACES = 512
_TABLES = 540


class Counted(ServerTest):
    """More tables than places, each of more blocks than a bitmap must have to be registered."""

    settings = {"enable_seqscan": "off", "enable_indexscan": "off", "shared_buffers": "8MB"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        cls.make(session, _TABLES)

    @staticmethod
    def make(session: Connection, tables: int) -> None:
        """Tables with a row for each of 40 blocks, and no index but one that says nothing."""
        session.execute(f"""
            do $$ begin for number in 1..{tables} loop
                execute format('create table t_%1$s (key int, filler text) with (fillfactor = 10); alter table t_%1$s alter filler set storage plain; '
                    'insert into t_%1$s select key, repeat(''x'', 800) from generate_series(1, 40) key; '
                    'create index on t_%1$s using brin (key) with (pages_per_range = 1); analyze t_%1$s', number);
            end loop; end $$""")

    def setUp(self) -> None:
        super().setUp()
        self.watcher = self.session()
        self.watcher.execute("select pg_pagecast_reset()")

    def read(self, session: Connection, *numbers: int) -> None:
        """Reads tables by bitmap scans."""
        for number in numbers:
            session.execute(f"select count(*) from t_{number} where key > 0")

    def counts(self) -> dict[str, int]:
        """Blocks found and read by name of the relation, as the view has them."""
        return {name: int(blocks) for name, blocks in self.watcher.rows("select relation, hits + reads from pg_pagecast_relations")}

    def total(self) -> int:
        """Blocks found and read of all relations that are counted, and of the others."""
        return int(self.watcher.value("select coalesce(sum(hits + reads), 0) from pg_pagecast_relations()"))

    def test_the_busiest_stay(self) -> None:
        """Those read often keep their counts, whoever comes; what the others had is kept in sum;
        and one that comes late is seen."""
        session = self.session()
        for _ in range(5):
            self.read(session, *range(1, 11))
        self.read(session, *range(11, _TABLES + 1))
        counts = self.counts()
        self.assertEqual(_PLACES, len(counts))
        self.assertEqual({200}, {counts[f"t_{number}"] for number in range(1, 11)})
        self.assertEqual({40}, {counts[f"t_{number}"] for number in range(_TABLES - 20, _TABLES + 1)}, "those read last")
        self.assertEqual(10 * 200 + (_TABLES - 10) * 40, self.total())
        stats = self.watcher.records("select hits + reads as blocks from pg_pagecast_stats")[0]
        self.assertEqual(int(stats["blocks"]), self.total())

    def test_the_limit_is_told(self) -> None:
        """Where administrators look, in the view's comment."""
        self.assertIn(str(_PLACES), self.watcher.value("select obj_description('pg_pagecast_relations'::regclass)"))

    def test_dropped_ones_go(self) -> None:
        """With their transaction; not where it is rolled back, or a savepoint in it; all of a
        database with it."""
        session = self.session()
        session.execute("create table dropped (like t_1 including storage including indexes) with (fillfactor = 10); insert into dropped select * from t_1; analyze dropped")
        session.execute("select count(*) from dropped where key > 0")
        self.read(session, 1, 2, 3)
        self.assertEqual({"dropped", "t_1", "t_2", "t_3"}, set(self.counts()))
        before = self.total()
        session.execute("begin; drop table dropped; rollback; begin; savepoint s; drop table dropped; rollback to s; commit")
        self.assertEqual(before, self.total())
        session.execute("drop table dropped")
        self.assertEqual(before - 40, self.total())
        session.execute("create database elsewhere")
        with self.cluster.connect("elsewhere") as other:
            self.make(other, 3)
            self.read(other, 1, 2, 3)
        self.assertEqual(before - 40 + 120, self.total())
        session.execute("drop database elsewhere")
        self.assertEqual(before - 40, self.total())
