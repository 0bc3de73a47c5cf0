"""Installs a server and the extension where they are missing, and measures a minute's worth of
reporting queries with and without it.

At the end the data and the extension are removed again, unless they were there before or are to be
kept.
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import data
from cluster import Installation, ServerFailed
from cluster.extension import install_extension, install_server, modes, require_rust, uninstall_extension

_REPORT = Path("target/demo-postgres")
_SCALE = 0.3


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description="Reporting queries on a stock server and with pg_pagecast, from nothing.")
    parser.add_argument("--keep", action="store_true", help="leave the data and the installed extension for the next time")
    given = parser.parse_args()
    try:
        require_rust()
        installation = install_server()
        with nothing_left(installation, _SCALE, given.keep):
            return measure(installation)
    except ServerFailed as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 1


def measure(installation: Installation) -> int:
    """Installs the extension and has the benchmark run."""
    print(f"PostgreSQL {installation.version}: building pg_pagecast", flush=True)
    install_extension(installation)
    print("16 sessions report over random 30 % of the dates of lineitem (270 MB) with 80 MB of shared buffers;\n"
          "each line is one run on a private server with a cold cache\n", flush=True)
    return subprocess.run([sys.executable, "-m", "bench", "--version", str(installation.major), "--workloads", "brin", "--scale", str(_SCALE),
                           "--shared-buffers", "80MiB", "--streams", "16", "--seeds", "1", "--bandwidth", "100MiB", "--variants", ",".join(modes(installation)),
                           "--json", f"{_REPORT}.json", "--html", f"{_REPORT}.html"]).returncode


@contextlib.contextmanager
def nothing_left(installation: Installation, scale: float, keep: bool) -> Iterator[None]:
    """Removes what was not there before: the benchmark's data, and the extension in the server's
    folders."""
    place = data.place_of(installation, scale)
    had_data, had_extension = place.exists(), installation.has_extension("pg_pagecast")
    if not had_data:
        print(f"the data takes 1.1 GB in {place}{'' if keep else ' and is removed at the end'}", flush=True)
    try:
        yield
    finally:
        if not keep and not had_data:
            shutil.rmtree(place, ignore_errors=True)
        if not keep and not had_extension and installation.has_extension("pg_pagecast"):
            uninstall_extension(installation)
        if not keep and not (had_data and had_extension):
            print("the data and the extension that were not there before are removed; `--keep` leaves them")
        else:
            print(f"left: the data in {place}, and pg_pagecast in {installation.ask('pkglibdir')} (`make -C hosts/postgres uninstall` removes it)")


if __name__ == "__main__":
    sys.exit(main())
