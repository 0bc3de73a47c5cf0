"""Doors other than files of a folder: pagecast's server, and an S3 server that has the same files.

Both are processes on loopback that end with the `with` block.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from cluster.limits import Limits
from peers import runs

MIB = 1 << 20
# What the S3 server asks for; engines take it from these variables.
_KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_REGION": "us-east-1"}


class Closed(Exception):
    """A server that does not serve, and why."""


@contextlib.contextmanager
def server(command: Path, data: Path, memory: int, beside: int, longest: float, wrong: TextIO) -> Iterator[tuple[subprocess.Popen, Limits, Callable]]:
    """`pagecast serve` in a control group of its own, and what connects to it. What it says of
    errors goes to `wrong`."""
    try:
        import psycopg
    except ImportError as problem:
        raise Closed(str(problem)) from problem
    with tempfile.TemporaryDirectory(dir=data.parent) as scratch:
        words = [command, "serve", "--data", data, "--memory", f"{memory // MIB}MiB", "--temp", scratch, "--listen", "127.0.0.1:0",
                 "--statement-timeout", f"{longest:g}s"]
        with runs.engine(words, data, memory + beside, stderr=wrong.fileno()) as (process, limits, _):
            at = next((found for line in process.stdout if (found := re.search(r"pagecast serves .* on .*:(\d+)$", line.strip()))), None)
            if at is None:
                raise Closed(failure(process, wrong))
            yield process, limits, lambda: psycopg.connect(host="127.0.0.1", port=int(at[1]), user="bench", dbname="bench", autocommit=True)


def failure(process: subprocess.Popen, wrong: TextIO) -> str:
    """Why a process has ended."""
    code = process.wait()
    wrong.seek(0)
    return "ended by the kernel" if code == -9 else wrong.read().strip()[-300:] or f"ended with {code}"


@contextlib.contextmanager
def store(folder: Path) -> Iterator[str]:
    """Where an S3 server is whose buckets are the folders in `folder`."""
    program = shutil.which(os.environ.get("VERSITYGW", "versitygw"))
    if program is None:
        raise Closed("versitygw is not there: `make test-objects` builds it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(_KEYS)
    access, secret, region = _KEYS.values()
    words = [program, "--access", access, "--secret", secret, "--region", region, "--port", f"127.0.0.1:{port}", "posix", folder]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _until_it_answers(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _until_it_answers(process: subprocess.Popen, port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise Closed("versitygw does not answer")
