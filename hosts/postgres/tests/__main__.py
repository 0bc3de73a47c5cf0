"""The command: builds and installs the extension for a server, runs the tests, and says what was
done how often."""

import argparse
import os
import sys
import time
import unittest

from cluster import Installation, ServerFailed, find
from cluster.extension import install_extension, modes
from tests import answers, chunk_memory, chunks, cooperative, cooperative_faults, counted, differential, ended, faults, install, limits, mirrors, portals, recurring, refusals, report, resting, scans, spared, suites, views
from tests.case import Run

_CLASSES = [install.Install, install.Demo, mirrors.Mirrors, report.Report, report.ReportTogether, suites.RowOrder, views.Views, chunks.Chunks, chunks.ChunksInPool, chunk_memory.ChunkMemory, chunk_memory.ChunkMemoryShared, counted.Counted, refusals.Explained, refusals.Refusals, scans.Sequential, scans.Index, resting.Resting, recurring.Recurring, recurring.RecurringFull, recurring.RecurringOff, ended.Partitions, ended.InPool, spared.Spared, spared.SparedFreelist, spared.SparedInVain, spared.SparedForNothing, answers.Answers, answers.AnswersFreelist, answers.AnswersForced, differential.Differential, cooperative.Cooperative, cooperative.CooperativeSettings, cooperative.SmallTables, portals.CooperativePortals, portals.ForcedCursors, faults.Deaths, faults.DeathsFreelist, faults.FullRegistry,
            faults.Crashes, faults.Standby, cooperative_faults.CooperativeDeaths, cooperative_faults.CooperativeFullRegistry, cooperative_faults.CooperativeSmallRegistry, cooperative_faults.CooperativeMostScans,
            cooperative_faults.CooperativeCrashes, cooperative_faults.CooperativeStandby, limits.Extremes, limits.Memory, limits.FullDisk]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests", description="Tests of pg_pagecast on private clusters.")
    parser.add_argument("--version", type=int, help="major version of the server (default: the newest of the system)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="how many times as long as usual the loops go on; 10 is a long run")
    parser.add_argument("--no-install", action="store_true", help="test what is installed")
    parser.add_argument("names", nargs="*", help=f"only these: {', '.join(case.__name__ for case in _CLASSES)}, or CLASS.test_name")
    given = parser.parse_args()
    installation = find(given.version)
    missing = what_is_missing(installation, given)
    if missing:
        print(f"skipped: {missing}")
        return 0
    try:
        if not given.no_install:
            install_extension(installation)
        known_modes = modes(installation)
    except ServerFailed as problem:
        print(f"tests: {problem}", file=sys.stderr)
        return 1
    Run.installation, Run.seed, Run.rounds = installation, given.seed, given.rounds
    start = time.monotonic()
    result = unittest.TextTestRunner(verbosity=2).run(suite(given.names, known_modes))
    print(f"PostgreSQL {installation.version}, seed {given.seed}, rounds {given.rounds}: {time.monotonic() - start:.0f} s")
    for what, number in Run.counts.items():
        print(f"  {number:>7} {what}")
    return 0 if result.wasSuccessful() else 1


def what_is_missing(installation: Installation | None, given: argparse.Namespace) -> str | None:
    """Why nothing can be tested here, if so."""
    if installation is None:
        return f"no PostgreSQL server{f' {given.version}' if given.version else ''} is installed"
    if given.no_install:
        return None if installation.has_extension("pg_pagecast") else "pg_pagecast is not installed"
    if not installation.has_headers():
        return f"PostgreSQL {installation.version} has no server headers (postgresql-server-dev-{installation.major})"
    if not os.access(installation.ask("pkglibdir"), os.W_OK):
        return f"{installation.ask('pkglibdir')} is not writable, and extensions are found only there"
    return None


def suite(names: list[str], known_modes: list[str]) -> unittest.TestSuite:
    """The tests asked for; without names all whose mode is known."""
    loader = unittest.TestLoader()
    tests = unittest.TestSuite()
    for case in _CLASSES:
        mode = getattr(case, "mode", "steering")
        if mode not in known_modes:
            print(f"skipped: {case.__name__}, this build has no mode {mode}")
            continue
        wanted = [name.partition(".")[2] for name in names if name.partition(".")[0] == case.__name__]
        if not names or "" in wanted:
            tests.addTests(loader.loadTestsFromTestCase(case))
        else:
            tests.addTests(case(name) for name in wanted)
    return tests


if __name__ == "__main__":
    sys.exit(main())
