"""Ctrl-C that ends a query, and other threads that run meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time

import pagecast
import pytest

# Each would take hours.
ENDLESS = "SELECT sum(a.id * b.id) FROM orders a, orders b, orders c"
LONG = {
    "to_arrow": f"connection.sql('{ENDLESS}').to_arrow()",
    "to_polars": f"connection.sql('{ENDLESS}').to_polars()",
    "to_pandas": f"connection.sql('{ENDLESS}').to_pandas()",
    "show": f"connection.sql('{ENDLESS}').show()",
    "insert": f"connection.sql('CREATE TABLE t AS {ENDLESS}')",
    # Nobody waits for the next ones.
    "rows at once": "connection.sql('SELECT true AS x FROM orders a, orders b').to_arrow()",
    "many rows": "read_all(connection.sql('SELECT a.id FROM orders a, orders b'))",
}
PROGRAM = """
import sys, pagecast, pandas, polars, pyarrow
def read_all(result):
    try:
        for _ in pyarrow.RecordBatchReader.from_stream(result):
            pass
    except pyarrow.ArrowException as error:
        # pyarrow has an error of its own. Ctrl-C follows it.
        assert "Ctrl-C" in str(error)
connection = pagecast.connect(sys.argv[1], memory="16MiB")
connection.sql("SELECT 1").to_pandas()
try:
    print("begins", flush=True)
    {call}
except KeyboardInterrupt:
    # The connection goes on.
    assert connection.sql("SELECT count(*) FROM orders").to_polars().item() == 100_000
    raise SystemExit(7)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize("what", LONG)
def test_ctrl_c_ends_it(data, what: str) -> None:
    arguments = [sys.executable, "-c", PROGRAM.format(call=LONG[what]), str(data)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and child.stdout.readline() == "begins\n"
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=120) == 7
    finally:
        child.kill()


def test_other_threads_of_python_run_meanwhile(connection: pagecast.Connection) -> None:
    counts: list[int] = []
    turn = threading.Event()

    def ask() -> None:
        counts.append(connection.sql("SELECT count(*) FROM orders a, days b, days c").to_polars().item())
        turn.set()

    asking = threading.Thread(target=ask)
    asking.start()
    steps = 0
    while not turn.wait(0.001):
        steps += 1
    asking.join()
    assert counts == [400_000] and steps > 0
