"""What cooperative scans do to the pool, by counts: pages that others use stay, and what one query
has read the next one finds."""

from cluster import Connection
from tests.case import Run, ServerTest, make_events

_USED = "select count(*) from used"
_READ = "select count(*), sum(id), sum(amount) from events"


class ChunkMemory(ServerTest):
    """A table of about 1000 blocks under 512 buffers, and one of about 70 blocks that is used
    again and again."""

    settings = {"shared_buffers": "4MB", "pg_pagecast.cooperation_share": "90"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session)
        make_events(session, "used", 5_000)
        session.execute("vacuum")
        session.execute("checkpoint")
        session.execute("alter database postgres set enable_indexscan = off; alter database postgres set enable_bitmapscan = off; "
                        "alter database postgres set max_parallel_workers_per_gather = 0")

    def in_pool(self, watcher: Connection, table: str) -> int:
        """Buffers that hold blocks of the table."""
        watcher.execute("create extension if not exists pg_buffercache")
        return int(watcher.value(f"select count(*) from pg_buffercache where relfilenode = pg_relation_filenode('{table}') and relforknumber = 0"))

    def read(self, session: Connection, query: str = _READ) -> int:
        """Blocks that a query has to read."""
        plan = session.rows(f"explain (analyze, buffers, timing off, summary off, format json) {query}")[0][0]
        return int(plan.split('"Shared Read Blocks": ')[1].split(",")[0])

    def test_next_query_finds_what_the_last_one_read(self) -> None:
        """A query alone leaves in the pool what it may have, and the next one begins there."""
        session = self.session()
        first, second, third = (self.read(session) for _ in range(3))
        Run.count("blocks that a lone query need not read again", first - third)
        self.assertLess(second, first)
        self.assertLessEqual(third, first - 512 // 4, "more is found than the pool that it has at first")

    def test_pages_that_others_use_stay(self) -> None:
        """Scans of twice the pool at once leave the pages of a table that is used between them."""
        watcher = self.session()
        for _ in range(5):
            watcher.value(_USED)
        readers = [self.session() for _ in range(4)]
        missed = 0
        for _ in range(3):
            for reader in readers:
                reader.execute("begin; declare c no scroll cursor for select id from events")
            for _ in range(12):
                for reader in readers:
                    reader.execute("fetch 8000 from c")
                missed += self.read(watcher, _USED)
            for reader in readers:
                reader.execute("commit")
        Run.count("pages of a table in use that cooperative scans displaced", missed)
        self.assertEqual(0, missed)
        self.assertGreater(self.in_pool(watcher, "events"), 512 // 4, "and they have a part of the pool")


class ChunkMemoryShared(ServerTest):
    """A table of twice the pool of 2048 buffers, one of 100 blocks that is used again and again,
    and one whose blocks are read once."""

    settings = {"shared_buffers": "16MB"}

    @classmethod
    def prepare(cls, session: Connection) -> None:
        for table, blocks in (("events", 4000), ("used", 100), ("missed", 1000)):
            session.execute(f"create table {table} (id int, filler text); alter table {table} alter filler set storage plain; "
                            f"insert into {table} select i, repeat('x', 7000) from generate_series(1, {blocks}) i")
        session.execute("create extension pg_buffercache")
        session.execute("vacuum")
        session.execute("checkpoint")

    def test_misses_of_others_age_nobody(self) -> None:
        """What others miss finds free buffers. So the clock's hand does not go round, and pages
        keep the usage counts that they had."""
        watcher, readers = self.session(), [self.session() for _ in range(4)]
        for _ in range(2):
            watcher.value("select count(*) from events")
        counts = "select count(*), min(usagecount) from pg_buffercache where relfilenode = pg_relation_filenode('used') and relforknumber = 0"
        # What the question reads itself it reads before.
        watcher.rows(counts)
        for _ in range(12):
            watcher.value(_USED)
        self.assertEqual(("100", "5"), watcher.rows(counts)[0])
        for reader in readers:
            reader.execute("begin; declare c no scroll cursor for select id from events")
        for turn in range(40):
            for number, reader in enumerate(readers):
                # Some scans are slow, and have their chunk for long.
                reader.execute(f"fetch {20 + 55 * number} from c")
                blocks = range(turn * 24 + number * 6, turn * 24 + number * 6 + 6)
                watcher.execute(f"select id from missed where ctid in ({', '.join(f'$${(block, 1)}$$' for block in blocks)})")
                Run.count("misses beside cooperative scans that found a free buffer", len(blocks))
        for reader in readers:
            reader.execute("commit")
        pages, least = map(int, watcher.rows(counts)[0])
        self.assertEqual(100, pages)
        # Once a minute they may sink by one, and the machine may be slow.
        self.assertGreaterEqual(least, 3)
