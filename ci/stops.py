#!/usr/bin/env python3
"""How long statements take to end that are stopped: `make bench-stops`.

Each of crates/pagecast-cli/tests/serve/stops.sql runs for a second and is then stopped: by Ctrl-C
in the shell and in Python, by a cancel, a timeout and the client's end in the server, and by Flight
SQL's cancel. Meanwhile another client of the server asks over its open connection, and over new
ones. SIGTERM, a second Ctrl-C and a store that never answers come after them.

A statement has ended when whoever waits has been told so and the process computes nothing any more.
Rows go to target/bench/stops.json; where a goal is missed it says so. Doors whose packages of
Python are missing are `skipped`.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stopped_clients import PATIENCE, PROGRAM, Busy, Client, Python
from stopped_data import Hanging, made

LIST = Path("crates/pagecast-cli/tests/serve/stops.sql")
GOALS = {"seconds": 0.2, "others_open_s": 0.1, "others_new_s": 0.5}
SHOWN = ("others_open_s", "others_new_s", "told_s", "short", "left", "second_press_s")
RUNS = 1.0
"""Seconds for which a statement runs before it is stopped."""
MEMORY = "2GiB"


@dataclass
class Shape:
    name: str
    words: set[str]
    before: list[str]
    sql: str

    def all(self) -> str:
        return "".join(f"{sql};\n" for sql in (*self.before, self.sql))


def repeated(text: str) -> str:
    """The text with each `<<3|, |x#>>` written out, inner ones first."""
    def written(found: re.Match) -> str:
        count, between, what = found.groups()
        return between.join(what.replace("#", str(at)) for at in range(int(count)))

    while (after := re.sub(r"<<(\d+)\|([^|<>]*)\|((?:(?!<<|>>).)*)>>", written, text, flags=re.S)) != text:
        text = after
    return text


def shapes(out: Path) -> list[Shape]:
    found = []
    for part in LIST.read_text().split("\n--- ")[1:]:
        head, text = part.split("\n", 1)
        name, *words = re.split(r" \[", head)
        text = repeated(text).replace("{out}", str(out))
        *before, last = [sql.strip() for sql in text.split(";\n") if sql.strip()]
        found.append(Shape(name, {word.rstrip("]") for word in words}, before, last))
    return found


def shell(command: Path, data: list[str], shape: Shape, press: signal.Signals, out: Path) -> dict:
    for left in out.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    script = out.parent / "script.sql"
    script.write_text("SELECT 1 AS begins;\n" + shape.all())
    child = subprocess.Popen([command, "sql", *data, "--memory", MEMORY, "-q", "--format", "csv", "-f", script],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # It opens its tables before, unless that is what hangs.
        if "opens" not in shape.words:
            child.stdout.readline()
        threading.Thread(target=lambda: shutil.copyfileobj(child.stdout, open(os.devnull, "wb")), daemon=True).start()
        return pressed(child, press)
    finally:
        child.kill()
        child.wait()


def pressed(child: subprocess.Popen, press: signal.Signals) -> dict:
    time.sleep(RUNS)
    if child.poll() is not None:
        return {"short": child.stderr.read().decode()[:200]}
    began, row = time.time(), {}
    child.send_signal(press)
    try:
        child.wait(2)
        row["seconds"] = time.time() - began
        row["left"] = ""
    except subprocess.TimeoutExpired:
        again = time.time()
        child.send_signal(press)
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
        row |= {"seconds": time.time() - began, "second_press_s": time.time() - again}
    return row


class Server:
    def __init__(self, command: Path, data: list[str], *more: str):
        self.child = subprocess.Popen(
            [command, "serve", *data, "--memory", MEMORY, "--listen", "127.0.0.1:0", "--flight", "127.0.0.1:0",
             "--max-message", "64MiB", *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.flight = ""
        for line in self.child.stdout:
            if " speaks Flight SQL on " in line:
                self.flight = line.split(" on ")[1].strip()
            if line.startswith("pagecast serves "):
                self.port = int(line.rsplit(":", 1)[1])
                break
        self.busy = Busy(self.child.pid)

    def running(self) -> int:
        client = Client(self.port)
        rows, _ = client.ask("SELECT value FROM pagecast.status WHERE name = 'queries_running'")
        client.close()
        return int(rows[0][0]) - 1

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()


class Others:
    """Another client, who asks while a statement runs."""

    def __init__(self, server: Server):
        self.port, self.ends = server.port, threading.Event()
        self.open: list[float] = []
        self.new: list[float] = []
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.ask, self.come)]

    def ask(self) -> None:
        client = Client(self.port)
        while not self.ends.wait(0.05):
            began = time.time()
            client.ask("SELECT 1")
            self.open.append(time.time() - began)
        client.close()

    def come(self) -> None:
        while not self.ends.wait(0.1):
            began = time.time()
            client = Client(self.port)
            client.ask("SELECT 1")
            self.new.append(time.time() - began)
            client.close()

    def __enter__(self) -> "Others":
        [thread.start() for thread in self.threads]
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        [thread.join(PATIENCE) for thread in self.threads]

    def waited(self) -> dict:
        """The longest waits; one that has not been answered is as long as it is."""
        stuck = PATIENCE if any(thread.is_alive() for thread in self.threads) else 0
        return {"others_open_s": max([*self.open, stuck]), "others_new_s": max([*self.new, stuck])}


def stopped(server: Server, run: Callable[[], str], stop: Callable[[], None], runs: float = RUNS) -> dict:
    """Runs a statement in a thread, stops it, and waits until nothing of it is left."""
    said: list[tuple[float, str]] = []
    thread = threading.Thread(target=lambda: said.append((run(), time.time())[::-1]), daemon=True)
    with Others(server) as others:
        thread.start()
        began = time.time()
        thread.join(runs - 0.1)
    time.sleep(max(0.0, began + runs - time.time()))
    if said and not said[0][1].startswith("57014"):
        return {"short": said[0][1][:200], **others.waited()}
    now = time.time()
    stop()
    idle = server.busy.until_idle(now)
    thread.join(PATIENCE)
    told = said[0][0] - now if said else PATIENCE
    row = {"seconds": max(told, idle), "told_s": told, "idle_s": idle, **others.waited()}
    if left := server.running():
        row |= {"left": f"{left} statements run", "seconds": PATIENCE}
    return row


def by_postgresql(server: Server, shape: Shape, how: str) -> dict:
    client = Client(server.port)
    for sql in shape.before:
        if error := client.ask(sql)[1]:
            return {"short": error[:200]}

    def run() -> str:
        try:
            return client.ask(shape.sql)[1]
        except (OSError, ValueError):
            return "57014 closed"

    try:
        if how == "timeout":
            client.ask(f"SET statement_timeout = {int(RUNS * 1000)}")
            return stopped(server, run, lambda: None)
        return stopped(server, run, client.cancel if how == "cancel" else client.close)
    finally:
        client.close()


def by_flight(server: Server, shape: Shape, how: str) -> dict:
    from adbc_driver_flightsql import dbapi

    with dbapi.connect(server.flight if "://" in server.flight else f"grpc://{server.flight}") as connection:
        cursor = connection.cursor()
        for sql in shape.before:
            cursor.execute(sql)

        def run() -> str:
            try:
                cursor.execute(shape.sql)
                for _ in cursor.fetch_record_batch():
                    pass
                return "done"
            except Exception as error:  # whatever the driver makes of it
                return ("57014 " if "ancel" in str(error) else "") + str(error)

        try:
            return stopped(server, run, cursor.adbc_cancel)
        finally:
            cursor.close()


def terminated(command: Path, data: list[str], shape: Shape, grace: str, presses: int) -> dict:
    """SIGTERM to a server whose client waits."""
    server = Server(command, data, "--grace", grace)
    try:
        client = Client(server.port)
        for sql in shape.before:
            client.ask(sql)
        client.send(shape.sql)
        time.sleep(RUNS)
        for _ in range(presses):
            time.sleep(0.1)
            began = time.time()
            server.child.send_signal(signal.SIGTERM)
        server.child.wait(PATIENCE)
        return {"seconds": time.time() - began}
    except subprocess.TimeoutExpired:
        return {"seconds": PATIENCE}
    finally:
        server.kill()


def hung(command: Path, out: Path) -> Iterator[tuple[str, str, dict]]:
    """Stores that take a request and never answer: at the first, or at a file's bytes."""
    for name, answers in (("S3 that never answers", False), ("S3 that lists and gives no bytes", True)):
        with Hanging(answers) as store:
            os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
            where = ["--data", "s3://bucket/folder", "--endpoint", store.url]
            shape = Shape(name, {"opens"}, [], "SELECT * FROM x")
            yield name, "Ctrl-C", shell(command, where, shape, signal.SIGINT, out)
            options = {"data": "s3://bucket/folder", "endpoint": store.url}
            try:
                import pagecast  # noqa: F401

                child = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM + "\nraise SystemExit(7)", json.dumps(options)],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                child.stdin.write(b'[[], "SELECT * FROM x"]\n')
                child.stdin.close()
                yield name, "Ctrl-C in Python", pressed(child, signal.SIGINT)
                child.kill()
            except ImportError:
                pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=Path, help="the pagecast command, with Flight SQL")
    parser.add_argument("--doors", nargs="+", default=["shell", "postgresql", "flight", "python", "signals"])
    parser.add_argument("--how", nargs="+", default=["cancel", "timeout", "close"], help="of PostgreSQL's door")
    parser.add_argument("--only", default="", help="shapes whose names have this regular expression")
    parser.add_argument("--json", type=Path, default=Path("target/bench/stops.json"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pagecast-stops-"))
    rows: list[dict] = []
    try:
        run(options, folder, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"schema": 1, "goals": GOALS, "rows": rows}, indent=1) + "\n")
        shown(rows)


