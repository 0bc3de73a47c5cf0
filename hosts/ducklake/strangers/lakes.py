"""A lake that DuckDB writes and both read. Results of ours are Parquet files, which DuckDB compares
with its own rows."""

import glob
import os
import subprocess
import sysconfig
from pathlib import Path

import duckdb

PACKAGES = Path(sysconfig.get_paths()["purelib"])


class Refused(Exception):
    """What pagecast has said instead of a result."""


class Lake:
    def __init__(self, folder: Path, data: Path | None = None):
        self.folder, self.catalog = folder, folder / "lake.sqlite"
        self.db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self.db.execute("SET TimeZone = 'UTC'")
        for extension in ("sqlite_scanner", "ducklake"):
            [file] = glob.glob(str(PACKAGES / f"duckdb_extension_{extension}/extensions/*/*.duckdb_extension"))
            self.db.execute(f"LOAD '{file}'")
        # A relative path of the lake would be one of the process.
        self.db.execute(f"ATTACH 'ducklake:sqlite:{self.catalog}' AS l (DATA_PATH '{data or folder / 'data'}')")
        self.db.execute("USE l")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.db.execute(statement)

    def snapshot(self) -> int:
        return self.db.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('l')").fetchone()[0]

    def ours(self, table: str, sql: str, snapshot: int | None = None, flags: tuple = (), **options: str) -> str:
        """A result of ours as a Parquet file; in `sql` the table is `t`."""
        result = self.folder / "result.parquet"
        options |= {"table": table} | ({} if snapshot is None else {"snapshot": str(snapshot)})
        words = ", ".join(f"'{name}' '{value}'" for name, value in options.items())
        create = f"CREATE EXTERNAL TABLE t STORED AS DUCKLAKE LOCATION '{self.catalog}' OPTIONS ({words})"
        run = subprocess.run(
            [os.environ["PAGECAST"], "sql", "-q", *flags, "-c", f"{create}; {sql}", "--format", "parquet", "-o", result],
            capture_output=True,
            text=True,
            timeout=120,
        )
        if run.returncode != 0:
            assert "panicked" not in run.stderr, run.stderr
            raise Refused(run.stderr.strip())
        return str(result)

    def same(self, table: str, sql: str = "SELECT * FROM t", snapshot: int | None = None, **options: str) -> None:
        """Fails unless both say the same of a snapshot, as texts of DuckDB."""
        result = self.ours(table, sql, snapshot, **options)
        at = "" if snapshot is None else f" AT (VERSION => {snapshot})"
        theirs = sql.replace("FROM t", f"FROM {table}{at}")
        names = [column[0] for column in self.db.execute(f"DESCRIBE {theirs}").fetchall()]
        texts = ", ".join(f'"{name}"::VARCHAR AS "{name}"' for name in names)
        ours = f"SELECT {texts} FROM '{result}'"
        theirs = f"SELECT {texts} FROM ({theirs})"
        for one, other in ((ours, theirs), (theirs, ours)):
            rows = self.db.execute(f"{one} EXCEPT ALL {other}").fetchall()
            assert not rows, f"{table} at {snapshot}, {sql}: only {'ours' if one == ours else 'DuckDB'} has {rows[:5]}"
