"""PostgreSQL's source packages: for its regression suites, and to build a server that this system
has no package of.

They come from where the system's own packages come from (`mirrors.py`). apt is used with sources,
lists and a cache of our own, so the system's stay as they are. A suite that does not match the
installed server to the minor version is used all the same when there is no other: the runs are
compared with a stock server's.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from cluster import mirrors
from cluster.installation import BUILT, Installation
from cluster.server import ServerFailed

# Debian's releases by the server that they carry.
_RELEASES = {15: "bookworm", 17: "trixie", 18: "forky"}
# What regression runs and fault tests need besides the server itself.
_CONTRIB = ("amcheck", "spi", "pageinspect", "pg_buffercache", "auto_explain")


class NoSource(ServerFailed):
    """The system's mirror could not be reached or has no such source."""


def source(major: int, wanted: str | None = None) -> Path:
    """The unpacked source tree of a server, fetched now if it is not there; of version `wanted` if
    Debian still has it."""
    if major not in _RELEASES:
        raise NoSource(f"no Debian release with PostgreSQL {major} is known; known: {', '.join(map(str, _RELEASES))}")
    place = BUILT / "source"
    kept = sorted(place.glob(f"postgresql-{major}.*/configure"), key=lambda path: (f"-{wanted}/" in str(path), str(path)))
    if kept:
        return kept[-1].parent
    place.mkdir(parents=True, exist_ok=True)
    for version in _versions(place, major, wanted):
        done = _apt(place, "apt-get", "source", "--download-only", f"postgresql-{major}={version}")
        archives = list(place.glob(f"postgresql-{major}_{version.split('-')[0]}.orig.tar.*"))
        if done.returncode == 0 and archives:
            with tarfile.open(archives[0]) as archive:
                archive.extractall(place, filter="data")
            return place / f"postgresql-{version.split('-')[0]}"
    raise NoSource(f"the system's mirror gave no source of postgresql-{major}: {done.stderr.strip()}")


def build(major: int) -> Installation:
    """The server of a major version built from source without options that need further libraries,
    into a folder of our own."""
    prefix = BUILT / str(major)
    if not (prefix / "complete").is_file():
        tree = source(major)
        _install_packages("bison", "flex")
        log = BUILT / f"build-{major}.log"
        print(f"building PostgreSQL {major} from {tree} into {prefix}; log in {log}", file=sys.stderr)
        jobs = f"-j{os.cpu_count()}"
        contrib = [["make", "-s", "-C", f"contrib/{name}", "install"] for name in _CONTRIB]
        steps = [["./configure", f"--prefix={prefix}", "--without-icu", "--without-readline", "--without-zlib"],
                 ["make", "-s", jobs], ["make", "-s", "install"], *contrib, ["make", "-s", "-C", "src/test/isolation", "install"]]
        with open(log, "w") as output:
            for step in steps:
                if subprocess.run(step, cwd=tree, stdout=output, stderr=output).returncode != 0:
                    raise ServerFailed(f"`{' '.join(step)}` failed in {tree}; see {log}")
        (prefix / "complete").touch()
    return Installation(prefix / "bin/pg_config")


def _versions(place: Path, major: int, wanted: str | None) -> list[str]:
    """The mirror's versions of the source, the wanted one first."""
    apt = place / "apt"
    (apt / "lists/partial").mkdir(parents=True, exist_ok=True)
    (apt / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    if not shutil.which("apt-get"):
        raise NoSource("no apt-get, which fetches the server's source package")
    entries = mirrors.source_entries(_RELEASES[major])
    if not entries:
        raise NoSource("the system's apt configuration names no mirror of its own release (see `apt-get indextargets` and VERSION_CODENAME in /etc/os-release)")
    (apt / "parts").mkdir(exist_ok=True)
    (apt / "parts/pagecast.sources").write_text("\n".join(entries))
    updated = _apt(place, "apt-get", "update")
    listing = _apt(place, "apt-cache", "showsrc", f"postgresql-{major}").stdout
    found = dict.fromkeys(re.findall(r"^Version: (\S+)", listing, re.MULTILINE))
    # One of several mirrors may have no sources; that is no matter where another has.
    if not found:
        raise NoSource(f"apt-get update found no source of postgresql-{major}: {updated.stderr.strip()}")
    return sorted(found, key=lambda version: (version.split("-")[0] == wanted, version), reverse=True)


def _apt(place: Path, program: str, *arguments: str) -> subprocess.CompletedProcess:
    apt = place / "apt"
    options = ["-oDir::Etc::sourcelist=/dev/null", f"-oDir::Etc::sourceparts={apt}/parts", f"-oDir::State::lists={apt}/lists",
               f"-oDir::Cache={apt}/cache"]
    return subprocess.run([program, *options, *arguments], cwd=place, capture_output=True, text=True)


def _install_packages(*names: str) -> None:
    missing = [name for name in names if not shutil.which(name)]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *missing], stdout=subprocess.DEVNULL, check=True)
    elif missing:
        raise ServerFailed(f"{', '.join(missing)} must be installed first")
