"""Asks the `pagecast sql` command, and compares its rows with those of other readers."""

import datetime
import os
import subprocess
import tempfile
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet

BINARY = os.environ.get("PAGECAST_BINARY", "pagecast")


def run(data: Path, sql: str, *flags: str) -> subprocess.CompletedProcess:
    words = [BINARY, "sql", "--data", str(data), *flags, "-q", "-c", sql]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def rows(data: Path, sql: str) -> list[dict]:
    """The rows of the last statement, of which all are read."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.parquet"
        done = run(data, sql, "--format", "parquet", "-o", str(output))
        assert done.returncode == 0, f"{sql}: {done.stderr}"
        return pyarrow.parquet.read_table(output).to_pylist()


def fault(data: Path, sql: str) -> str:
    done = run(data, sql)
    assert done.returncode != 0, f"{sql} went well: {done.stdout}"
    return done.stderr


def plain(value):
    """The value as every reader has it: no zones, no classes of one library."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            parts = [plain(part) for part in value]
            is_map = bool(parts) and all(isinstance(part, list) and len(part) == 2 for part in parts)
            return dict(parts) if is_map else parts
        case datetime.datetime() if value.tzinfo:
            return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        case uuid.UUID():
            return value.bytes
        case bytearray():
            return bytes(value)
        case float() if value != value:
            return "NaN"
        case Decimal():
            return value.normalize()
    return value


def texts(found: list[dict]) -> list[str]:
    return sorted(repr(list(plain(row).items())) for row in found)


def same(test, ours: list[dict], theirs: list[dict]) -> None:
    """The same rows, in any order, with the same columns in the same order; and there are some."""
    test.maxDiff = 4000
    test.assertGreater(len(theirs), 0)
    test.assertEqual(texts(ours), texts(theirs))
