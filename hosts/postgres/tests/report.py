"""What the report of `bench` says of how it was measured."""

import tempfile
import unittest
from argparse import Namespace
from pathlib import Path

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
