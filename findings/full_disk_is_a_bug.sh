#!/usr/bin/env bash
# A COPY of DataFusion to CSV or JSON for which the disk has no room says that DataFusion has a bug.
#
# A nightly export meets a limit of the file system; here it is the largest size that the process
# may give a file, which is refused as a full disk is.
#
# Expected: the error of the system, with the file, in every format: somebody makes room and runs
# it again.
# Seen: Parquet and Arrow say it. CSV and JSON end in an internal error that names neither the file
# nor what failed, and asks for a report of a bug, where the file is written when its rows have
# ended, as one of two megabytes is. In a large one the error can come earlier, and is named then.
#
# It hurts whoever looks for the cause of a failed job in its log.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datafusion==55.0.0

cat >look.py <<'PYTHON'
import resource
import signal
from importlib.metadata import version

from datafusion import SessionContext

print(f"datafusion {version('datafusion')}")
changed = []


def see(what, seen, before):
    """Prints what is seen; notes where it is another than when this was written."""
    print(f"{what}: {seen}")
    if seen != before:
        changed.append(f"{what}: was {before}")


MOST = 100_000
context = SessionContext()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))
for kind, cause in {"csv": False, "json": False, "parquet": True, "arrow": True}.items():
    try:
        context.sql(f"COPY (SELECT value, 'row ' || value AS t FROM range(100000)) TO 'out.{kind}'").collect()
        error = "none"
    except Exception as raised:
        error = str(raised)
    see(f"{kind}: names what failed", "File too large" in error, cause)
    see(f"{kind}: asks for a report of a bug", "filing a bug report" in error, not cause)

if changed:
    raise SystemExit("\nNo longer as it was:\n" + "\n".join(changed))
PYTHON
venv/bin/python look.py
