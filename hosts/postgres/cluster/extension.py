"""Bringing a server and the extension onto this machine, where that is possible."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cluster.installation import Installation, find
from cluster.server import Cluster, ServerFailed

_HERE = Path(__file__).resolve().parents[1]
# The versions that the extension was built for and run on, and that Debian has packages of, the
# preferred one first.
_PACKAGED = (18, 17, 15)


def install_server() -> Installation:
    """The system's server, installed by apt where there is none or its headers are missing."""
    installation = find()
    if installation and installation.has_headers():
        return installation
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        what = f"the headers of PostgreSQL {installation.version}" if installation else "a PostgreSQL server with its headers"
        raise ServerFailed(f"{what} must be installed first (Debian: postgresql-N and postgresql-server-dev-N); being root with apt-get, this command does it")
    # Debian would create and start a cluster of its own for a new server; only private ones are
    # wanted.
    wishes = Path("/etc/postgresql-common/createcluster.d")
    if installation is None:
        wishes.mkdir(parents=True, exist_ok=True)
        (wishes / "pagecast.conf").write_text("create_main_cluster = false\n")
    _apt("update")
    majors = [installation.major] if installation else [major for major in _PACKAGED if _has_package(f"postgresql-{major}")]
    if not majors:
        raise ServerFailed(f"apt knows none of {', '.join(f'postgresql-{major}' for major in _PACKAGED)}")
    print(f"installing PostgreSQL {majors[0]} by apt", file=sys.stderr)
    # Named together, both come in the same minor version. The headers' package brings no compiler.
    _apt("install", "-y", "--no-install-recommends", f"postgresql-{majors[0]}", f"postgresql-server-dev-{majors[0]}", "gcc", "libc6-dev")
    return find(majors[0])


def require_rust() -> None:
    """Says what is missing before anything is fetched: Debian's own Rust may be too old, so it is
    not installed by apt."""
    if not shutil.which("cargo"):
        needed = re.search(r'^rust-version = "(.*)"', (_HERE / "predictor/Cargo.toml").read_text(), re.MULTILINE).group(1)
        raise ServerFailed(f"cargo is not in PATH, and pg_pagecast's predictor is built by it; install Rust {needed} or newer first (https://rustup.rs)")


def install_extension(installation: Installation) -> None:
    """Builds pg_pagecast for this server and installs it."""
    require_rust()
    # Objects of another version's headers may lie there.
    for target in ("clean", "all", "install"):
        _make(installation, target)


def uninstall_extension(installation: Installation) -> None:
    """Removes pg_pagecast from this server's folders."""
    _make(installation, "uninstall")


def modes(installation: Installation) -> list[str]:
    """The modes that the installed extension knows."""
    with Cluster(installation, {"shared_preload_libraries": "pg_pagecast"}) as probe:
        probe.create().start()
        with probe.connect() as session:
            names = session.value("select enumvals from pg_settings where name = 'pg_pagecast.mode'")
            return names.strip("{}").split(",")


def _make(installation: Installation, target: str) -> None:
    command = ["make", "-s", "-C", str(_HERE), f"PG_CONFIG={installation.pg_config}", target]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise ServerFailed(f"`{' '.join(command)}` failed:\n{done.stdout.strip()}")


def _apt(*arguments: str) -> None:
    done = subprocess.run(["apt-get", "-q", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode != 0:
        raise ServerFailed(f"apt-get {' '.join(arguments)} failed:\n{done.stdout[-2000:]}")


def _has_package(name: str) -> bool:
    return "Candidate: (none)" not in (policy := subprocess.run(["apt-cache", "policy", name], capture_output=True, text=True).stdout) and bool(policy)
