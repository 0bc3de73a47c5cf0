"""What administrators see and may do: views, privileges and settings."""

from tests.case import ServerTest, make_events


class Views(ServerTest):
    """On a server that loaded the extension, with buffers for the catalogs that the views read."""

    settings = {"shared_buffers": "4MB"}

    @classmethod
    def prepare(cls, session) -> None:
        make_events(session)
        session.execute("create role anybody login; create role watcher login in role pg_monitor; grant select on events to anybody, watcher")

    def test_a_running_scan_is_shown(self) -> None:
        """A cursor in the middle of its blocks: who, what, where, and that it gets on."""
        runner, watcher = self.session(), self.session(user="watcher")
        runner.execute("begin; set local enable_seqscan = off; set local enable_indexscan = off")
        runner.execute("declare c cursor for select * from events where day between 100 and 400; fetch 100 from c")
        first = watcher.records("select * from pg_pagecast_scans")
        self.assertEqual(1, len(first), first)
        scan = first[0]
        self.assertEqual((str(runner.pid), "events"), (scan["pid"], scan["relation"]))
        self.assertIn("bitmap", scan["kind"])
        runner.execute("fetch 10000 from c")
        later = watcher.records("select * from pg_pagecast_scans")[0]
        self.assertGreater(int(later["position"]), int(scan["position"]))
        self.assertLess(int(later["blocks_left"]), int(scan["blocks_left"]))
        runner.execute("rollback")
        self.assertEqual([], watcher.rows("select * from pg_pagecast_scans"))

    def test_counters_and_reset(self) -> None:
        """A scan is counted once, and reset clears everything but what is active."""
        session = self.session()
        before = session.records("select * from pg_pagecast_stats")[0]
        session.execute("set enable_seqscan = off; set enable_indexscan = off; select count(*) from events where day between 100 and 400")
        after = session.records("select * from pg_pagecast_stats")[0]
        self.assertEqual((1, 1, 0), tuple(int(after[name]) - int(before[name]) for name in ("registered", "finished", "refused")))
        relation = session.records("select * from pg_pagecast_relations where relation = 'events'::regclass")[0]
        self.assertGreater(int(relation["buffers"]), 0)
        self.assertGreater(int(relation["hits"]) + int(relation["reads"]), 0)
        session.execute("select pg_pagecast_reset()")
        cleared = session.records("select * from pg_pagecast_stats")[0]
        self.assertEqual({"0"}, {cleared[name] for name in ("registered", "finished")})
        # What the reset itself reads may have the hand steered, for the query is expected again.
        self.assertLess(int(cleared["steered"]), int(after["steered"]))

    def test_explain(self) -> None:
        """The line under EXPLAIN ANALYZE belongs to its summary."""
        session = self.session()
        session.execute("set enable_seqscan = off; set enable_indexscan = off")
        query = "select count(*) from events where day between 100 and 400"
        line = ("Scans registered by pg_pagecast: 1",)
        self.assertIn(line, session.rows(f"explain (analyze) {query}"))
        self.assertNotIn(line, session.rows(f"explain (analyze, summary off) {query}"))
        self.assertNotIn(line, session.rows(f"explain {query}"))

    def test_auto_explain(self) -> None:
        """It logs the line under the plan of the query that it is of, whatever runs inside of that;
        and none where nothing was registered."""
        session = self.session()
        session.execute("create function scanned() returns bigint language plpgsql as 'begin return (select count(*) from events where day between 100 and 400); end'; "
                        "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on; set enable_seqscan = off; set enable_indexscan = off")
        line = "\tScans registered by pg_pagecast: "

        def logged(sql: str) -> str:
            before = self.cluster.log.stat().st_size
            session.execute(sql)
            return self.cluster.log.read_text()[before:]

        self.assertRegex(logged("select count(*) from events where day between 100 and 400"), rf"plan:\n(\t.*\n)*{line}1\n")
        self.assertIn(f"{line}2\n", logged("select count(*), (select scanned()) from events where day between 10 and 400"))
        said = logged("select 1")
        self.assertIn("plan:", said)
        self.assertNotIn(line, said)
        self.assertNotIn(line, logged("set auto_explain.log_format = json; select count(*) from events where day between 100 and 400"))
        session.execute("drop function scanned")

    def test_privileges(self) -> None:
        """As for pg_buffercache: nobody but superusers and pg_monitor; only superusers reset."""
        anybody, watcher = self.session(user="anybody"), self.session(user="watcher")
        for view in ("scans", "relations", "stats", "expected"):
            self.assertEqual("42501", self.refusal(anybody, f"select * from pg_pagecast_{view}").sqlstate)
            watcher.rows(f"select * from pg_pagecast_{view}")
        for session in (anybody, watcher):
            self.assertEqual("42501", self.refusal(session, "select pg_pagecast_reset()").sqlstate)
            self.assertEqual("42501", self.refusal(session, "set pg_pagecast.samples = 20").sqlstate)
        anybody.execute("set pg_pagecast.enabled = off")
        before = watcher.value("select registered from pg_pagecast_stats")
        anybody.execute("set enable_seqscan = off; set enable_indexscan = off; select count(*) from events where day between 100 and 400")
        self.assertEqual(before, watcher.value("select registered from pg_pagecast_stats"), "off for this session")

    def test_settings(self) -> None:
        """Every setting has a description; values outside the limits are refused with the setting's
        name."""
        session = self.session()
        settings = session.records("select * from pg_settings where name like 'pg_pagecast.%' order by name")
        names = {setting["name"].split(".")[1] for setting in settings}
        self.assertLessEqual({"enabled", "mode", "samples", "bulk", "frequency", "fallback", "memory", "max_scans"}, names)
        for setting in settings:
            self.assertTrue(setting["short_desc"], setting["name"])
            if setting["vartype"] == "integer" and setting["context"] != "postmaster":
                beyond = int(setting["max_val"]) + 1
                self.assertIn(setting["name"], str(self.refusal(session, f"set {setting['name']} = {beyond}")))
        self.assertIn("mode", str(self.refusal(session, "set pg_pagecast.mode = 'guessing'")))
        self.assertIn("pg_pagecast.nothing", str(self.refusal(session, "set pg_pagecast.nothing = 1")))

    def test_created_twice_and_dropped(self) -> None:
        """The extension can be dropped and made anew while scans are registered."""
        session = self.session()
        self.assertEqual("42710", self.refusal(session, "create extension pg_pagecast").sqlstate)
        session.execute("begin; set local enable_seqscan = off; declare c cursor for select * from events where day < 400; fetch 10 from c")
        with self.cluster.connect() as other:
            other.execute("drop extension pg_pagecast; create extension pg_pagecast")
        session.execute("fetch all from c; commit")
