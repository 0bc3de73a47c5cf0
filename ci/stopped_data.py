"""Tables for ci/stops.py: few bytes on disk and many files, and a store that hangs."""

import glob
import json
import os
import socketserver
import subprocess
import sysconfig
import threading
import time
from pathlib import Path

FILES = 200
ROWS = "SELECT value AS k, value::DOUBLE AS p, 'text ' || value AS s FROM"


def made(command: Path, folder: Path) -> tuple[list[str], set[str]]:
    """Writes the tables. Gives what `pagecast` is to be told of them, and shapes that have none."""
    data, lake = folder / "data", folder / "lake"
    for each in (data, lake):
        each.mkdir()

    def copy(to: Path, rows: str) -> None:
        to.parent.mkdir(exist_ok=True)
        subprocess.run([command, "sql", "-q", "-c", f"COPY ({rows}) TO '{to}'"], check=True, stdout=subprocess.DEVNULL)

    copy(data / "s.parquet", f"{ROWS} range(300000)")
    copy(data / "t.parquet", f"{ROWS} range(1000)")
    for ending in ("parquet", "csv", "json", "arrow"):
        first = data / f"many_{ending}" / f"0.{ending}"
        copy(first, f"{ROWS} range(1000000)")
        for at in range(1, FILES):
            os.link(first, first.with_name(f"{at}.{ending}"))
    one = data / "many_parquet" / "0.parquet"
    delta(data / "many_delta", one)
    missing = set()
    for name, write in (("Iceberg", iceberg), ("DuckLake", ducklake)):
        try:
            write(data, lake, one)
        except ImportError as error:
            print(f"skipped: {name}, {error}")
            missing.add(name)
    return ["--data", str(data), "--allow", str(lake)], missing


def links(of: Path, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{at}.parquet" for at in range(FILES)]
    for file in files:
        os.link(of, file)
    return files


def delta(table: Path, one: Path) -> None:
    files = links(one, table)
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}}
              for name, kind in (("k", "long"), ("p", "double"), ("s", "string"))]
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "00000000-0000-0000-0000-000000000000", "format": {"provider": "parquet", "options": {}},
                      "schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": [],
                      "configuration": {}, "createdTime": 0}},
        *({"add": {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0,
                   "dataChange": True}} for file in files),
    ]
    log = table / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def iceberg(data: Path, lake: Path, one: Path) -> None:
    import pyarrow.parquet
    from pyiceberg.catalog.sql import SqlCatalog

    files = links(one, data / "many_iceberg" / "data")
    catalog = SqlCatalog("default", uri=f"sqlite:///{lake / 'iceberg.db'}", warehouse=f"file://{lake}")
    catalog.create_namespace("n")
    schema = pyarrow.parquet.read_schema(one)
    table = catalog.create_table("n.many", schema, location=f"file://{data / 'many_iceberg'}")
    table.add_files([f"file://{file}" for file in files])


def ducklake(data: Path, lake: Path, one: Path) -> None:
    import duckdb

    packages = Path(sysconfig.get_paths()["purelib"])
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in ("sqlite_scanner", "ducklake"):
        found = glob.glob(str(packages / f"duckdb_extension_{extension}/extensions/*/*.duckdb_extension"))
        if not found:
            raise ImportError(f"no duckdb_extension_{extension}")
        db.execute(f"LOAD '{found[0]}'")
    db.execute(f"ATTACH 'ducklake:sqlite:{data / 'lake.ducklake'}' AS l (DATA_PATH '{lake}')")
    db.execute(f"CREATE TABLE l.many_ducklake AS SELECT * FROM '{one}' LIMIT 0")
    for file in links(one, lake / "links"):
        db.execute(f"CALL ducklake_add_data_files('l', 'many_ducklake', '{file}')")
    db.close()


class Hanging:
    """An object store that takes requests and never answers, or answers all but those for bytes."""

    def __init__(self, answers: bool):
        listing = (b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><Contents>'
                   b'<Key>folder/x.parquet</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>'
                   b'<ETag>"a"</ETag><Size>1000000</Size></Contents></ListBucketResult>')

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while line := self.rfile.readline():
                    while self.rfile.readline().strip():
                        pass
                    if answers and b"list-type" in line:
                        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n"
                        self.wfile.write(head % len(listing) + listing)
                    else:
                        time.sleep(600)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Hanging":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Its threads end with the process.
        self.server.shutdown()
