"""Tables behind HTTP and in an S3 store, of servers on this machine."""

import http.server
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pagecast
import pyarrow.fs
import pytest

QUERY = "SELECT state, count(*) AS n, sum(id) AS ids FROM orders WHERE id >= 500 GROUP BY state ORDER BY state"
# The server of the project's own tests of stores; `make test-objects` builds it.
VERSITYGW = shutil.which(os.environ.get("VERSITYGW", "versitygw"))


class Files(http.server.BaseHTTPRequestHandler):
    """The files of a folder, by ranges."""

    protocol_version = "HTTP/1.1"
    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, with_body: bool) -> None:
        self.asked.append(f"{self.command} {self.path}")
        file = self.folder / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        body, status = file.read_bytes(), 200
        size = len(body)
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            first, last = wanted.groups()
            start = int(first) if first else size - int(last)
            end = min(int(last) + 1, size) if first and last else size
            body, status = body[start:end], 206
        self.send_response(status)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("ETag", f'"{size}"')
        self.send_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def files(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Where a server of the data is, and what it is asked."""
    asked: list[str] = []
    handler = type("OfData", (Files,), {"folder": data, "asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.fixture
def bucket(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The endpoint of an S3 store whose `bucket` has the orders in `folder`; keys are set."""
    if VERSITYGW is None:
        pytest.skip("no S3 server: versitygw is not there; `make test-objects` builds it")
    (tmp_path / "bucket").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    keys = {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "not-to-be-shown"}
    command = [VERSITYGW, "--port", place, "--quiet", "posix", str(tmp_path)]
    server = subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.DEVNULL)
    try:
        wait_for(place, server)
        put(f"http://{place}", "bucket/folder/orders.parquet", (data / "orders.parquet").read_bytes())
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-shown")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield f"http://{place}"
    finally:
        server.kill()
        server.wait()


def put(endpoint: str, name: str, body: bytes) -> None:
    store = pyarrow.fs.S3FileSystem(
        access_key="test", secret_key="not-to-be-shown", endpoint_override=endpoint, region="us-east-1"
    )
    with store.open_output_stream(name) as stream:
        stream.write(body)


def wait_for(place: str, server: subprocess.Popen[bytes]) -> None:
    host, port = place.split(":")
    while True:
        assert server.poll() is None, "the server ended at once"
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)


def test_a_file_behind_http(connection: pagecast.Connection, files: tuple[str, list[str]]) -> None:
    place, asked = files
    with pagecast.connect(f"{place}/orders.parquet", memory="64MiB") as remote:
        assert remote.tables() == ["orders"]
        rows = remote.sql(QUERY).to_arrow()
        assert rows.to_pylist() == connection.sql(QUERY).to_arrow().to_pylist() and rows.num_rows == 4
        counts, gets = remote.statistics(), sum(line.startswith("GET") for line in asked)
        assert counts["store_gets"] == gets > 0 and counts["store_bytes_read"] > 0
        # All of it is in the pool.
        assert remote.sql(QUERY).to_arrow() == rows
        assert sum(line.startswith("GET") for line in asked) == gets
    with pytest.raises(pagecast.SqlError, match="no such"):
        pagecast.connect(f"{place}/absent.parquet")


def test_a_statement_names_a_file_behind_http(
    connection: pagecast.Connection, files: tuple[str, list[str]]
) -> None:
    place, _ = files
    connection.register("remote", f"{place}/orders.parquet")
    assert connection.sql("SELECT count(*) FROM remote JOIN orders USING (id)").to_polars().item() == 100_000
    assert connection.sql(f"SELECT count(*) FROM '{place}/days.csv'").to_polars().item() == 2


def test_a_folder_of_a_bucket(connection: pagecast.Connection, bucket: str) -> None:
    with pagecast.connect("s3://bucket/folder", endpoint=bucket, memory="64MiB") as remote:
        assert remote.tables() == ["orders"]
        rows = remote.sql(QUERY).to_arrow()
        assert rows.to_pylist() == connection.sql(QUERY).to_arrow().to_pylist() and rows.num_rows == 4
        first = remote.statistics()
        assert first["store_gets"] > 0 and first["store_heads"] > 0
        assert remote.sql(QUERY).to_arrow() == rows
        assert remote.statistics()["store_gets"] == first["store_gets"]
    with pytest.raises(pagecast.SqlError, match="no such bucket"):
        pagecast.connect("s3://nobody/folder", endpoint=bucket)


def test_a_delta_table_in_a_bucket_is_no_folder_of_files(data: Path, bucket: str) -> None:
    put(bucket, "bucket/lake/t/part-0.parquet", (data / "orders.parquet").read_bytes())
    put(bucket, "bucket/lake/t/_delta_log/00000000000000000000.json", b"{}")
    for place in ("s3://bucket/lake", "s3://bucket/lake/t"):
        with pytest.raises(pagecast.SqlError, match="t is a Delta table, and those are read from folders"):
            pagecast.connect(place, endpoint=bucket)


def test_a_statement_names_a_bucket(connection: pagecast.Connection, bucket: str) -> None:
    with pagecast.connect(memory="64MiB", endpoint=bucket) as remote:
        remote.sql("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://bucket/folder/'").to_arrow()
        rows = remote.sql(QUERY.replace("FROM orders", "FROM t")).to_arrow()
        assert rows.to_pylist() == connection.sql(QUERY).to_arrow().to_pylist()


def test_a_wrong_key_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    with pytest.raises(pagecast.SqlError, match="AWS_SECRET_ACCESS_KEY does not belong") as raised:
        pagecast.connect("s3://bucket/folder", endpoint=bucket)
    assert "hunter2" not in str(raised.value)
