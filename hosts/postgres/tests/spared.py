"""That pages which a scan is still to read stay in the pool, by counts: how many others push out
with prediction, and how many without."""

import time

from cluster import Connection
from tests.case import Run, ServerTest, make_events

_BITMAP = "set enable_seqscan = off; set enable_indexscan = off; set synchronize_seqscans = off"
_WANTED = "select id from wanted where day between 0 and 1000"


class Spared(ServerTest):
    """A table of a third of the pool that a slow scan reads, and one of more than twice the pool
    that another reads at once."""

    mode = "steering"
    forecast = "on"

    @classmethod
    def setUpClass(cls) -> None:
        # The tables are in the kernel's memory, where steering might cost more than it saves.
        cls.settings = {"pg_pagecast.mode": cls.mode, "shared_buffers": "4MB", "pg_pagecast.read_time": "1ms", "pg_pagecast.forecast": cls.forecast}
        super().setUpClass()

    @classmethod
    def prepare(cls, session: Connection) -> None:
        make_events(session, "wanted", 10_000)
        make_events(session, "passing", 90_000)

    def test_wanted_pages_stay(self) -> None:
        """With prediction most are there when the slow scan comes to them; the clock alone has
        given nearly all away."""
        stock, spared = self.pages_left(enabled=False), self.pages_left(enabled=True)
        Run.count(f"pages left of those that a scan still wanted, mode {self.mode}", spared)
        Run.count(f"of as many with pg_pagecast off, beside mode {self.mode}", stock)
        self.assertLess(stock, 40)
        self.assertGreater(spared, 80)

    def pages_left(self, enabled: bool) -> int:
        """Pages of the wanted table in the pool after the passing one was read, with a scan near
        the wanted one's start."""
        slow, passing, watcher = (self.session() for _ in range(3))
        for session in (slow, passing):
            session.execute(f"{_BITMAP}; set pg_pagecast.enabled = {'on' if enabled else 'off'}")
        before = int(watcher.value("select saved from pg_pagecast_stats"))
        slow.execute("select pg_stat_reset()")
        slow.execute(_WANTED)
        slow.execute(f"begin; declare c no scroll cursor for {_WANTED}; fetch 1 from c")
        # The slow one comes to another page in each turn, lest it is taken for one that rests.
        passing.execute("begin; declare c no scroll cursor for select id from passing where day between 0 and 1000")
        for _ in range(15):
            passing.execute("fetch 6000 from c")
            slow.execute("fetch 120 from c")
        left = int(watcher.value("select buffers from pg_pagecast_buffers() where filenode = pg_relation_filenode('wanted')") or 0)
        rows = slow.rows("fetch all from c")
        self.assertEqual(10_000 - 1 - 15 * 120, len(rows))
        slow.execute("commit")
        passing.execute("commit")
        if enabled:
            self.assertGreater(int(watcher.value("select saved from pg_pagecast_stats")), before, "reads that did not happen")
        return left


class SparedFreelist(Spared):
    """The same in the mode `freelist`."""

    mode = "freelist"


class SparedInVain(Spared):
    """A server that has not judged yet whether steering pays. Only in the mode `steering`: counts
    do not sink to 0 in the other, so nothing is kept from the hand. It expects nothing: what passes
    in turns would be found when it comes again."""

    forecast = "off"
    test_wanted_pages_stay = None

    def test_what_is_kept_in_vain(self) -> None:
        """Where a scan comes to one page while all of its pages are kept again and again, nothing
        is kept any more; some time later it is tried again."""
        slow, steered = self.turns("1ms")
        counts = self.until_it_rests(steered)
        self.assertGreater(counts[-1], counts[0])
        time.sleep(10.5)
        self.assertGreater([steered() for _ in range(3)][-1], counts[-1], "it is tried again")
        slow.execute("commit")

    def turns(self, read_time: str):
        """The slow session, and what has another read all of the passing table, and says how many
        buffers were steered until then."""
        slow, passing, watcher = (self.session() for _ in range(3))
        for session in (slow, passing):
            session.execute(f"{_BITMAP}; set pg_pagecast.read_time = '{read_time}'")
        slow.execute(_WANTED)
        slow.execute(f"begin; declare c no scroll cursor for {_WANTED}; fetch 1 from c")

        def steered() -> int:
            # In four parts: none is in the pool any more when its turn comes again.
            for first in range(0, 900, 225):
                passing.execute(f"select count(filler) from passing where day between {first} and {first + 224}")
            slow.execute("fetch 60 from c")
            return int(watcher.value("select steered from pg_pagecast_stats"))

        return slow, steered

    def until_it_rests(self, steered) -> list[int]:
        """What `steered` says, turn by turn."""
        counts = [steered()]
        # Until nothing was steered for two turns; some 40 are needed.
        while len(counts) < 120 and (len(counts) < 3 or counts[-3] != counts[-1]):
            counts.append(steered())
        self.assertEqual(counts[-1], counts[-3], f"it does not stand aside: {counts[::20]}")
        return counts


class SparedForNothing(SparedInVain):
    """Another such server, which expects what passes."""

    forecast = "on"
    test_what_is_kept_in_vain = None

    def test_reads_that_take_no_time(self) -> None:
        """Where no read is worth a choice, steering rests after one victim for each buffer."""
        slow, steered = self.turns("0")
        self.assertLess(len(self.until_it_rests(steered)), 8)
        slow.execute("commit")
