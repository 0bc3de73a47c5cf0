"""What the report of `bench` says of how it was measured."""

import tempfile
import unittest
from argparse import Namespace
from pathlib import Path

from bench import cooperative, together
from bench.__main__ import write
from bench.measure import SETTINGS
from tests.case import Run


class Report(unittest.TestCase):
    """A page of invented runs."""

    def test_settings_and_units(self) -> None:
        """Every setting that is not the server's default is named, and what a block is."""
        figures = {"workload": "brin", "streams": 8, "seed": 1, "blocks": 5000, "hits": 100, "device_bytes": 1 << 30, "wall_s": 2.0, "cpu_s": 1.0, "queries": [], "limits": "none"}
        with tempfile.TemporaryDirectory() as folder:
            given = Namespace(json=Path(folder) / "r.json", html=Path(folder) / "r.html", scale=1.0, shared_buffers=1 << 28, set=["random_page_cost=1.5"], workloads=["brin"])
            write(given, Run.installation, [{**figures, "variant": variant} for variant in ("stock", "steering")])
            page = given.html.read_text()
        for name, value in {**SETTINGS, "random_page_cost": "1.5"}.items():
            self.assertIn(f"{name} = {value}", page)
        self.assertIn("brin: enable_seqscan = off", page)
        self.assertIn("blocks of 8 KiB", page)
        self.assertNotIn("defaults", page.split("<script")[0])


class ReportTogether(unittest.TestCase):
    """Pairs, goals and the log of the cooperative benchmark, of invented runs."""

    # Of seed 1 and 2: stock, ours, and stock with a smaller pool.
    DEVICE = {("stock", 128): (100, 200), ("cooperative", 128): (60, 150), ("stock", 32): (80, 100)}

    def runs(self) -> list[dict]:
        """As the benchmark has them."""
        cell = {"server": "15.18", "kind": "whole", "parallel": "off", "read_ahead": 1 << 20, "share": 30, "streams": 8, "limits": "none", "date": "2026-11-22", "build": "b"}
        figures = {"blocks": 1, "hits": 1, "wall_s": 1.0, "cpu_s": 1.0, "mean_latency_s": 1.0, "max_latency_s": 1.0}
        answer = [{"stream": 0, "name": "fast", "result": "x"}]
        return [{**cell, **figures, "variant": variant, "pool": pool << 20, "seed": seed, "device_bytes": device, "queries": answer}
                for (variant, pool), read in self.DEVICE.items() for seed, device in enumerate(read, 1)]

    def test_pairs_and_goals(self) -> None:
        """Ratios are of the same seed, the best stock server is the one that reads least in the
        median, and a median above its goal is marked."""
        pairs = together.pairs(self.runs(), "cooperative")
        self.assertEqual([1, 2], [pair["seed"] for pair in pairs])
        self.assertEqual([32 << 20] * 2, [pair["best_stock"]["shared_buffers"] for pair in pairs])
        line, = together.summary(pairs)
        self.assertEqual({"median": 0.675, "least": 0.6, "most": 0.75}, line["ratio"]["device_bytes"])
        self.assertEqual({"median": 1.125, "least": 0.75, "most": 1.5}, line["ratio_best"]["device_bytes"])
        text = " ".join(together.cells(line))
        self.assertIn("0.68 (0.60-0.75) \u2264 0.70", text)
        self.assertIn("1.12 (0.75-1.50) > 1.05", text)
        # Of another pool no more is asked than stock.
        line, = together.summary(together.pairs([{**run, "share": 10} for run in self.runs()], "cooperative"))
        self.assertIn("0.68 (0.60-0.75) \u2264 1.00", " ".join(together.cells(line)))

    def test_a_different_answer_is_told(self) -> None:
        """Also where only the second opponent's differs."""
        runs = self.runs()
        runs[-1]["queries"] = [{"stream": 0, "name": "fast", "result": "y"}]
        self.assertEqual([True, False], [pair["same_results"] for pair in together.pairs(runs, "cooperative")])
        self.assertIn("DIFFERENT", together.table(together.summary(together.pairs(runs, "cooperative"))))

    def test_the_log_survives_a_crash(self) -> None:
        """Half a line at its end is not read, and what is appended after it is; of two runs with
        one key the last counts."""
        run = {name: 1 for name in cooperative.Log.KEY} | {"build": "b"}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            cooperative.Log(path).add({**run, "wall_s": 1})
            with open(path, "a") as file:
                file.write('{"half": ')
            log = cooperative.Log(path)
            self.assertTrue(log.has(run))
            self.assertFalse(log.has({**run, "build": "other"}))
            self.assertFalse(log.has({**run, "seed": 2}))
            log.add({**run, "wall_s": 2})
            self.assertEqual([2], [found["wall_s"] for found in cooperative.Log(path).latest()])
