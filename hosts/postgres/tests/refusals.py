"""What the extension has in a database, and what is said where it cannot work or is told
nonsense."""

import shutil
import struct
from pathlib import Path

from cluster import Cluster, ServerFailed, SqlError
from tests.case import Run, ServerTest


class Explained(ServerTest):
    """What the extension has in a database."""

    def test_everything_is_explained(self) -> None:
        """Each view, function and column has a comment, and the planner is told how many rows
        come."""
        session = self.session()
        of_extension = "deptype = 'e' and refobjid = (select oid from pg_extension where extname = 'pg_pagecast')"
        self.assertEqual([], session.rows("select c.relname, attname from pg_depend join pg_class c on classid = 'pg_class'::regclass and c.oid = objid and c.relkind = 'v' "
                                          f"join pg_attribute on attrelid = c.oid and attnum >= 0 where {of_extension} and col_description(c.oid, attnum) is null"))
        self.assertEqual([], session.rows("select p.oid::regprocedure from pg_depend join pg_proc p on classid = 'pg_proc'::regclass and p.oid = objid "
                                          f"where {of_extension} and (obj_description(p.oid, 'pg_proc') is null or proretset and prorows = 1000)"))

    def test_an_older_library(self) -> None:
        """Where the SQL has a column that the loaded library does not know, the message asks for a
        restart."""
        session = self.session()
        for name in ("scans", "relations", "buffers", "stats", "chunks"):
            columns = ", ".join(f"out c{number} bigint" for number in range(30))
            session.execute(f"create function newer_{name}({columns}) returns setof record as '$libdir/pg_pagecast', 'pg_pagecast_{name}' language c")
            with self.assertRaisesRegex(SqlError, "older than the extension"):
                session.rows(f"select * from newer_{name}()")


class Refusals(ServerTest):
    """Servers that do not start, or sessions that are told why nothing can be had; here without a
    server of the class."""

    @classmethod
    def setUpClass(cls) -> None:
        """Each test has its own."""

    def tearDown(self) -> None:
        """Nothing runs any more."""

    def test_settings_beyond_their_limits(self) -> None:
        """The server says which setting and what it may be, and goes on with the default, as with
        any library's."""
        for beyond in ({"memory": "1kB", "max_scans": "0", "samples": "0", "bulk": "101", "mode": "guessing"},
                       {"memory": "17GB", "max_scans": "65537", "samples": "101", "bulk": "0", "frequency": "often", "fallback": "fifo"}):
            with Cluster(Run.installation, {"shared_preload_libraries": "pg_pagecast"}) as cluster:
                cluster.create().start(**{f"pg_pagecast__{name}": value for name, value in beyond.items()})
                said = cluster.tail(100)
                with cluster.connect() as session:
                    for name in beyond:
                        self.assertRegex(said, rf"(outside the valid range|invalid value) for parameter \"pg_pagecast\.{name}\"")
                        self.assertEqual("t", session.value(f"select setting = boot_val from pg_settings where name = 'pg_pagecast.{name}'"), name)

    def test_a_library_for_another_server(self) -> None:
        """A server does not load what was built for another major version, and says for which one
        it was built."""
        major = Run.installation.major
        # PG_MODULE_MAGIC: the version, and the server's limits.
        ours, other = (struct.pack("<5i", number * 100, 100, 32, 64, 1) for number in (major, major + 1))
        library = (Path(Run.installation.ask("pkglibdir")) / "pg_pagecast.so").read_bytes()
        self.assertEqual(1, library.count(ours))
        with Cluster(Run.installation) as cluster:
            cluster.create()
            place = cluster.folder / "other.so"
            place.write_bytes(library.replace(ours, other))
            shutil.chown(place, cluster.folder.owner())
            with self.assertRaises(ServerFailed) as caught:
                cluster.start(shared_preload_libraries=str(place))
        self.assertRegex(str(caught.exception), rf"incompatible library(.|\n)*Server is version {major}, library is version {major + 1}")

    def test_without_a_restart(self) -> None:
        """A session that loads it by hand is told what to do, as is one that asks a view; the
        server goes on."""
        with Cluster(Run.installation) as cluster:
            cluster.create().start()
            with cluster.connect() as session:
                session.execute("load 'pg_pagecast'")
                self.assertIn("shared_preload_libraries", "".join(session.notices))
                session.execute("create extension pg_pagecast")
                for view in ("scans", "relations", "stats"):
                    self.assert_told(session, f"select * from pg_pagecast_{view}")
                self.assert_told(session, "select pg_pagecast_reset()")

    def assert_told(self, session, sql: str) -> None:
        """The statement is refused, and the refusal says what to do."""
        with self.assertRaisesRegex(SqlError, "pg_pagecast is not loaded"):
            session.execute(sql)
        with self.assertRaisesRegex(SqlError, "Add pg_pagecast to shared_preload_libraries and restart the server"):
            session.execute(f"set client_min_messages = error; do $do$ declare hint text; begin execute $q${sql}$q$; "
                            "exception when others then get stacked diagnostics hint = pg_exception_hint; raise exception '%', hint; end $do$")
