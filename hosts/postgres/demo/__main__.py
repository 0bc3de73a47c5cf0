"""Installs a server and the extension where they are missing, and measures a minute's worth of reporting queries with and without it."""

import subprocess
import sys
from pathlib import Path

from cluster import ServerFailed
from cluster.extension import install_extension, install_server, modes, require_rust

_REPORT = Path("target/demo-postgres")


def main() -> int:
    try:
        require_rust()
        installation = install_server()
        print(f"PostgreSQL {installation.version}: building pg_pagecast", flush=True)
        install_extension(installation)
        variants = ",".join(modes(installation))
    except ServerFailed as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    print("16 sessions report over random 30 % of the dates of lineitem (270 MB) with 80 MB of shared buffers;\n"
          "each line is one run on a private server with a cold cache\n", flush=True)
    return subprocess.run([sys.executable, "-m", "bench", "--version", str(installation.major), "--workloads", "brin", "--scale", "0.3",
                           "--shared-buffers", "80MiB", "--streams", "16", "--seeds", "1", "--bandwidth", "100MiB", "--variants", variants,
                           "--json", f"{_REPORT}.json", "--html", f"{_REPORT}.html"]).returncode


if __name__ == "__main__":
    sys.exit(main())
