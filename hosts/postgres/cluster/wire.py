"""Portals by the extended protocol, which libpq sends in one piece: a statement that is bound, and
run later or for some rows at a time, as drivers with a fetch size do."""

import socket
import struct
from pathlib import Path


class Portals:
    """A session of its own, with named portals in one transaction. Rows are tuples of strings; an
    error ends the session."""

    def __init__(self, folder: Path, user: str = "postgres", database: str = "postgres"):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(f"{folder}/.s.PGSQL.5432")
        self._stream = self._socket.makefile("rb")
        body = struct.pack("!i", 196608) + f"user\0{user}\0database\0{database}\0\0".encode()
        self._socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self._until(b"Z")

    def __enter__(self) -> "Portals":
        return self

    def __exit__(self, *_) -> None:
        self._stream.close()
        self._socket.close()

    def execute(self, sql: str) -> list[tuple]:
        """Statements at once, as Connection.execute() runs them."""
        self._send(b"Q", sql.encode() + b"\0")
        return self._until(b"Z")

    def bind(self, portal: str, sql: str) -> None:
        """Plans a statement and starts it; inside of a transaction it lasts as long as that."""
        self._send(b"P", b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0))
        self._send(b"B", portal.encode() + b"\0\0" + struct.pack("!hhh", 0, 0, 0))
        self._send(b"S", b"")
        self._until(b"Z")

    def fetch(self, portal: str, most: int = 0) -> list[tuple]:
        """Runs a portal for at most so many rows, or to its end."""
        self._send(b"E", portal.encode() + b"\0" + struct.pack("!i", most))
        self._send(b"S", b"")
        return self._until(b"Z")

    def _send(self, kind: bytes, body: bytes) -> None:
        self._socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def _until(self, last: bytes) -> list[tuple]:
        """The rows that come before a message of a kind."""
        rows = []
        while True:
            kind, length = struct.unpack("!ci", self._stream.read(5))
            body = self._stream.read(length - 4)
            if kind == b"E":
                raise ConnectionError(body.replace(b"\0", b" ").decode(errors="replace"))
            if kind == b"D":
                rows.append(_row(body))
            if kind == last:
                return rows


def _row(body: bytes) -> tuple:
    at, values = 2, []
    for _ in range(struct.unpack_from("!h", body)[0]):
        length = struct.unpack_from("!i", body, at)[0]
        values.append(None if length < 0 else body[at + 4:at + 4 + length].decode())
        at += 4 + max(length, 0)
    return tuple(values)
