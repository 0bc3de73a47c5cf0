"""Where a PostgreSQL server is installed, and what it was built as."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Servers that `python3 -m cluster build` makes from source lie here, one folder for each major
# version.
BUILT = Path(os.environ.get("PAGECAST_POSTGRES", "/var/tmp/pagecast-postgres"))


@dataclass(frozen=True)
class Installation:
    """One installed server."""

    pg_config: Path

    def ask(self, what: str) -> str:
        """What `pg_config --WHAT` says."""
        return subprocess.run([self.pg_config, f"--{what}"], check=True, capture_output=True, text=True).stdout.strip()

    @property
    def version(self) -> str:
        """The full version, as `15.18`."""
        return re.search(r"PostgreSQL (\d+(?:\.\d+)?\w*)", self.ask("version")).group(1)

    @property
    def major(self) -> int:
        """The major version."""
        return int(re.match(r"\d+", self.version).group())

    def program(self, name: str) -> Path:
        """The path of one of the server's programs."""
        return Path(self.ask("bindir")) / name

    def has_headers(self) -> bool:
        """Whether extensions can be built against this server."""
        return (Path(self.ask("includedir-server")) / "postgres.h").is_file()

    def has_extension(self, name: str) -> bool:
        """Whether an extension's control file is installed."""
        return (Path(self.ask("sharedir")) / "extension" / f"{name}.control").is_file()

    def libpq(self) -> str:
        """The client library to load: the server's own if it has one, else the system's."""
        own = Path(self.ask("libdir")) / "libpq.so.5"
        return str(own) if own.is_file() else "libpq.so.5"


def find(major: int | None = None) -> Installation | None:
    """The server of a major version, or with None the one of `PG_CONFIG`, of the system or of
    `PATH`, in this order."""
    if major is not None:
        candidates = [f"/usr/lib/postgresql/{major}/bin/pg_config", str(BUILT / str(major) / "bin/pg_config")]
    else:
        system = Path("/usr/lib/postgresql").glob("*/bin/pg_config")
        newest_first = sorted(system, key=lambda path: int(path.parts[-3]), reverse=True)
        candidates = [os.environ.get("PG_CONFIG"), *map(str, newest_first), shutil.which("pg_config")]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            installation = Installation(Path(candidate))
            # A client's pg_config may be there without any server.
            if os.access(installation.program("postgres"), os.X_OK):
                return installation
    return None


def find_with_pagecast(major: int | None = None) -> Installation | None:
    """As `find`, where pg_pagecast is installed; otherwise says that this is skipped."""
    installation = find(major)
    if installation is None or not installation.has_extension("pg_pagecast"):
        print("skipped: no PostgreSQL server with pg_pagecast is installed")
        return None
    return installation
