"""An engine in a process and a control group of its own, and the file that tells of its runs."""

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cluster.limits import Limits, forget_cached

# Bytes a second that limit nothing: the kernel counts for a device that is limited.
NO_LIMIT = 1 << 40


@contextlib.contextmanager
def engine(command: list, data: Path, memory: int, rate: int = NO_LIMIT, stderr: int | None = None) -> Iterator[tuple[subprocess.Popen, Limits, str]]:
    """The process, its group, and a folder that goes with it. Nothing of `data` is in the cache."""
    scratch = tempfile.mkdtemp(dir=data.parent)
    try:
        with Limits(data, memory, rate) as limits:
            forget_cached(data)
            with subprocess.Popen(limits.entering(command), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as process:
                try:
                    yield process, limits, scratch
                finally:
                    process.kill()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def peak(process: int | str = "self") -> int:
    """Bytes that a process had resident at most, since it became this program: what the system
    counts of its usage begins with those of whoever started it."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) << 10


def write(report: dict, path: Path) -> None:
    """Writes the report, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(report))
    unfinished.replace(path)
