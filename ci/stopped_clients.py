"""Those who ask for what ci/stops.py stops: a client of PostgreSQL, a program of Python."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

PATIENCE = 20.0
"""Seconds after which nobody waits any more."""


class Busy:
    """The processor time of a process and its threads."""

    def __init__(self, process: int):
        self.process = process

    def used(self) -> float:
        fields = Path(f"/proc/{self.process}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def until_idle(self, began: float) -> float:
        """Seconds since `began` after which it computes nothing any more, for 60 ms."""
        since, used = time.time(), self.used()
        while time.time() - since < 0.06:
            time.sleep(0.01)
            if (now := self.used()) > used + 0.011 or time.time() - began > PATIENCE:
                since, used = time.time(), now
                if since - began > PATIENCE:
                    break
        return since - began


class Client:
    """As little of PostgreSQL's protocol as stops a statement."""

    def __init__(self, port: int):
        self.port, self.key, self.closed = port, b"", False
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = self.socket.makefile("rb")
        body = struct.pack("!i", 196608) + b"user\0stops\0database\0pagecast\0\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.until_ready()

    def send(self, sql: str) -> None:
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)

    def until_ready(self) -> tuple[list[list[bytes]], str]:
        """Rows and the error."""
        rows, error = [], ""
        while header := self.rest.read(5):
            kind, length = header[:1], struct.unpack("!i", header[1:])[0]
            body = self.rest.read(length - 4)
            if kind == b"K":
                self.key = body
            elif kind == b"E":
                error = " ".join(field[1:].decode() for field in body.split(b"\0") if field[:1] in (b"C", b"M"))
            elif kind == b"D" and len(rows) < 100:
                rows.append([body[6:]])
            elif kind == b"Z":
                break
        return rows, error

    def ask(self, sql: str) -> tuple[list[list[bytes]], str]:
        self.send(sql)
        return self.until_ready()

    def cancel(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as other:
            other.sendall(struct.pack("!ii", 16, 80877102) + self.key)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.socket.shutdown(socket.SHUT_RDWR)
            self.rest.close()
            self.socket.close()


PROGRAM = """
import json, signal, sys, pagecast
signal.signal(signal.SIGINT, signal.default_int_handler)
connection = pagecast.connect(**json.loads(sys.argv[1]))
for line in sys.stdin:
    try:
        before, sql = json.loads(line)
        for each in before:
            connection.sql(each)
        print("begins", flush=True)
        connection.sql(sql).to_arrow()
        print("done", flush=True)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    except Exception as error:
        print("failed " + " ".join(str(error).split())[:200], flush=True)
"""


class Python:
    """A program that runs what it is given through the wheel."""

    def __init__(self, options: dict):
        self.child = subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(options)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.lines: list[tuple[float, str]] = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.child.stdout:
            self.lines.append((time.time(), line.strip()))

    def line(self, patience: float) -> tuple[float, str] | None:
        end = time.time() + patience
        while not self.lines and time.time() < end:
            time.sleep(0.002)
        return self.lines.pop(0) if self.lines else None

    def stop(self, before: list[str], sql: str, runs: float) -> dict:
        self.child.stdin.write(json.dumps([before, sql]) + "\n")
        self.child.stdin.flush()
        first = self.line(PATIENCE)
        if first is None or first[1] != "begins":
            return {"short": first and first[1]}
        if ended := self.line(runs):
            return {"short": ended[1]}
        now = time.time()
        self.child.send_signal(signal.SIGINT)
        ended = self.line(PATIENCE)
        if ended is None:
            self.child.kill()
            return {"seconds": PATIENCE}
        told, idle = ended[0] - now, Busy(self.child.pid).until_idle(now)
        return {"seconds": max(told, idle), "told_s": told, "idle_s": idle, "said": ended[1]}
