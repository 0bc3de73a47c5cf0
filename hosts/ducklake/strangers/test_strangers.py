"""What DuckDB writes into a lake, read by us beside DuckDB."""

import os
import random
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from lakes import Lake, Refused

ROWS = "SELECT i AS id, 'n' || i AS name, i % 10 AS k FROM range(1000) r(i)"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_every_type_in_files_and_in_the_catalog(lake: Lake) -> None:
    lake.run(
        """CREATE TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f UTINYINT, g USMALLINT, h UINTEGER,
        i UBIGINT, j FLOAT, k DOUBLE, l DECIMAL(10, 2), m DECIMAL(38, 10), n VARCHAR, o BLOB, p DATE, q TIME,
        r TIMESTAMP, s TIMESTAMPTZ, t JSON, u UUID)""",
        """INSERT INTO t SELECT true, -1, 300, 70000, 1::BIGINT << 40, 200, 60000, 4000000000, 18446744073709551615,
        1.5, 0.1, -12.25, 3.0000000001, 'ä''"', 'a\\x00b'::BLOB, DATE '1969-12-31', TIME '23:59:59.5',
        TIMESTAMP '1960-01-01 00:00:00.000001', TIMESTAMPTZ '2024-02-29 12:00:00+03', '{"x": 1}',
        '6ecd8c99-4036-403d-bf84-cf8400f67836'""",
        "INSERT INTO t (a) VALUES (NULL)",
    )
    lake.same("t")
    lake.run("CALL ducklake_flush_inlined_data('l')")
    lake.same("t")
    lake.same("t", "SELECT d, s FROM t WHERE e > 5 AND p < DATE '1970-01-01'")


def test_nested_columns(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE t (s STRUCT(x INT, y VARCHAR), l INT[], m MAP(VARCHAR, INT), d STRUCT(p STRUCT(q INT[])))",
        "INSERT INTO t SELECT {x: i, y: 'y' || i}, [i, NULL], MAP {'k': i}, {p: {q: [i]}} FROM range(100) r(i)",
        "ALTER TABLE t ADD COLUMN s.z INT",
        "ALTER TABLE t RENAME COLUMN s.y TO why",
        "INSERT INTO t SELECT {x: i, why: NULL, z: i}, [], NULL, NULL FROM range(100) r(i)",
    )
    lake.same("t")
    lake.same("t", "SELECT s.x AS x, s.z AS z, m, d FROM t WHERE s.x > 40")
    lake.run("INSERT INTO t VALUES (NULL, NULL, NULL, NULL)")
    with pytest.raises(Refused, match="rows in the catalog whose column s .* ducklake_flush_inlined_data"):
        lake.same("t")
    lake.run("CALL ducklake_flush_inlined_data('l')")
    lake.same("t")


def test_columns_that_changed(lake: Lake) -> None:
    lake.run(
        f"CREATE TABLE t AS {ROWS}",
        "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 7",
        "ALTER TABLE t RENAME COLUMN name TO old",
        "ALTER TABLE t RENAME COLUMN k TO name",
        "INSERT INTO t SELECT i, 'new', i, i FROM range(500) r(i)",
        "ALTER TABLE t ALTER n TYPE BIGINT",
        "ALTER TABLE t DROP COLUMN old",
        "ALTER TABLE t ADD COLUMN old DATE DEFAULT '2024-02-29'",
    )
    lake.same("t")
    lake.same("t", "SELECT id, n, old FROM t WHERE name = 3 AND n >= 7")
    for snapshot in range(1, lake.snapshot() + 1):
        lake.same("t", snapshot=snapshot)


def test_schemas_partitions_and_filters(lake: Lake) -> None:
    lake.run(
        "CREATE SCHEMA other",
        "CREATE TABLE other.p (k INT, d DATE, v INT)",
        "ALTER TABLE other.p SET PARTITIONED BY (k, year(d))",
        "INSERT INTO other.p SELECT i % 3, DATE '2020-01-01' + i::INT, i FROM range(1000) r(i)",
    )
    lake.same("other.p")
    lake.same("other.p", "SELECT count(*) AS n, sum(v) AS v FROM t WHERE k = 1 AND d >= DATE '2021-03-01'")


def test_a_catalog_in_the_folder_of_the_data(lake: Lake) -> None:
    lake.run(f"CREATE TABLE t AS {ROWS}", "CREATE TABLE u AS SELECT 1 AS one", "DELETE FROM t WHERE id < 100")
    for data in (lake.folder, lake.catalog):
        run = [os.environ["PAGECAST"], "sql", "--data", data, "-q", "--format", "csv"]
        sql = "SELECT count(*) AS n, max(id) AS id FROM t; SELECT one FROM u"
        said = subprocess.run([*run, "-c", sql], capture_output=True, text=True, timeout=60)
        assert said.stdout.split() == ["n,id", "900,999", "one", "1"], said


def test_added_files(lake: Lake) -> None:
    file = lake.folder / "added.parquet"
    lake.run(
        f"CREATE TABLE t AS {ROWS}",
        f"COPY (SELECT i AS k, 'a' || i AS name, -i AS id FROM range(50) r(i)) TO '{file}'",
        f"CALL ducklake_add_data_files('l', 't', '{file}')",
    )
    lake.same("t")
    lake.same("t", "SELECT name FROM t WHERE id < 0 AND k > 44")


