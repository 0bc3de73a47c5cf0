"""`python3 -m cluster shell|server|install|build`: a private cluster to look around in, and servers
with the extension."""

import argparse
import subprocess
import sys

from cluster import Cluster, ServerFailed, find
from cluster.extension import install_extension, install_server
from cluster.sources import build


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster", description="Private PostgreSQL clusters, removed at the end.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    shell = verbs.add_parser("shell", help="psql in a new cluster with pg_pagecast loaded; the cluster is removed when psql ends")
    shell.add_argument("--version", type=int, help="major version (default: the newest of the system)")
    shell.add_argument("--stock", action="store_true", help="without pg_pagecast")
    shell.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    builder = verbs.add_parser("build", help="build a server from Debian's source")
    builder.add_argument("version", type=int)
    installer = verbs.add_parser("install", help="install the system's server by apt where it is missing, and build and install pg_pagecast for it")
    installer.add_argument("--version", type=int, help="only build and install, for this major version")
    verbs.add_parser("server", help="install the system's server and its headers by apt where they are missing")
    given = parser.parse_args()
    try:
        if given.verb == "server":
            print(f"PostgreSQL {install_server().version}")
            return 0
        if given.verb == "install":
            return install(given.version)
        if given.verb == "build":
            print(build(given.version).pg_config)
            return 0
        return open_shell(given)
    except ServerFailed as problem:
        print(f"cluster: {problem}", file=sys.stderr)
        return 1


def install(major: int | None) -> int:
    """Brings the server and the extension."""
    installation = install_server() if major is None else find(major)
    if installation is None:
        raise ServerFailed(f"PostgreSQL {major} is not installed; `python3 -m cluster build {major}` makes it from source")
    install_extension(installation)
    print(f"pg_pagecast is installed for PostgreSQL {installation.version}")
    return 0


def open_shell(given: argparse.Namespace) -> int:
    """Runs psql in a cluster that lives as long as it."""
    installation = find(given.version)
    if installation is None:
        print("skipped: no PostgreSQL server is installed")
        return 0
    settings = {} if given.stock else {"shared_preload_libraries": "pg_pagecast"}
    with Cluster(installation, {**settings, **dict(setting.split("=", 1) for setting in given.set)}) as cluster:
        cluster.create().start()
        return subprocess.run([installation.program("psql")], env=cluster.environment()).returncode


if __name__ == "__main__":
    sys.exit(main())
