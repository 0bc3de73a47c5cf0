"""What `make install` and `make uninstall` do: they copy and remove what was built, and build
nothing, for root may have no Rust."""

import contextlib
import io
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from bench import data
from demo.__main__ import nothing_left
from tests.case import Run

_HERE = Path(__file__).resolve().parents[1]


class Install(unittest.TestCase):
    """In a copy of the extension's folder, with a root of its own, and compilers that only tell
    that they were called."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pagecast-install-"))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(_HERE, self.folder / "extension", ignore=shutil.ignore_patterns("*.o", "*.so", "*.bc", "target", "__pycache__"))
        tools = self.folder / "tools"
        tools.mkdir()
        self.called = self.folder / "called"
        for name in ("cargo", "compiler"):
            (tools / name).write_text(f"#!/bin/sh\necho {name} >> {self.called}\nexit 1\n")
            (tools / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    def make(self, *arguments: str) -> subprocess.CompletedProcess:
        """Runs make for the server under test."""
        command = ["make", "-s", "-C", str(self.folder / "extension"), f"PG_CONFIG={Run.installation.pg_config}", "CC=compiler", f"DESTDIR={self.folder}/root", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment)

    def installed(self) -> list[str]:
        """The files under the root."""
        return sorted(path.name for path in (self.folder / "root").rglob("*") if path.is_file())

    def test_nothing_was_built(self) -> None:
        """One sentence says what to run; no compiler is called, and nothing is copied."""
        done = self.make("install")
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(done.stderr, r"pg_pagecast is not built yet.* run `make PG_CONFIG=.*` first, as a user who has Rust 1\.\d+ or newer")
        self.assertFalse(self.called.exists(), "a compiler was called")
        self.assertEqual([], self.installed())

    def test_what_was_built_is_copied_and_removed(self) -> None:
        """Though it is older than its sources, and neither cargo nor objects are there."""
        shutil.copy2(Path(Run.installation.ask("pkglibdir")) / "pg_pagecast.so", self.folder / "extension/pg_pagecast.so")
        os.utime(self.folder / "extension/pg_pagecast.so", (0, 0))
        done = self.make("install")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("older than its sources", done.stderr)
        self.assertFalse(self.called.exists(), "a compiler was called")
        scripts = [path.name for path in _HERE.glob("pg_pagecast--*.sql")]
        self.assertEqual(sorted(["pg_pagecast.so", "pg_pagecast.control", *scripts]), self.installed())
        self.assertEqual(0, self.make("uninstall").returncode)
        self.assertEqual([], self.installed())

    def test_another_version(self) -> None:
        """A server that it is not made for is refused in a sentence, by make and by the headers'
        check, and nothing is built."""
        for version in ("14.22", "19devel"):
            with self.subTest(version):
                asked = self.folder / "pg_config"
                asked.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo PostgreSQL {version} || exec {Run.installation.pg_config} \"$@\"\n")
                asked.chmod(0o755)
                done = self.make("all", f"PG_CONFIG={asked}")
                self.assertNotEqual(0, done.returncode)
                self.assertRegex(done.stderr, f"made for PostgreSQL 15 to 18, and `{asked} --version` says: PostgreSQL {version}")
                self.assertFalse(self.called.exists(), "a compiler was called")
                self.assertRegex(self.first_error(f"{version[:2]}0000"), "made for PostgreSQL 15 to 18")

    def first_error(self, number: str) -> str:
        """What the compiler says first of our headers, where the server's have another number."""
        other = self.folder / "other.h"
        other.write_text(f"#include <postgres.h>\n#undef PG_VERSION_NUM\n#define PG_VERSION_NUM {number}\n")
        include = [f"-I{Run.installation.ask('includedir-server')}", f"-I{_HERE}/predictor/include"]
        done = subprocess.run(["cc", "-fsyntax-only", *include, "-include", other, _HERE / "src/version.c"], capture_output=True, text=True)
        return next(line for line in done.stderr.splitlines() if "error" in line)

    def test_without_rust(self) -> None:
        """Who builds is told which Rust is needed."""
        (self.folder / "tools/cargo").unlink()
        self.environment["PATH"] = f"{self.folder}/tools:/usr/bin:/bin"
        if shutil.which("cargo", path=self.environment["PATH"]):
            self.skipTest("cargo is among the system's own programs")
        done = self.make("all", "CC=cc")
        self.assertNotEqual(0, done.returncode)
        self.assertRegex(done.stderr, r"needs Rust 1\.\d+ or newer")


class Demo(unittest.TestCase):
    """What the demonstration leaves behind."""

    def setUp(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="pagecast-demo-"))
        self.addCleanup(shutil.rmtree, folder)
        self.enterContext(mock.patch.object(data, "BUILT", folder))
        # A server whose extension lies in folders of our own.
        self.place = data.place_of(Run.installation, 0.3)
        self.extension = folder / "pg_pagecast.control"
        self.enterContext(mock.patch.object(type(Run.installation), "has_extension", lambda _, name: self.extension.exists()))
        self.enterContext(mock.patch("demo.__main__.uninstall_extension", lambda _: self.extension.unlink()))

    def run_demo(self, keep: bool) -> None:
        """As the benchmark does: loads the data and installs the extension."""
        with contextlib.redirect_stdout(io.StringIO()), nothing_left(Run.installation, 0.3, keep):
            self.place.mkdir(exist_ok=True)
            self.extension.touch()

    def test_nothing_is_left(self) -> None:
        """Neither data nor extension, also after a failure, unless they are to be kept or were
        there before."""
        self.run_demo(keep=False)
        self.assertEqual((False, False), (self.place.exists(), self.extension.exists()))
        with self.assertRaises(ZeroDivisionError), contextlib.redirect_stdout(io.StringIO()), nothing_left(Run.installation, 0.3, False):
            self.place.mkdir()
            raise ZeroDivisionError
        self.assertFalse(self.place.exists())
        self.run_demo(keep=True)
        self.assertEqual((True, True), (self.place.exists(), self.extension.exists()))
        self.run_demo(keep=False)
        self.assertEqual((True, True), (self.place.exists(), self.extension.exists()), "they were there before")