def test_every_snapshot_of_random_changes(tmp_path: Path) -> None:
    for seed in range(6):
        chance = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        lake = Lake(folder)
        lake.run(f"CREATE TABLE t AS {ROWS}")
        if seed % 2 == 1:
            lake.run("CALL l.set_option('write_deletion_vectors', true)")
        for _ in range(14):
            some = f"id % {chance.choice([3, 50, 400])} = {chance.randrange(3)}"
            count = chance.choice([1, 5, 300])
            lake.run(
                chance.choice(
                    [
                        f"DELETE FROM t WHERE {some}",
                        f"UPDATE t SET k = k + 1 WHERE {some}",
                        f"INSERT INTO t SELECT 2000 + i, NULL, i FROM range({count}) r(i)",
                        "CALL ducklake_flush_inlined_data('l')",
                        "CALL ducklake_merge_adjacent_files('l')",
                    ]
                )
            )
        for snapshot in range(1, lake.snapshot() + 1):
            lake.same("t", snapshot=snapshot)
        lake.same("t", "SELECT count(*) AS n, sum(k) AS k, min(id) AS low FROM t WHERE id > 900")


def test_snapshots_have_names(lake: Lake) -> None:
    lake.run(f"CREATE TABLE a AS {ROWS}", "DELETE FROM a WHERE k = 3", "INSERT INTO a SELECT id + 1000, name, k FROM a")
    lake.run("UPDATE a SET k = 11 WHERE id < 50", "DELETE FROM a WHERE id > 1500")
    sums = "SELECT count(*) AS n, sum(id) AS ids, sum(k) AS k FROM"
    for snapshot in range(1, lake.snapshot() + 1):
        result = lake.ours("a", f'{sums} "t@v{snapshot}"')
        theirs = lake.db.execute(f"{sums} a AT (VERSION => {snapshot})").fetchall()
        assert lake.db.execute(f"FROM '{result}'").fetchall() == theirs, snapshot
    with pytest.raises(Refused, match="there is no snapshot 99"):
        lake.ours("a", 'SELECT * FROM "t@v99"')


def test_all_tables_of_a_statement_are_of_one_snapshot(lake: Lake) -> None:
    lake.run("CREATE TABLE a (i BIGINT)", "CREATE TABLE b (i BIGINT)")
    sql = "SELECT (SELECT count(*) FROM a) AS a, (SELECT count(*) FROM b) AS b, (SELECT count(i) FROM a) AS again"
    ours = [os.environ["PAGECAST"], "sql", "-q", "--data", lake.catalog, "-c", ";".join([sql] * 300)]
    with subprocess.Popen([*ours, "--format", "csv"], stdout=subprocess.PIPE, text=True) as reader:
        while reader.poll() is None:
            lake.run("BEGIN", "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)", "COMMIT")
        counts = [tuple(map(int, line.split(","))) for line in reader.stdout if line[0].isdigit()]
    assert reader.returncode == 0 and len(counts) == 300
    assert all(a == b == again for a, b, again in counts), counts
    assert len(set(counts)) > 3, "nothing was written meanwhile"


def test_files_elsewhere_are_refused_unless_allowed(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    home.mkdir()
    lake = Lake(home, data)
    lake.run(f"CREATE TABLE t AS {ROWS}")
    with pytest.raises(Refused, match="lies outside of the folders that may be read"):
        lake.same("t")
    lake.same("t", allow=str(data))
    lake.ours("t", "SELECT * FROM t", flags=("--allow", data))
    for path in ("../../secret.parquet", "/etc/passwd"):
        shutil.copy(lake.catalog, home / "kept")
        catalog = sqlite3.connect(lake.catalog)
        with catalog:
            relative = int(not path.startswith("/"))
            catalog.execute("UPDATE ducklake_data_file SET path = ?, path_is_relative = ?", (path, relative))
        catalog.close()
        with pytest.raises(Refused, match="lies outside of the folders that may be read"):
            lake.ours("t", "SELECT * FROM t", allow=str(data))
        shutil.copy(home / "kept", lake.catalog)


def test_what_is_missing_or_broken_is_said(lake: Lake) -> None:
    lake.run(f"CREATE TABLE t AS {ROWS}", "CREATE TABLE h AS SELECT 1::HUGEINT AS huge", "DELETE FROM t WHERE id < 500")
    for table, options, said in [
        ("u", {}, "there is no table main.u at snapshot"),
        ("t", {"snapshot": "99"}, "there is no snapshot 99; the newest is"),
        ("h", {}, "type int128"),
        ("t", {"version": "1"}, "no option version"),
    ]:
        with pytest.raises(Refused, match=said):
            lake.ours(table, "SELECT * FROM t", **options)
    chance = random.Random(7)
    files = [lake.catalog, *lake.folder.rglob("*.parquet")]
    lake.db.execute("USE memory")
    lake.db.execute("DETACH l")
    refused = 0
    for _ in range(60):
        file = chance.choice(files)
        whole = file.read_bytes()
        bytes_ = bytearray(whole)
        if chance.random() < 0.3:
            bytes_ = bytes_[: chance.randrange(len(bytes_))]
        else:
            for _ in range(chance.choice([1, 20])):
                bytes_[chance.randrange(len(bytes_))] = chance.randrange(256)
        file.write_bytes(bytes_)
        try:
            lake.ours("t", "SELECT count(*) AS n, sum(id) AS id, max(name) AS name FROM t")
        except Refused as fault:
            assert "panicked" not in str(fault) and len(str(fault)) < 2000, fault
            refused += 1
        file.write_bytes(whole)
    assert refused > 5