def run(options: argparse.Namespace, folder: Path, rows: list[dict]) -> None:
    out = folder / "out"
    out.mkdir()
    data, missing = made(options.command, folder)

    def add(shape: str, door: str, how: str, row: dict) -> None:
        row = {"shape": shape, "door": door, "how": how, **row}
        # A process has more to end than its statement.
        goals = GOALS | ({"seconds": 1.0} if "SIGTERM" in how else {})
        row["ok"] = "seconds" in row and all(row.get(name, 0) <= goal for name, goal in goals.items())
        rows.append(row)
        took = f"{row['seconds']:6.2f} s" if "seconds" in row else "  short "
        more = " ".join(f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}"
                        for name, value in row.items()
                        if name in SHOWN and value)
        print(f"{'ok   ' if row['ok'] else 'fault'} {took} {door:10} {how:8} {shape}: {more}", flush=True)

    wanted = [shape for shape in shapes(out) if re.search(options.only, shape.name) and not missing & {shape.name}]
    of = {door: [shape for shape in wanted if door in shape.words or not shape.words - {"python", "long"}]
          for door in ("shell", "server", "python")}
    if "shell" in options.doors:
        for shape in of["shell"]:
            add(shape.name, "shell", "Ctrl-C", shell(options.command, data, shape, signal.SIGINT, out))
    for door, ways, stop in (("postgresql", options.how, by_postgresql), ("flight", ["cancel"], by_flight)):
        if door not in options.doors:
            continue
        if door == "flight" and not importlib.util.find_spec("adbc_driver_flightsql"):
            print("skipped: no driver of Flight SQL is installed here")
            continue
        server = Server(options.command, data)
        for shape in of["server"]:
            if door == "flight" and "server" in shape.words:
                continue
            for how in ways:
                try:
                    row = stop(server, shape, how)
                except (OSError, ConnectionError, RuntimeError, IndexError) as error:
                    row = {"seconds": PATIENCE, "left": f"no answer: {error}"}
                add(shape.name, door, how, row)
                if row.get("seconds", 0) >= PATIENCE or server.child.poll() is not None:
                    server.kill()
                    server = Server(options.command, data)
        server.kill()
    if "python" in options.doors:
        by_python(data, of["shell"], add)
    if "signals" in options.doors:
        for shape in of["server"][::12]:
            add(shape.name, "shell", "SIGTERM", shell(options.command, data, shape, signal.SIGTERM, out))
            add(shape.name, "postgresql", "SIGTERM, no grace", terminated(options.command, data, shape, "0s", 1))
            add(shape.name, "postgresql", "two SIGTERM", terminated(options.command, data, shape, "1min", 2))
        for name, how, row in hung(options.command, out):
            add(name, "store", how, row)


def by_python(data: list[str], wanted: list[Shape], add: Callable[[str, str, str, dict], None]) -> None:
    try:
        import pagecast  # noqa: F401
    except ImportError:
        print("skipped: no wheel of pagecast is installed here")
        return
    options = {"data": data[1], "allow": data[3::2], "memory": MEMORY}
    program = Python(options)
    for shape in wanted:
        add(shape.name, "python", "Ctrl-C", program.stop(shape.before, shape.sql, RUNS))
        if program.child.poll() is not None:
            program = Python(options)
    program.child.kill()


def shown(rows: list[dict]) -> None:
    """Prints the median and the worst of each door."""
    for door, how in dict.fromkeys((row["door"], row["how"]) for row in rows):
        of = [row for row in rows if (row["door"], row["how"]) == (door, how)]
        seconds = [row["seconds"] for row in of if "seconds" in row]
        faults, short = sum(not row["ok"] for row in of if "seconds" in row), len(of) - len(seconds)
        if seconds:
            print(f"{door:10} {how:18} {len(seconds):4} shapes: median {statistics.median(seconds):.3f} s, "
                  f"worst {max(seconds):.2f} s; {faults} over a goal, {short} too short")


if __name__ == "__main__":
    main()
