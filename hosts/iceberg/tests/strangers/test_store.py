"""Tables in an S3 store, of a server on this machine: pyiceberg writes and reads them beside."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo

import ours

# The server of the project's own tests of stores; `make test-objects` builds it.
VERSITYGW = shutil.which(os.environ.get("VERSITYGW", "versitygw"))
KEYS = ("test", "not-to-be-shown")


def rows_of(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "state": [f"s{i % 3}" for i in ids]})


@unittest.skipIf(VERSITYGW is None, "no S3 server: versitygw is not there; `make test-objects` builds it")
class InStore(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "store" / "lake").mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            place = f"127.0.0.1:{free.getsockname()[1]}"
        words = [VERSITYGW, "--port", place, "--quiet", "posix", str(self.folder / "store")]
        keys = dict(zip(("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"), KEYS))
        server = subprocess.Popen(words, env=os.environ | keys, stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.wait_for(place, server)
        self.endpoint = f"http://{place}"
        of_aws = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"), (*KEYS, "us-east-1")))
        patched = mock.patch.dict(os.environ, of_aws)
        patched.start()
        self.addCleanup(patched.stop)
        self.catalog = SqlCatalog(
            "default", uri=f"sqlite:///{self.folder}/catalog.db", warehouse="s3://lake/warehouse",
            **{"s3.endpoint": self.endpoint, "s3.access-key-id": KEYS[0], "s3.secret-access-key": KEYS[1],
               "s3.region": "us-east-1"})
        self.catalog.create_namespace("n")
        self.table = self.catalog.create_table("n.t", rows_of(0, 1).schema)
        self.table.append(rows_of(0, 100))

    def wait_for(self, place: str, server: subprocess.Popen):
        host, port = place.split(":")
        for _ in range(200):
            self.assertIsNone(server.poll(), "the server ended at once")
            try:
                return socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                time.sleep(0.05)
        self.fail("the server does not answer")

    def asked(self, sql: str, *flags: str) -> subprocess.CompletedProcess:
        """In a session of no tables, unless the flags name some."""
        words = [ours.BINARY, "sql", "--endpoint", self.endpoint, *flags, "-q", "-c", sql]
        return subprocess.run(words, capture_output=True, text=True, timeout=300)

    def found(self, sql: str, *flags: str) -> list[dict]:
        output = self.folder / "rows.parquet"
        done = self.asked(sql, *flags, "--format", "parquet", "-o", str(output))
        self.assertEqual(done.returncode, 0, done.stderr)
        return pq.read_table(output).to_pylist()

    def fault(self, sql: str, *flags: str) -> str:
        done = self.asked(sql, *flags)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn(KEYS[1], done.stderr)
        return done.stderr

    def theirs(self) -> list[dict]:
        return self.table.scan().to_arrow().to_pylist()

    def create(self, location: str, options: str = "") -> str:
        return f"CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{location}' {options}; "

    def test_metadata_file(self):
        ours.same(self, self.found(self.create(self.table.metadata_location) + "SELECT * FROM t"), self.theirs())

    def test_data(self):
        first = self.table.current_snapshot().snapshot_id
        self.table.append(rows_of(100, 50))
        self.table.delete(EqualTo("state", "s1"))
        for data in ("s3://lake/warehouse/n", "s3://lake/warehouse/n/t", "s3://lake/warehouse/n/t/"):
            with self.subTest(data=data):
                ours.same(self, self.found("SELECT * FROM t", "--data", data), self.theirs())
        old = f'SELECT count(*) AS n FROM "t@s{first}"'
        self.assertEqual(self.found(old, "--data", "s3://lake/warehouse/n"), [{"n": 100}])
        self.assertEqual(self.found(self.create(self.table.location()) + old), [{"n": 100}])

    def test_catalog(self):
        options = "OPTIONS ('table' 'n.t', 'allow' 's3://lake/warehouse')"
        ours.same(self, self.found(self.create(f"{self.folder}/catalog.db", options) + "SELECT * FROM t"), self.theirs())
        self.assertIn("s3://lake/warehouse", self.fault(self.create(f"{self.folder}/catalog.db", "OPTIONS ('table' 'n.t')")))

    def test_nothing_is_there(self):
        self.assertIn("s3://lake/warehouse/nothing", self.fault(self.create("s3://lake/warehouse/nothing")))
        self.assertIn("no store", self.fault(self.create("ftp://lake/t")))

    def test_a_delta_table_is_no_folder_of_files(self):
        store = pafs.S3FileSystem(access_key=KEYS[0], secret_key=KEYS[1], region="us-east-1", scheme="http",
                                  endpoint_override=self.endpoint.removeprefix("http://"))
        pq.write_table(rows_of(0, 3), "lake/d/t/part-0.parquet", filesystem=store)
        with store.open_output_stream("lake/d/t/_delta_log/00000000000000000000.json") as log:
            log.write(b"{}")
        for data in ("s3://lake/d", "s3://lake/d/t"):
            self.assertIn("d/t is a Delta table", self.fault("SELECT * FROM t", "--data", data))
        self.assertIn("d/t is a Delta table", self.fault("SELECT * FROM 's3://lake/d/t'"))


if __name__ == "__main__":
    unittest.main()
