"""Progress while it runs, and Ctrl-C that ends it."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pagecast
import pytest

IDS = (np.random.default_rng(3).zipf(1.2, 400_000) % 9_000).astype(np.uint64)


def test_progress_rises_to_all() -> None:
    told: list[tuple[int, int]] = []
    pagecast.simulate(IDS, "lru,arc", [100, 1000], progress=lambda done, all: told.append((done, all)))
    assert told[-1] == (4 * len(IDS), 4 * len(IDS))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_bar_by_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    pagecast.curve(IDS, "clock", 4, progress=True)
    assert "requests" in capsys.readouterr().err


def test_an_error_of_progress_ends_it() -> None:
    def fail(done: int, all: int) -> None:
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        pagecast.simulate(IDS, pagecast.policies(), [100], progress=fail)


def test_other_threads_of_python_run_meanwhile() -> None:
    steps = 0
    done = threading.Event()

    def count() -> None:
        nonlocal steps
        while not done.wait(0.001):
            steps += 1

    counter = threading.Thread(target=count)
    counter.start()
    began = time.monotonic()
    pagecast.simulate(IDS, "lru-k,lirs,hyperbolic,pbm", ["1%", "10%", "50%"])
    took = time.monotonic() - began
    done.set()
    counter.join()
    assert steps > 20 * took, f"{steps} steps in {took:.2f} s"


# Each would take minutes at least.
LONG = {
    "replay": "pagecast.simulate(IDS, 'lru-k,hyperbolic,lirs', ['20%'] * 1000)",
    "own policy": "pagecast.simulate(IDS, [Fifo] * 1000, 1000)",
    "array": "[pagecast.Trace(IDS) for _ in range(100_000)]",
    "generator": "[pagecast.generate('ycsb(operations=8000000,pages=1000000)') for _ in range(1000)]",
    "curve": "pagecast.curve(IDS, 'opt,lru,arc', 1000)",
}

PROGRAM = """
from collections import deque
import numpy as np, pagecast
IDS = np.arange(4_000_000, dtype=np.uint64) * 48_271 % 1_999_993
class Fifo:
    def __init__(self, frames):
        self.queue = deque()
        self.admit = self.queue.append
    def evict(self, incoming):
        return self.queue.popleft()
try:
    print("begins", flush=True)
    {call}
except KeyboardInterrupt:
    raise SystemExit(7)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize("what", LONG)
def test_ctrl_c_ends_it(what: str) -> None:
    """Within a second on a machine at rest, which `make bench-python` measures; the bound here is
    for any machine."""
    child = subprocess.Popen([sys.executable, "-c", PROGRAM.format(call=LONG[what])], stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "begins\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=30) == 7
